"""What a framework has to do with a batch: the `Tensors` protocol, and NumPy's answer to it.

Comes in: a `Batch` of row-major matrices, list columns and objects. Goes out: one tensor for each column. Each
framework has its own file (`tensors` in `_tf`, `_torch`, `_jax`); the loaders know the protocol only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from rowmill.errors import ArgumentError
from rowmill.feed.memory.block import Array, Batch, Matrix
from rowmill.feed.pack.transpose import Transposer


class Tensors(Protocol):
    """Makes tensors of the parts of a batch."""

    ragged_name: str | None  # what list columns can become besides values and offsets

    def columns(self, batch: Batch) -> dict[str, Any]:
        """Every column of every matrix: `[N]` or `[N, 1]`, as this was set up, or `[N, width]`."""
        ...

    def array(self, array: Array) -> Any:
        """One array as a tensor, whatever its length: values, offsets."""
        ...

    def rows(self, array: Array) -> Any:
        """One array with something for each row, placed like the columns: a mask, weights, padded lists."""
        ...

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """These values in another shape."""
        ...

    def strings(self, name: str, array: Array) -> Any:
        """An array of objects."""
        ...

    def ragged(self, values: Array, offsets: Array) -> Any:
        """A list column as one tensor whose rows differ in length."""
        ...

    def sparse(self, indices: Array, values: Array, shape: tuple[int, int]) -> Any:
        """A sparse matrix with these values at these `[K, 2]` places."""
        ...


class NumpyTensors:
    """Columns as contiguous NumPy arrays: what TensorFlow takes from a generator without a copy."""

    ragged_name: str | None = None

    def __init__(self, matrices: Sequence[Matrix], *, upright: bool) -> None:
        self._matrices, self._sides = matrices, Transposer(matrices)
        self._upright = upright

    def columns(self, batch: Batch) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for matrix, array in zip(self._matrices, self._sides.of(batch), strict=True):
            if matrix.widths:
                found.update(split_wide(matrix, np.ascontiguousarray(array)))
            else:
                found.update(zip(matrix.columns, array[:, :, None] if self._upright else array, strict=True))
        return found

    def array(self, array: Array) -> Any:
        return array

    rows = array

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def strings(self, name: str, array: Array) -> Any:
        return array[:, None] if self._upright else array

    def ragged(self, values: Array, offsets: Array) -> Any:
        raise ArgumentError("lists='ragged', but NumPy has no ragged arrays; wanted 'offsets'")

    def sparse(self, indices: Array, values: Array, shape: tuple[int, int]) -> Any:
        raise ArgumentError("sparse_names without sparse_as_dense=True, but NumPy has no sparse arrays; pass it")


def split_wide(matrix: Matrix, array: Array) -> dict[str, Array]:
    """The columns of a matrix of fixed-size lists: contiguous arrays `[N, width]`."""
    ends = np.cumsum(matrix.widths)
    parts = np.split(array, ends[:-1], axis=1)
    return {name: np.ascontiguousarray(part) for name, part in zip(matrix.columns, parts, strict=True)}
