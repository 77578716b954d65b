"""Bytes as people write them, and how much of memory and cores the machine has."""

from __future__ import annotations

import operator
import os
import re
from pathlib import Path
from typing import Any

from rowmill.errors import ArgumentError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_ASSUMED_MEMORY = 8 << 30  # bytes of a machine that does not say how many it has
_SIZE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]i?)?b?\s*")


def parse_bytes(size: int | float | str, what: str) -> int:
    """`128_000_000`, `"128MB"` or `"1GiB"` as bytes; `what` names the argument in the error."""
    number: float = 0
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.lower())
        if match:
            number = float(match[1]) * _UNITS[match[2] or ""]
    elif not isinstance(size, bool):
        number = size
    if not number >= 1:
        raise ArgumentError(f"{what} is {size!r}; wanted a number of bytes such as 128_000_000, '128MB' or '1GiB'")
    return int(number)


def parse_memory(size: int | float | str) -> int:
    """A memory setting in bytes, where a number between 0 and 1 is a fraction of this machine's memory."""
    if isinstance(size, float) and 0 < size < 1:
        return int(size * total_memory())
    return parse_bytes(size, "memory")


def total_memory() -> int:
    """The memory of this machine in bytes, or of the container it is."""
    physical = _physical_memory()
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:  # no control group, or none of version 2
        return physical
    return min(physical, int(limit)) if limit.isdigit() else physical


def _physical_memory() -> int:
    if not hasattr(os, "sysconf"):  # Windows
        return _ASSUMED_MEMORY
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores() -> int:
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def as_whole(value: Any) -> Any:
    """A whole number of any kind (NumPy's too) as Python's; anything else as it is."""
    try:
        return value if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return value


def partition_bytes(size: int | str | None, fraction: float | None) -> int | None:
    """The bytes that a partition may hold: `part_size`, or `part_mem_fraction` of the machine's memory."""
    if size is not None:
        return parse_bytes(size, "part_size")
    if fraction is None:
        return None
    if not 0 < fraction < 1:
        raise ArgumentError(f"part_mem_fraction is {fraction}; wanted more than 0 and less than 1")
    return int(total_memory() * fraction)
