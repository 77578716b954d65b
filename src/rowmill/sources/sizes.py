"""Bytes as people write them, and how many the machine has."""

from __future__ import annotations

import os
import re

from rowmill.errors import ArgumentError

_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


def parse_bytes(size: int | float | str, what: str) -> int:
    """`128_000_000`, `"128MB"` or `"1GiB"` as bytes; `what` names the argument in the error."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", size.lower())
        if match and match[2] in _UNITS and match[1].count(".") <= 1:
            size = float(match[1]) * _UNITS[match[2]]
    if isinstance(size, str) or not size >= 1:
        raise ArgumentError(f"{what} is {size!r}; wanted a number of bytes such as 128_000_000, '128MB' or '1GiB'")
    return int(size)


def total_memory() -> int:
    """The memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
