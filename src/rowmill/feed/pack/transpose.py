"""Transposes row-major batches into contiguous columns, for frameworks whose tensors have no strides.

Needed where the feed has not written columns itself: from a store, and in small batches. Memory is aligned to 64 bytes,
because TensorFlow's DLPack import aborts the process on less, and is used again only when nobody holds a view of
it. Called by the loaders.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowmill import _native
from rowmill.feed.memory.block import (
    ALIGNMENT,
    Array,
    Batch,
    Matrix,
    Memory,
    carved,
    carved_bytes,
    column_major_offsets,
)

KEEP = 4  # allocations worth remembering; beyond them the user is collecting batches


class Transposer:
    """Column-major matrices of batches, whether a batch is row-major or column-major."""

    def __init__(self, matrices: Sequence[Matrix]) -> None:
        self._transposes = [not matrix.widths for matrix in matrices]
        self._matrices = [matrix for matrix in matrices if not matrix.widths]
        self._memory = Memory(KEEP)

    def of(self, batch: Batch) -> list[Array]:
        """A row for each column of a matrix, each row contiguous; matrices of fixed-size lists as they are."""
        if batch.column_major:
            return batch.matrices
        parts, size = column_major_offsets(self._matrices, batch.rows)
        room = carved(self._memory.take(carved_bytes([size])), [size])[0]
        places = iter(zip(self._matrices, parts, strict=True))
        return [
            self._transposed(array, room, *next(places)) if transposes else array
            for transposes, array in zip(self._transposes, batch.matrices, strict=True)
        ]

    def _transposed(self, array: Array, room: Array, matrix: Matrix, part: tuple[int, int]) -> Array:
        start, step = part
        side = room[start : start + matrix.width * step].view(matrix.dtype).reshape(matrix.width, -1)[:, : len(array)]
        _native.transpose(array, side)
        return side


def is_aligned(array: Array) -> bool:
    """Whether an array begins where TensorFlow may look at it without a copy."""
    return bool(array.flags.c_contiguous) and array.__array_interface__["data"][0] % ALIGNMENT == 0
