"""One setting for memory: read it, and divide it among fragments, chunks and what waits to be trained on.

Comes in: `memory="1GB"` (or bytes, or a fraction of RAM). Goes out: bytes. Called by `stream`.

    1/4  the chunk whose batches are being handed out
    1/4  the chunk being filled meanwhile
    1/6  fragments that have been decoded, all threads together
    1/3  what decoding them takes besides (compressed bytes, pages, memory that the allocator gives back late: measured
         as twice the fragments), and the batch in the training loop
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from rowmill.errors import ArgumentError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(value: int | float | str, *, what: str = "memory") -> int:
    """Bytes of `"1GB"`, `"512MiB"`, `2**30`, or of `0.25` (a fraction of this machine's RAM)."""
    number: float = -1.0
    unit = ""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]i?)?b?\s*", value.lower())
        if match:
            number, unit = float(match[1]), match[2] or ""
    elif not isinstance(value, bool):
        number = value
    if not number > 0:
        raise ArgumentError(f"{what}={value!r}; wanted a size such as '1GB', bytes, or a fraction of RAM such as 0.25")
    if number < 1 and not unit:
        return int(number * total_ram())
    return int(number * _UNITS[unit])


def total_ram() -> int:
    """This machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class Budget:
    """The memory setting, divided. Depends on nothing else, so the order of rows does not change with the threads."""

    total: int

    @property
    def chunk(self) -> int:
        """Bytes of packed rows that are shuffled together."""
        return self.total // 4

    @property
    def window(self) -> int:
        """Bytes of packed rows between the readers and the training loop."""
        return 2 * self.chunk

    @property
    def fragment(self) -> int:
        """The largest fragment: two of them may be in flight. Cutting a row group in two costs 40% more to decode."""
        return self.total // 12

    def threads(self, wanted: int, fragment_bytes: float) -> int:
        """As many reading threads as wanted, but no more than fragments of this size fit in flight."""
        return max(1, min(wanted, int(self.total // 6 // max(1.0, fragment_bytes))))
