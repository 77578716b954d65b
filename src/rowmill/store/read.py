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
from rowmill.feed.rows import copy_rows
from rowmill.store.checksum import digest
from rowmill.store.kernels import gather_rows


class Mapped:
    """Rows that stand one after another in a store."""

    def __init__(
        self, layout: Layout, rows: int, addresses: Sequence[int], maps: Any, loose: pl.DataFrame | None = None
    ) -> None:
        self.layout, self.rows, self.loose = layout, rows, loose
        self._addresses = addresses
        self._maps = maps  # what keeps the memory alive

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        for number, matrix in enumerate(self.layout.matrices):
            source = np.uint64(self._addresses[number] + start * matrix.row_bytes)
            times = blocks[0].matrices[number].itemsize // matrix.dtype.itemsize
            copy_rows(source, matrix.row_bytes, times, places, blocks.unit, blocks.targets[number])


class Gathered:
    """Rows of a store in any order, by their numbers."""

    def __init__(
        self,
        layout: Layout,
        rows: NDArray[np.int64],
        addresses: Sequence[int],
        maps: Any,
        loose: pl.DataFrame | None = None,
    ) -> None:
        self.layout, self.rows, self.loose = layout, len(rows), loose
        self._numbers, self._addresses, self._maps = rows, addresses, maps

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows number `start` and on of those asked for to their places in the blocks."""
        numbers, unit, targets = self._numbers[start : start + len(places)], blocks.unit, blocks.targets
        for number, matrix in enumerate(self.layout.matrices):
            source = np.uint64(self._addresses[number])
            times = blocks[0].matrices[number].itemsize // matrix.dtype.itemsize
            gather_rows(source, matrix.row_bytes, times, numbers, places, unit, targets[number])


def summed(arrays: Iterable[Array], total: int = 0) -> int:
    """One checksum of some arrays, each whole in memory, and of what has this checksum before them."""
    for array in arrays:
        total = digest(np.uint64(array.__array_interface__["data"][0]), array.nbytes, np.uint64(total))
    return int(total)
