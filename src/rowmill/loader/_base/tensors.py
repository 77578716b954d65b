"""The `Tensors` protocol: what a framework has to implement (columns, padded lists, ...), and NumPy's version of it.

Comes in: a `Batch` of matrices, list columns and objects. Goes out: one tensor for each column. Each framework has its
own file (`tensors` in `_tf`, `_torch`, `_jax`); the batch formats know the protocol only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rowmill.errors import ArgumentError
from rowmill.feed.memory.block import Array, Batch, Matrix
from rowmill.feed.pack.transpose import Transposer


class Tensors(Protocol):
    """Makes tensors of the parts of a batch."""

    ragged_name: str | None  # what list columns can become besides values and offsets

    def columns(self, batch: Batch) -> dict[str, Any]:
        """Every column of every matrix: `[N]`, or `[N, 1]` with `keep_dims`; lists of fixed length `[N, length]`."""
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

    def padded(self, values: Array, offsets: Array, length: int, fill: int) -> Any:
        """A list column as a dense tensor `[N, length]`, filled up with `fill`. No row is longer."""
        ...

    def sparse(self, values: Array, offsets: Array, length: int) -> Any:
        """A list column as a sparse tensor `[N, length]`. No row is longer."""
        ...


class NumpyTensors:
    """Columns as contiguous NumPy arrays: what TensorFlow takes from a generator without a copy."""

    ragged_name: str | None = None

    def __init__(self, matrices: Sequence[Matrix], *, keep_dims: bool) -> None:
        self._matrices, self._transposer = matrices, Transposer(matrices)
        self._keep_dims = keep_dims

    def columns(self, batch: Batch) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for matrix, array in zip(self._matrices, self._transposer.of(batch), strict=True):
            if matrix.widths:
                parts: Sequence[Any] = [self.rows(part) for part in _split_lists(matrix, array)]
            else:
                parts = self._split_columns(array[:, :, None] if self._keep_dims else array)
            found.update(zip(matrix.columns, parts, strict=True))
        return found

    def _split_columns(self, transposed: Array) -> Sequence[Any]:
        """The columns of a matrix that has a contiguous row for each."""
        return list(transposed)

    def array(self, array: Array) -> Any:
        return array

    rows = array

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def strings(self, name: str, array: Array) -> Any:
        return array[:, None] if self._keep_dims else array

    def ragged(self, values: Array, offsets: Array) -> Any:
        raise ArgumentError("lists='ragged', but NumPy has no ragged arrays; wanted 'offsets'")

    def padded(self, values: Array, offsets: Array, length: int, fill: int) -> Any:
        return self.rows(padded_rows(values, offsets, length, fill))

    def sparse(self, values: Array, offsets: Array, length: int) -> Any:
        raise ArgumentError("sparse_names without sparse_as_dense=True, but NumPy has no sparse arrays; pass it")


def _split_lists(matrix: Matrix, array: Array) -> list[Array]:
    """The columns of a matrix of fixed-size lists: contiguous arrays `[N, length]`."""
    parts = np.split(array, np.cumsum(matrix.widths)[:-1], axis=1)
    return [np.ascontiguousarray(part) for part in parts]


def list_indices(values: Array, offsets: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row of each value of a list column, and its place in the list."""
    lengths = np.diff(offsets)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.arange(len(values)) - np.repeat(offsets[:-1], lengths)


def padded_rows(values: Array, offsets: Array, length: int, fill: int) -> Array:
    """A list column as a dense array `[N, length]`, filled up with `fill`."""
    padded = np.full((len(offsets) - 1, length), fill, values.dtype)
    padded[list_indices(values, offsets)] = values
    return padded
