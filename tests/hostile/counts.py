"""How often a test tries: a few times by default, in full with ROWMILL_HOSTILE=full."""

import os


def count(small: int, full: int) -> int:
    return full if os.environ.get("ROWMILL_HOSTILE") == "full" else small
