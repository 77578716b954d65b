"""Rows of a memory-mapped store, ready to be copied to blocks, and their checksum.

Same type as `feed.pack.Columns`, so the feed cannot tell a stored row from a decoded one. Integers that are stored in 4
bytes and wanted in 8 are widened on the way. Called in reading threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
import xxhash
from numpy.typing import NDArray

from rowmill import _native
from rowmill.feed.memory.block import Array, Blocks, Layout
from rowmill.feed.pack.copy_plan import parts

STREAM_BYTES = 4 << 20  # more than this is written with non-temporal stores: it would leave the cache before it is used


class Mapped:
    """Rows that stand one after another in a store, as row-major matrices."""

    def __init__(
        self, layout: Layout, rows: int, matrices: Sequence[Array], variable: pl.DataFrame | None = None
    ) -> None:
        self.layout, self.rows, self.variable = layout, rows, variable
        self._matrices = matrices

    def copy_rows(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        if self.layout.matrices:  # else there are lists alone, which come as `variable`
            plan = parts(self.layout, blocks.layout)
            _native.copy_rows(self._matrices, start, plan, places, blocks.destination)


class Gathered(Mapped):
    """Rows of a store in any order, by their numbers."""

    def __init__(
        self, layout: Layout, rows: NDArray[np.int64], matrices: Sequence[Array], variable: pl.DataFrame | None = None
    ) -> None:
        super().__init__(layout, len(rows), matrices, variable)
        self._numbers = np.ascontiguousarray(rows, np.int64)

    def copy_rows(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows number `start` and on of those asked for to their places in the blocks."""
        if self.layout.matrices:
            numbers, plan = self._numbers[start : start + len(places)], parts(self.layout, blocks.layout)
            streaming = len(places) * blocks.layout.row_bytes >= STREAM_BYTES
            _native.gather_rows(self._matrices, numbers, plan, places, blocks.destination, streaming)


def summed(arrays: Iterable[Array], total: int = 0) -> int:
    """One checksum (XXH3) of some arrays, each contiguous, and of what has this checksum before them."""
    for array in arrays:
        total = xxhash.xxh3_64_intdigest(array.reshape(-1).view(np.uint8).data, total)
    return total
