"""From columns to rows: writes the columns of a frame into row-major matrices, each row straight to its place in a batch.

Comes in: a frame whose columns have the dtypes of the layout and no nulls. Goes out: nothing; blocks are filled. Called
by the reading threads. Packing and shuffling are one pass: a tile of rows is small enough that the lines it writes stay in
the cache until every column has been there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rowmill.feed.block import Array, Block, Layout

TILE_ROWS = 256

# Values are moved as bits: one compiled kernel for each size.
_BITS = {size: np.empty(0, f"u{size}") for size in (1, 2, 4, 8)}


class Columns:
    """A decoded fragment, ready to be dealt to blocks: the addresses of its columns, and the frame that owns them."""

    def __init__(self, frame: pl.DataFrame, layout: Layout) -> None:
        self.rows = frame.height
        self.layout = layout
        self.loose = frame.select(layout.loose) if layout.loose else None
        fixed = frame.select([c for m in layout.matrices for c in m.columns])
        self._parts = [_Part(start, part, layout) for start, part in _contiguous(fixed)]

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Sequence[Block]) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        stop = start + len(places)
        for part in self._parts:
            first, last = max(start, part.start), min(stop, part.start + part.rows)
            if first < last:
                part.deal(first - part.start, places[first - start : last - start], blocks, self.layout)


class _Part:
    """A run of rows whose columns are each contiguous in memory."""

    def __init__(self, start: int, frame: pl.DataFrame, layout: Layout) -> None:
        self.start, self.rows = start, frame.height
        self.arrays: list[Array] = []
        self.columns: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        for matrix in layout.matrices:
            addresses: list[int] = []
            strides: list[int] = []
            for index, name in enumerate(matrix.columns):
                array = frame.get_column(name).to_numpy()
                width = matrix.widths[index] if matrix.widths else 1
                address = array.__array_interface__["data"][0]
                addresses += [address + matrix.dtype.itemsize * i for i in range(width)]
                strides += [width] * width
                self.arrays.append(array)
            self.columns.append((np.array(addresses, np.uint64), np.array(strides, np.int64)))

    def deal(self, first: int, places: NDArray[np.uint32], blocks: Sequence[Block], layout: Layout) -> None:
        for number, matrix in enumerate(layout.matrices):
            addresses, strides = self.columns[number]
            targets = np.array([block.addresses[number] for block in blocks], np.uint64)
            _scatter(addresses, strides, first, places, targets, blocks[0].rows, _BITS[matrix.dtype.itemsize])


def _contiguous(frame: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    """The frame as slices in which each column is one piece of memory (a join of row groups comes in pieces)."""
    if frame.width == 0 or max(frame.n_chunks("all")) == 1:
        return [(0, frame)]
    pieces = [len(piece) for piece in frame.to_series(0).get_chunks()]
    starts = np.cumsum([0, *pieces[:-1]]).tolist()
    slices = [(start, frame.slice(start, rows)) for start, rows in zip(starts, pieces, strict=True)]
    if any(max(part.n_chunks("all")) > 1 for _, part in slices):
        return [(0, frame.rechunk())]
    return slices


@intrinsic
def _at(typing: Any, address: Any, like: Any) -> Any:
    """A pointer to values of the dtype of `like`, made from an address."""
    pointer = types.CPointer(like.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.uint64, like), generate


@njit(nogil=True, cache=True)
def _scatter(
    columns: Any, strides: Any, first: Any, places: Any, targets: Any, block_rows: Any, like: Any
) -> None:
    width = np.uint64(columns.size)
    size = np.uint64(like.itemsize)
    rows = np.uint64(places.size)
    per_block = np.uint64(block_rows)
    addresses = np.empty(TILE_ROWS, np.uint64)
    start = np.uint64(0)
    while start < rows:
        count = min(np.uint64(TILE_ROWS), rows - start)
        for i in range(count):
            place = np.uint64(places[start + i])
            addresses[i] = targets[place // per_block] + place % per_block * width * size
        for column in range(width):
            stride = np.uint64(strides[column])
            source = _at(columns[column] + (np.uint64(first) + start) * stride * size, like)
            offset = column * size
            if stride == np.uint64(1):
                for i in range(count):
                    _at(addresses[i] + offset, like)[0] = source[i]
            else:
                for i in range(count):
                    _at(addresses[i] + offset, like)[0] = source[i * stride]
        start += count
