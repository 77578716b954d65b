"""From a map to batches: rows that stand in a store, ready to be dealt to blocks, and the sum that proves them.

Same type as `feed.pack.Columns`, so the feed cannot tell a stored row from a decoded one. Integers that are stored in 4
bytes and wanted in 8 are widened on the way. Called in reading threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.feed.block import Array, Blocks, Layout
from rowmill.feed.parts import parts
from rowmill.feed.rows import copy_parts
from rowmill.store.checksum import digest
from rowmill.store.gather import gather_parts


class Mapped:
    """Rows that stand one after another in a store."""

    def __init__(
        self, layout: Layout, rows: int, addresses: Sequence[int], maps: Any, loose: pl.DataFrame | None = None
    ) -> None:
        self.layout, self.rows, self.loose = layout, rows, loose
        self._addresses = np.array(addresses, np.uint64)
        self._row_bytes = np.array([matrix.row_bytes for matrix in layout.matrices], np.int64)
        self._maps = maps  # what keeps the memory alive

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        if not self.layout.matrices:  # lists alone, which come loose
            return
        begins = self._addresses + (start * self._row_bytes).astype(np.uint64)
        lines = parts(self.layout, blocks.layout)
        copy_parts(begins, self._row_bytes, lines, places, blocks.unit, blocks.targets)


class Gathered(Mapped):
    """Rows of a store in any order, by their numbers."""

    def __init__(
        self,
        layout: Layout,
        rows: NDArray[np.int64],
        addresses: Sequence[int],
        maps: Any,
        loose: pl.DataFrame | None = None,
    ) -> None:
        super().__init__(layout, len(rows), addresses, maps, loose)
        self._numbers = np.ascontiguousarray(rows, np.int64)

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows number `start` and on of those asked for to their places in the blocks."""
        if not self.layout.matrices:
            return
        numbers, lines = self._numbers[start : start + len(places)], parts(self.layout, blocks.layout)
        gather_parts(self._addresses, self._row_bytes, lines, numbers, places, blocks.unit, blocks.targets)


def summed(arrays: Iterable[Array], total: int = 0) -> int:
    """One checksum of some arrays, each whole in memory, and of what has this checksum before them."""
    for array in arrays:
        total = digest(np.uint64(array.__array_interface__["data"][0]), array.nbytes, np.uint64(total))
    return int(total)
