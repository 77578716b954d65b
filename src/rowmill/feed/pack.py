"""From columns to rows: writes the columns of a frame into row-major matrices, each row to its place in a batch.

Comes in: a frame of numbers without nulls. Goes out: nothing; blocks are filled. Called by the reading threads. A strip
of rows is packed in memory that stays in the cache, with a change of dtype on the way, and its rows are copied to their
places from there (`kernels.deal`). Short rows, and matrices that are wanted on their sides, take no such detour.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import DtypeError
from rowmill.feed.block import Array, Block, Blocks, Layout, Matrix
from rowmill.feed.kernels import deal, scatter, scatter_turned, stack_all, stacker
from rowmill.feed.parts import MATRIX, NUMBER, OFFSET, parts
from rowmill.sources.names import columns as exact

STRIP_BYTES = 640 << 10  # packed at a time: what stays in the cache of a core, or almost
EIGHT = 8  # rows that are stacked at a time
SHORT_BYTES = 32  # rows that are written to their places at once, in a vector or two


def _moved_as(source: np.dtype[Any], target: np.dtype[Any]) -> tuple[Array, Array]:
    """The pair of dtypes a kernel is compiled for: bits of one size where nothing changes, else the two dtypes."""
    if source == target or (source == np.uint8 and target == np.bool_):
        source = target = np.dtype(f"u{target.itemsize}")
    return np.empty(0, source), np.empty(0, target)


class Dealer(Protocol):
    """Rows on their way to batches: decoded ones, or those of a store."""

    rows: int
    loose: pl.DataFrame | None  # the columns that stand in no matrix

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        ...


def strip_rows(layout: Layout, most: int, multiple: int = EIGHT) -> int:
    """How many rows of a layout are packed at a time: a multiple of so many, unless all that there are."""
    return min(most, max(1, STRIP_BYTES // max(1, layout.row_bytes) // multiple) * multiple)


class Way:
    """From packed rows to blocks, as kernels are told of it: where rows are packed, and what goes where from there."""

    def __init__(
        self, layout: Layout, blocks: Blocks, strip: int, room: NDArray[np.uint8], without: Collection[int] = ()
    ) -> None:
        """For rows that are packed in this layout, so many at a time, in the room that is given; without some matrices
        of the blocks."""
        self.strip, self.without = strip, without
        self._layout, self._room = layout, room
        self._row_bytes = np.array([matrix.row_bytes for matrix in layout.matrices], np.int64)
        lines = parts(layout, blocks.layout)
        self._parts = lines[[number not in without for number in lines[:, NUMBER]]]
        self.to = (blocks.unit, blocks.targets)

    def packed(self, rows: int) -> tuple[Block, tuple[Array, ...]]:
        """Room for so many rows; and what kernels are told of it."""
        block = Block.within(self._layout, rows, self._room)
        return block, (np.array(block.addresses, np.uint64), self._row_bytes, self._parts)


class Columns:
    """A decoded fragment, ready to be dealt to blocks: the addresses of its columns, and the frame that owns them."""

    def __init__(self, frame: pl.DataFrame, layout: Layout) -> None:
        self.rows = frame.height
        self.layout = layout
        self.loose = frame.select(exact(layout.loose)) if layout.loose else None
        fixed = frame if frame.columns == layout.fixed else frame.select(exact(layout.fixed))
        self._runs = [_Run(start, part, layout) for start, part in _contiguous(fixed)]

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on, as many as there are places, to those places in the blocks."""
        straight = [
            number
            for number, (matrix, step) in enumerate(zip(self.layout.matrices, blocks[0].steps, strict=True))
            if step or (matrix.row_bytes <= SHORT_BYTES and not matrix.widths)
        ]
        strip = strip_rows(self.layout, len(places))
        way = Way(self.layout, blocks, strip, np.empty(Block.nbytes(self.layout, strip), np.uint8), straight)
        for run, first, rows, at in self._over(start, len(places)):
            run.deal(first, places[at : at + rows], blocks, way)

    def _over(self, start: int, rows: int) -> Iterator[tuple[_Run, int, int, int]]:
        """The runs that hold these rows: with which of its own each begins, how many they are, how many are before."""
        for run in self._runs:
            first, last = max(start, run.start), min(start + rows, run.start + run.rows)
            if first < last:
                yield run, first - run.start, last - first, first - start

    def into(self, layout: Layout) -> Columns:
        """The same columns on their way to blocks of another layout, which may have fewer matrices, and fewer bytes."""
        if layout == self.layout:
            return self
        made, lines = copy(self), parts(layout, self.layout)
        made.layout, made._runs = layout, [run.into(layout, lines) for run in self._runs]
        return made

    def orders(self, start: int, rows: int) -> tuple[NDArray[np.uint64], int] | None:
        """For a kernel that packs these rows itself: what to do, and with which row to begin. None if they stand in
        several places in memory."""
        for run, first, count, _ in self._over(start, rows):
            return (run.orders, first) if count == rows else None
        return None

    def stack(self, start: int, block: Block) -> None:
        """Write rows `start` and on, as many as the block has, in their order to a block that is not turned."""
        row_bytes = np.array([matrix.row_bytes for matrix in self.layout.matrices], np.int64)
        begins = np.array(block.addresses, np.uint64)
        for run, first, rows, at in self._over(start, block.rows):
            to = begins + (at * row_bytes).astype(np.uint64)
            _check(run.groups, stack_all(run.orders, first, rows, to, row_bytes))


Decode = Callable[[int, int, int], Iterator[Columns]]  # fragment, first row, rows: the rows in slices, in order


class _Run:
    """A run of rows whose columns are each contiguous in memory."""

    def __init__(self, start: int, frame: pl.DataFrame, layout: Layout) -> None:
        self.start, self.rows = start, frame.height
        columns = iter(frame.get_columns())
        self.groups = [
            group for number, matrix in enumerate(layout.matrices) for group in self._groups(number, matrix, columns)
        ]

    def _groups(self, number: int, matrix: Matrix, series: Iterator[pl.Series]) -> Iterator[_Group]:
        """The next columns are those of a matrix: by the dtype they come in, usually the same for all."""
        arrays = [next(series).to_numpy() for _ in matrix.columns]
        kinds: dict[str, list[int]] = {}
        for index, array in enumerate(arrays):
            kinds.setdefault(array.dtype.char, []).append(index)
        for members in kinds.values():
            dtype = arrays[members[0]].dtype
            slots = np.array(members, np.uint64)
            addresses = np.array([arrays[index].__array_interface__["data"][0] for index in members], np.uint64)
            strides = None
            if matrix.widths:
                widths = np.array(matrix.widths)
                times = widths[members]
                within = np.concatenate([np.arange(width) for width in times]).astype(np.uint64)
                slots = np.repeat((np.cumsum(widths) - widths)[members], times).astype(np.uint64) + within
                strides = np.repeat(times, times).astype(np.uint64)
                addresses = np.repeat(addresses, times)
                addresses += within * np.uint64(dtype.itemsize)
            named = {matrix.columns[index]: arrays[index] for index in members}
            kernel = _moved_as(dtype, matrix.dtype)
            yield _Group(number, addresses, strides, slots, *kernel, named)

    def into(self, layout: Layout, lines: NDArray[np.int64]) -> _Run:
        made, alike = copy(self), dict[tuple[Any, ...], list[_Group]]()
        for line in lines:
            for group in self.groups:
                if group.matrix == line[NUMBER]:
                    moved = group.into(layout.matrices[line[MATRIX]], int(line[MATRIX]), int(line[OFFSET]))
                    alike.setdefault(moved.kind, []).append(moved)
        made.groups = [_joined(groups) for groups in alike.values()]
        made.__dict__.pop("orders", None)  # those of other groups
        return made

    @cached_property
    def orders(self) -> NDArray[np.uint64]:
        """What `kernels.stack_all` is told: a line for each group."""
        return np.array([group.order for group in self.groups], np.uint64)

    def deal(self, first: int, places: NDArray[np.uint32], blocks: Blocks, way: Way) -> None:
        packed = []
        for number, group in enumerate(self.groups):
            if group.matrix in way.without:
                group.check(group.scatter(first, places, blocks))
            else:
                packed.append(number)
        if packed:
            lost = deal(self.orders[packed], first, way.strip, *way.packed(way.strip)[1], places, *way.to)
            _check([self.groups[number] for number in packed], lost)


@dataclass(frozen=True)
class _Group:
    """Columns of one dtype that go to one matrix: where they are, how far their values are apart, where they go."""

    matrix: int
    columns: NDArray[np.uint64]
    strides: NDArray[np.uint64] | None
    slots: NDArray[np.uint64]
    source: Array
    target: Array
    arrays: dict[str, Array]  # by column; also what keeps the memory alive

    def scatter(self, first: int, places: NDArray[np.uint32], blocks: Blocks) -> int:
        """Write rows `first` and on straight to their places; returns 0 if all values fit."""
        step, to = blocks[0].steps[self.matrix], (places, blocks.unit, blocks.targets[self.matrix])
        like = (self.source, self.target)
        if step:
            return int(scatter_turned(self.columns, self.slots, step, first, *to, *like))
        row_bytes = blocks[0].matrices[self.matrix].strides[0]
        return int(scatter(self.columns, self.slots, row_bytes, first, *to, *like))

    @property
    def order(self) -> list[int]:
        """What `kernels.stack_all` is told of these columns, and to which matrix they go."""
        function = stacker(self.source.dtype, self.target.dtype, self.strides is not None).address
        columns, slots = _address(self.columns), _address(self.slots)
        return [function, columns, _address(self.strides), slots, len(self.columns), self.matrix]

    @property
    def kind(self) -> tuple[Any, ...]:
        """What groups have in common that one order can be made of."""
        return self.matrix, self.source.dtype, self.target.dtype, self.strides is None

    def into(self, matrix: Matrix, number: int, offset: int) -> _Group:
        """The same columns on their way to another matrix, from this byte of its rows on."""
        source, target = _moved_as(next(iter(self.arrays.values())).dtype, matrix.dtype)
        slots = self.slots + np.uint64(offset // matrix.dtype.itemsize)
        return replace(self, matrix=number, slots=slots, source=source, target=target)

    def check(self, lost: int) -> None:
        """If a value did not fit, find its column."""
        if not lost:
            return
        limits: Any = (np.finfo if self.target.dtype.kind == "f" else np.iinfo)(self.target.dtype)
        for name, array in self.arrays.items():
            values = array[np.isfinite(array)] if self.target.dtype.kind == "f" else array
            low, high = (values.min(), values.max()) if values.size else (0, 0)
            if low < limits.min or high > limits.max:
                raise DtypeError(
                    f"column {name!r} has values from {low} to {high}, which do not fit {self.target.dtype}; deliver "
                    f"it in a larger type (ids as int64; for JAX set jax_enable_x64), or "
                    f"{'scale it (Normalize)' if self.target.dtype.kind == 'f' else 'encode it (Categorify)'}"
                )


def _joined(groups: Sequence[_Group]) -> _Group:
    """Groups of one kind as one."""
    if len(groups) == 1:
        return groups[0]
    strides = [group.strides for group in groups if group.strides is not None]
    return replace(
        groups[0],
        columns=np.concatenate([group.columns for group in groups]),
        strides=np.concatenate(strides) if strides else None,
        slots=np.concatenate([group.slots for group in groups]),
        arrays={name: array for group in groups for name, array in group.arrays.items()},
    )


def _check(groups: Sequence[_Group], lost: int) -> None:
    """If a value of the group of this number, from 1 on, did not fit, find its column."""
    if lost:
        groups[lost - 1].check(lost)


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


def _address(array: Array | None) -> int:
    return 0 if array is None else int(array.__array_interface__["data"][0])
