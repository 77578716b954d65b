"""From columns to rows: writes the columns of a frame into row-major matrices, each row to its place in a batch.

Comes in: a frame of numbers without nulls. Goes out: nothing; blocks are filled. Called by the reading threads. A tile
of rows is packed in memory that stays in the cache, with a change of dtype on the way, and its rows are copied to their
places from there. Columns of column-major matrices are written to their places at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill import _native
from rowmill.errors import DtypeError
from rowmill.feed.memory.block import Array, Block, Blocks, Layout
from rowmill.feed.pack.copy_plan import NUMBER, parts
from rowmill.sources.names import columns as exact

TILE_BYTES = 640 << 10  # packed at a time: what stays in the cache of a core, or almost
_ROWS = 8  # of which a tile has a multiple: the values of 8 bytes in a cache line


class RowSource(Protocol):
    """Rows on their way to batches: decoded ones, or those of a store."""

    rows: int
    variable: pl.DataFrame | None  # the variable-size columns: lists and strings

    def copy_rows(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        ...


def tile_rows(layout: Layout) -> int:
    """How many rows of a layout are packed at a time."""
    return max(1, TILE_BYTES // max(1, layout.row_bytes) // _ROWS) * _ROWS


class Columns:
    """A decoded fragment, ready to be copied to blocks."""

    def __init__(self, frame: pl.DataFrame, layout: Layout) -> None:
        self.rows = frame.height
        self.layout = layout
        self.variable = frame.select(exact(layout.variable)) if layout.variable else None
        fixed = frame if frame.columns == layout.fixed else frame.select(exact(layout.fixed))
        self._runs = [_Run(start, part, layout) for start, part in _contiguous(fixed)]

    def copy_rows(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        tile = Block.new(self.layout, min(len(places), tile_rows(self.layout)))
        for run, first, rows, at in self._over(start, len(places)):
            run.copy(first, places[at : at + rows], blocks, tile.matrices)

    def deal_and_keep(self, start: int, places: NDArray[np.uint32], blocks: Blocks, packed: Block) -> None:
        """Write rows to their places in blocks of another layout, and leave them packed in a block of this one."""
        for run, first, rows, at in self._over(start, len(places)):
            run.copy(first, places[at : at + rows], blocks, packed.view(at, rows))

    def pack(self, start: int, block: Block) -> None:
        """Write rows `start` and on, as many as the block has, in their order to a row-major block."""
        for run, first, rows, at in self._over(start, block.rows):
            run.pack(first, block.view(at, rows))

    def _over(self, start: int, rows: int) -> Iterator[tuple[_Run, int, int, int]]:
        """The runs that hold these rows: with which of its own each begins, how many they are, how many are before."""
        for run in self._runs:
            first, last = max(start, run.start), min(start + rows, run.start + run.rows)
            if first < last:
                yield run, first - run.start, last - first, first - start

    def into(self, layout: Layout) -> Columns:
        """These columns on their way to blocks of another layout, which may have fewer matrices, and fewer bytes."""
        if layout == self.layout:
            return self
        made = copy(self)
        made.layout, made._runs = layout, [run.into(layout) for run in self._runs]
        return made


Decode = Callable[[int, int, int], Iterator[Columns]]  # fragment, first row, rows: the rows in slices, in order


class _Run:
    """A run of rows whose columns are each contiguous in memory."""

    def __init__(self, start: int, frame: pl.DataFrame, layout: Layout) -> None:
        self.start, self.rows = start, frame.height
        self._arrays = {series.name: series.to_numpy() for series in frame.get_columns()}
        self._layout = layout
        self._made: dict[tuple[int, ...], _native.Columns] = {}

    def into(self, layout: Layout) -> _Run:
        made = copy(self)
        made._layout, made._made = layout, {}
        return made

    def copy(self, first: int, places: NDArray[np.uint32], blocks: Blocks, tile: Sequence[Array]) -> None:
        """Write rows `first` and on to their places in the blocks, packed in a tile (or in room for all of them)."""
        plan, packed = parts(self._layout, blocks.layout), tuple(range(len(self._layout.matrices)))
        if any(blocks.column_major):  # where the layouts are the same
            scattered = tuple(number for number in packed if blocks.column_major[number])
            self._check(scattered, _native.scatter_columns(self._columns(scattered), first, places, blocks.destination))
            packed = tuple(number for number in packed if number not in scattered)
            plan = plan[np.isin(plan[:, NUMBER], packed)]
        if packed:
            given = (first, tile_rows(self._layout), tile, plan, places, blocks.destination)
            self._check(packed, _native.pack_and_copy(self._columns(packed), *given))

    def pack(self, first: int, matrices: Sequence[Array]) -> None:
        """Write rows `first` and on, as many as the matrices have, to them."""
        every = tuple(range(len(self._layout.matrices)))
        self._check(every, _native.pack(self._columns(every), first, matrices))

    def _columns(self, matrices: tuple[int, ...]) -> _native.Columns:
        """The columns of some matrices."""
        if matrices not in self._made:
            names, numbers, slots = _slots(self._layout, matrices)
            self._made[matrices] = _native.Columns([self._arrays[name] for name in names], numbers, slots)
        return self._made[matrices]

    def _check(self, matrices: tuple[int, ...], lost: int | None) -> None:
        """If a value of the column of this number did not fit its matrix, say which."""
        if lost is None:
            return
        names, numbers, _ = _slots(self._layout, matrices)
        name, target = names[lost], self._layout.matrices[numbers[lost]].dtype
        array = self._arrays[name]
        values = array[np.isfinite(array)] if target.kind == "f" else array
        raise DtypeError(
            f"column {name!r} has values from {values.min()} to {values.max()}, which do not fit {target}; deliver it "
            f"in a larger type (ids as int64; for JAX set jax_enable_x64), or "
            f"{'scale it (Normalize)' if target.kind == 'f' else 'encode it (Categorify)'}"
        )


@lru_cache(maxsize=64)
def _slots(layout: Layout, matrices: tuple[int, ...]) -> tuple[list[str], list[int], list[int]]:
    """For each column of some matrices its name, the number of its matrix, and the slot it begins at."""
    names, numbers, slots = list[str](), list[int](), list[int]()
    for number in matrices:
        slot = 0
        for name, width in layout.matrices[number].of_width:
            names.append(name)
            numbers.append(number)
            slots.append(slot)
            slot += width
    return names, numbers, slots


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
