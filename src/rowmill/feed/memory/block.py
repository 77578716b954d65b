"""Where packed rows live: layouts, blocks of memory, and the batches that are slices of them.

A `Layout` says which columns stand side by side in which matrix. A `Block` is one aligned allocation that holds all
matrices of a few batches; a `Batch` is a view of it. A `Pool` lends blocks. Their memory returns to it when the last
view of a block is gone, so a batch that the user keeps is never overwritten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmill import _native

SCRATCH = 16  # arrays of places, and to work them out; more than are ever in use at once
ALIGNMENT = 64  # TensorFlow aborts the process on less; a cache line; enough for any vector unit
BLOCK_BYTES = 16 << 20  # huge pages (from 4 MB on) spared a 10-column table a quarter of its packing

Array = NDArray[Any]
Allocate = Callable[[int], NDArray[np.uint8]]  # gives memory of this many bytes


@dataclass(frozen=True)
class Matrix:
    """Columns of one dtype that stand side by side, in this order."""

    name: str
    dtype: np.dtype[Any]
    columns: tuple[str, ...]
    widths: tuple[int, ...] = ()  # values per row of each column; all 1 unless a column is a fixed-size list

    @cached_property
    def width(self) -> int:
        return sum(self.widths) if self.widths else len(self.columns)

    @property
    def row_bytes(self) -> int:
        return self.width * self.dtype.itemsize

    @property
    def of_width(self) -> Iterable[tuple[str, int]]:
        """Each column, and its values per row."""
        return zip(self.columns, self.widths or (1,) * len(self.columns), strict=True)


@dataclass(frozen=True)
class Layout:
    """How a row is laid out: matrices of fixed width, and the columns that have none (lists, strings)."""

    matrices: tuple[Matrix, ...]
    ragged: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()

    @cached_property
    def row_bytes(self) -> int:
        return sum(matrix.row_bytes for matrix in self.matrices)

    @cached_property
    def fixed(self) -> list[str]:
        """The columns of all matrices."""
        return [column for matrix in self.matrices for column in matrix.columns]

    @property
    def has_lists(self) -> bool:
        return bool(self.ragged) or any(matrix.widths for matrix in self.matrices)

    @property
    def variable(self) -> tuple[str, ...]:
        """The variable-size columns: lists and strings, which stand in no matrix."""
        return self.ragged + self.objects


class Block:
    """Room for `rows` rows of every matrix of a layout, row after row."""

    __slots__ = ("column_major", "layout", "matrices", "rows", "unit")

    is_column_major = False

    def __init__(self, layout: Layout, rows: int, rooms: Sequence[Array]) -> None:
        """`rooms`: for each matrix the bytes it is given, aligned for its dtype."""
        self.layout, self.rows = layout, rows
        self.unit = max(1, rows)  # rows that stand together
        self.column_major = [False] * len(layout.matrices)
        self.matrices: list[Array] = [
            room.view(matrix.dtype).reshape(rows, matrix.width)
            for matrix, room in zip(layout.matrices, rooms, strict=True)
        ]

    @classmethod
    def within(cls, layout: Layout, rows: int, memory: NDArray[np.uint8]) -> Block:
        """A block in one piece of memory of at least `nbytes`, its matrices aligned."""
        return cls(layout, rows, carved(memory, [rows * matrix.row_bytes for matrix in layout.matrices]))

    @classmethod
    def new(cls, layout: Layout, rows: int) -> Block:
        """A block in memory of its own."""
        return cls.within(layout, rows, np.empty(cls.nbytes(layout, rows), np.uint8))

    @property
    def units(self) -> list[Array]:
        """Each matrix as (units, rows, columns), or as (units, columns, rows) where it is column-major."""
        return [matrix[np.newaxis] for matrix in self.matrices]

    @staticmethod
    def nbytes(layout: Layout, rows: int) -> int:
        return carved_bytes([rows * matrix.row_bytes for matrix in layout.matrices])

    def view(self, first: int, rows: int) -> list[Array]:
        """Rows `first` and on of every matrix."""
        return [matrix[first : first + rows] for matrix in self.matrices]

    def joined(self, first: int, rows: int) -> Array | None:
        """All bytes of these rows, if they stand together and alone."""
        return None


class ColumnMajorBlock(Block):
    """Room for batches, one after another, each with its columns one after another, all of them aligned.

    Columns of several values a row stand row after row in any case.
    """

    __slots__ = ("_batches",)

    is_column_major = True

    def __init__(self, layout: Layout, rows: int, memory: NDArray[np.uint8], batch_rows: int) -> None:
        self.layout, self.rows, self.unit = layout, rows, batch_rows
        parts, size = column_major_offsets(layout.matrices, batch_rows)
        room = carved(memory, [rows // batch_rows * size])[0]
        self._batches = room.reshape(rows // batch_rows, size)
        self.matrices, self.column_major = [], []
        for matrix, (start, step) in zip(layout.matrices, parts, strict=True):
            shape = (matrix.width, step // matrix.dtype.itemsize) if step else (batch_rows, matrix.width)
            nbytes = shape[0] * shape[1] * matrix.dtype.itemsize
            given = self._batches[:, start : start + nbytes].view(matrix.dtype)
            self.matrices.append(given.reshape(len(given), *shape))
            self.column_major.append(step > 0)

    @property
    def units(self) -> list[Array]:
        return self.matrices

    def view(self, first: int, rows: int) -> list[Array]:
        """Rows `first` and on, all of one batch, of every matrix."""
        number, first = divmod(first, self.unit)
        return [
            matrix[number, :, first : first + rows] if column_major else matrix[number, first : first + rows]
            for matrix, column_major in zip(self.matrices, self.column_major, strict=True)
        ]

    def joined(self, first: int, rows: int) -> Array | None:
        return self._batches[first // self.unit] if rows == self.unit else None


class Blocks(tuple[Block, ...]):
    """The blocks of a chunk, for those who write rows to places in it."""

    @property
    def layout(self) -> Layout:
        return self[0].layout

    @property
    def column_major(self) -> list[bool]:
        return self[0].column_major

    @cached_property
    def destination(self) -> _native.Destination:
        """All of them, for the functions that write rows."""
        arrays = list(zip(*(block.units for block in self), strict=True))
        return _native.Destination(arrays, self.column_major, self[0].unit)


def column_major_offsets(matrices: Sequence[Matrix], batch_rows: int) -> tuple[list[tuple[int, int]], int]:
    """Where matrices on their sides stand in a batch: for each where it begins, and the bytes from a column to the next
    (0 for columns of several values a row, which stay row-major); and the bytes of all."""
    parts, at = [], 0
    for matrix in matrices:
        step = 0 if matrix.widths else -(-batch_rows * matrix.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        parts.append((at, step))
        at += -(-(step * matrix.width or batch_rows * matrix.row_bytes) // ALIGNMENT) * ALIGNMENT
    return parts, at


def carved(memory: NDArray[np.uint8], sizes: Sequence[int]) -> list[NDArray[np.uint8]]:
    """Pieces of memory of these sizes, all aligned, out of one of at least `carved_bytes`."""
    rooms, offset = [], -memory.__array_interface__["data"][0] % ALIGNMENT
    for size in sizes:
        rooms.append(memory[offset : offset + size])
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    return rooms


def carved_bytes(sizes: Sequence[int]) -> int:
    """How much memory `carved` needs."""
    return ALIGNMENT + sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)


def _allocate(size: int) -> NDArray[np.uint8]:
    return np.empty(size, np.uint8)


class Memory:
    """Lends memory, and lends it again once the last view of it is gone.

    NumPy views and the tensors made of them hold the `Lease` they look into. Memory that comes fresh from the system
    costs more than most of what we do with it. Needs no lock: a `deque` takes and gives in one step.
    """

    def __init__(self, keep: int, allocate: Allocate = _allocate) -> None:
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=keep)  # allocations worth remembering
        self._allocate = allocate

    def take(self, size: int) -> NDArray[np.uint8]:
        """At least `size` bytes that nobody else looks into."""
        return np.asarray(_native.Lease(self._found(size), self._free))

    def _found(self, size: int) -> NDArray[np.uint8]:
        for _ in range(len(self._free)):
            try:
                memory = self._free.popleft()
            except IndexError:  # another thread took it
                break
            if memory.size >= size:
                return memory
            self._free.append(memory)
        return self._allocate(size)

    def empty(self, count: int, dtype: Any) -> Array:
        """As `np.empty`."""
        size = count * np.dtype(dtype).itemsize
        return self.take(size)[:size].view(dtype)


class Pool:
    """Lends blocks of one size, and memory to work in."""

    def __init__(
        self,
        layout: Layout,
        rows: int,
        keep: int,
        column_major_rows: int | None = None,
        allocate: Allocate | None = None,
    ) -> None:
        self.layout = layout
        self.rows = rows
        self.column_major_rows = column_major_rows
        self.scratch = Memory(SCRATCH)
        self._blocks = Memory(keep, allocate or _allocate)  # more are in use only if the user collects batches

    def take(self) -> Block:
        """A block that nobody looks into."""
        if self.column_major_rows is None:
            return Block.within(self.layout, self.rows, self._blocks.take(Block.nbytes(self.layout, self.rows)))
        size = (
            self.rows // self.column_major_rows * column_major_offsets(self.layout.matrices, self.column_major_rows)[1]
        )
        return ColumnMajorBlock(self.layout, self.rows, self._blocks.take(carved_bytes([size])), self.column_major_rows)


@dataclass(slots=True)
class Batch:
    """What a training step gets, before tensors are made of it: views, one for each matrix of the layout."""

    rows: int
    matrices: list[Array]
    ragged: Mapping[str, tuple[Array, NDArray[np.int64]]] = field(default_factory=dict)
    objects: Mapping[str, Array] = field(default_factory=dict)
    column_major: bool = False  # whether a matrix has a row for each column
    joined: Array | None = None  # the bytes of all matrices, where they stand as `column_major_offsets` says
    padding: int = 0  # rows of zeros at the end, so that all ranks take the same number of steps
