"""Where packed rows live: layouts, blocks of memory, and the batches that are slices of them.

A `Layout` says which columns stand side by side in which matrix. A `Block` is one aligned allocation that holds all
matrices of a few batches; a `Batch` is a view of it. A `Pool` lends blocks and takes one again only when nobody holds
a view of it any more, so a batch that the user keeps is never overwritten.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64  # TensorFlow aborts the process on less; a cache line; enough for any vector unit
BLOCK_BYTES = 16 << 20  # huge pages (from 4 MB on) spared a 10-column table a quarter of its packing

Array = NDArray[Any]


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


@dataclass(frozen=True)
class Layout:
    """How a row is laid out: matrices of fixed width, and the columns that have none (lists, strings)."""

    matrices: tuple[Matrix, ...]
    ragged: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()

    @cached_property
    def row_bytes(self) -> int:
        return sum(matrix.row_bytes for matrix in self.matrices)

    @property
    def loose(self) -> tuple[str, ...]:
        """The columns that stand in no matrix."""
        return self.ragged + self.objects


class Block:
    """Room for `rows` rows of every matrix of a layout, in one allocation."""

    __slots__ = ("addresses", "matrices", "rows")

    def __init__(self, layout: Layout, rows: int, memory: NDArray[np.uint8]) -> None:
        self.rows = rows
        self.matrices: list[Array] = []
        offset = -memory.__array_interface__["data"][0] % ALIGNMENT
        for matrix in layout.matrices:
            nbytes = rows * matrix.row_bytes
            room = memory[offset : offset + nbytes]
            self.matrices.append(room.view(matrix.dtype).reshape(rows, matrix.width))
            offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
        self.addresses = [m.__array_interface__["data"][0] for m in self.matrices]

    @staticmethod
    def nbytes(layout: Layout, rows: int) -> int:
        return ALIGNMENT + sum(-(-rows * m.row_bytes // ALIGNMENT) * ALIGNMENT for m in layout.matrices)


class Pool:
    """Lends blocks of one size; memory returns by itself when the last view of it is gone.

    NumPy views and the tensors made of them hold a reference to the allocation they look into, so its reference count
    says whether anybody still can see it.
    """

    def __init__(self, layout: Layout, rows: int, keep: int) -> None:
        self.layout = layout
        self.rows = rows
        self.keep = keep  # allocations worth remembering; beyond them the user is collecting batches
        self._memory: list[NDArray[np.uint8]] = []

    def take(self) -> Block:
        """A block that nobody looks into. Needs no lock: a thread that looks at memory is a holder to all others."""
        for memory in self._memory:
            if sys.getrefcount(memory) == 3:  # the list, the loop variable, the call
                return Block(self.layout, self.rows, memory)
        memory = np.empty(Block.nbytes(self.layout, self.rows), np.uint8)
        if len(self._memory) < self.keep:
            self._memory.append(memory)
        return Block(self.layout, self.rows, memory)


@dataclass(slots=True)
class Batch:
    """What a training step gets, before it is turned into tensors: views, one for each matrix of the layout."""

    rows: int
    matrices: list[Array]
    ragged: Mapping[str, tuple[Array, NDArray[np.int64]]] = field(default_factory=dict)
    objects: Mapping[str, Array] = field(default_factory=dict)
    padding: int = 0  # rows at the end that repeat others, so that all ranks take the same number of steps
