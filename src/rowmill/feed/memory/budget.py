"""One setting for memory, divided among fragments, chunks and what waits to be trained on. Called by `run.stream`.

1/4  the chunk whose batches are being handed out
1/4  the chunk being filled meanwhile
1/6  fragments that have been decoded, all threads together
1/3  what decoding them takes besides (compressed bytes, pages, memory that the allocator gives back late: measured
     as twice the fragments), and the batch in the training loop
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rowmill._system.sizes import parse_memory, total_memory

Memory = int | float | str | Literal["auto"]
COMMON = 10**9  # the memory setting from which the order of several ranks follows with "auto"
# Lists and strings are in memory as decoded, put in order, and in the batch of the training loop. Chunks are planned
# with a little more: those whose rows are as large as planned stay below the limit (2 / 3.2 of the memory of chunks).
_VARIABLE_COPIES = 3.2
_PLACE_BYTES = 10  # of a shuffled row: its place, and what working it out takes (`permute.places`)
_VARIABLE_SHARE = 0.65


def row_bytes(packed: float, planned: float, variable: float, *, shuffled: bool) -> float:
    """Bytes of a row in a chunk. `packed`: as it is delivered, `planned`: of its matrices in the widest dtypes of any
    loader, `variable`: of its lists and strings."""
    return max(packed, planned + variable * _VARIABLE_COPIES) + (_PLACE_BYTES if shuffled else 0)


@dataclass(frozen=True, slots=True)
class Budget:
    """The memory setting, divided. Fragments and chunks depend on nothing else, so the order of rows does not change
    with the threads.

    `common`: what fragments, and the chunks of several ranks, are planned for. Differs from `total` with "auto" only:
    ranks on different machines must agree on the order without a message.
    """

    total: int
    common: int
    automatic: bool = False

    @classmethod
    def of(cls, memory: Memory, cores: int, fragment_bytes: float, machine: int | None = None) -> Budget:
        """The budget of a setting. "auto": what `cores` need to decode fragments of this size, at least 1 GB,
        and at most a quarter of the machine's memory (not of what is free of it: the order of rows would change with
        what else is running)."""
        if memory != "auto":
            total = parse_memory(memory)
            return cls(total, total)
        needed = 6 * cores * min(fragment_bytes, COMMON / 12)
        most = (total_memory() if machine is None else machine) // 4
        return cls(min(most, max(COMMON, int(needed))), COMMON, automatic=True)

    @property
    def chunk(self) -> int:
        """The most bytes of packed rows that are shuffled together."""
        return self.total // 4

    def chunk_of(self, ranks: int) -> int:
        """The most bytes of a chunk of one rank, where there are `ranks` of them."""
        return self.chunk if ranks == 1 else self.common // 4

    def resumed_chunk(self, state: Mapping[str, Any], batch_bytes: float) -> int | None:
        """With "auto", the batches of a chunk on the machine that a state was saved on, if they fit in this one."""
        batches = state.get("chunk_batches")
        fits = type(batches) is int and 1 <= batches <= max(1, total_memory() // 16 / batch_bytes)
        return batches if self.automatic and fits else None

    @property
    def window(self) -> int:
        """Bytes of packed rows between the readers and the training loop."""
        return 2 * self.chunk

    @property
    def fragment(self) -> int:
        """The largest fragment: two of them may be in flight. Cutting a row group in two costs 40% more to decode."""
        return self.common // 12

    def slice(self, uneven: bool) -> int:
        """The most bytes of a fragment that are decoded at once; fewer where rows may differ in size."""
        return self.fragment // 2 if uneven else self.fragment

    def variable(self, fixed: float) -> float:
        """Bytes for the lists and strings of open chunks, where matrices take this part of a row."""
        return _VARIABLE_SHARE * self.window * (1 - fixed)

    def decoding(self, threads: int, fragment_bytes: float) -> float:
        """What threads take that decode fragments of this size: the fragments, and twice as much besides."""
        return 3 * threads * fragment_bytes

    def threads(self, wanted: int, fragment_bytes: float) -> int:
        """As many reading threads as wanted, but no more than fragments of this size fit in flight."""
        return max(1, min(wanted, int(self.total // 6 // max(1.0, fragment_bytes))))
