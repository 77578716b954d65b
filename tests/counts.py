"""How often things are tried: a few times in everyday runs of the tests, many times in full ones.

`ROWMILL_HOSTILE=full` raises the counts of `tests/hostile`, `ROWMILL_THOROUGH=1` those of all other tests; `make
test-all` sets both. What a run has tried is printed at its end: tests say it through the fixture `tried`.
"""

import os

HOSTILE = os.environ.get("ROWMILL_HOSTILE") == "full"
THOROUGH = os.environ.get("ROWMILL_THOROUGH", "") not in ("", "0")


def hostile(everyday: int, full: int) -> int:
    return full if HOSTILE else everyday


def thorough(everyday: int, full: int) -> int:
    return full if THOROUGH else everyday


def mode() -> str:
    """Which counts this run has."""
    if HOSTILE == THOROUGH:
        return "full" if HOSTILE else "everyday"
    return "full in tests/hostile alone" if HOSTILE else "full outside tests/hostile"
