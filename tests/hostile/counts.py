"""How often each attack is tried: a few times in every run of the tests, many times with `ROWMILL_HOSTILE=full`."""

import os

FULL = os.environ.get("ROWMILL_HOSTILE") == "full"


def count(small: int, full: int) -> int:
    return full if FULL else small
