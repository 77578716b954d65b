"""A batch as JAX arrays. Comes in: a `Batch`. Goes out: an array for each column, on a device or over a sharding.

A batch goes to the device as one array (or each matrix as one), which one compiled function cuts into columns there:
placing 40 columns one by one takes 1 to 2 ms a batch. Column-major matrices are cut in three quarters of the time of
row-major ones. Called by the JAX loader, and by the Keras loader on JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from rowmill.errors import ArgumentError, DtypeError
from rowmill.feed.memory.block import Array, Batch, Matrix, Memory, column_major_offsets
from rowmill.feed.pack.transpose import KEEP
from rowmill.loader._base.tensors import NumpyTensors, padded_rows

SMALL_BYTES = 1 << 20  # of a batch; larger ones cost more to copy than to place

Columns = Callable[[Any, int, bool], list[tuple[str, Any]]]  # of what is placed: rows, column_major


class JaxTensors:
    """Columns as JAX arrays."""

    ragged_name: str | None = None

    def __init__(
        self, matrices: Sequence[Matrix], *, keep_dims: bool, sharding: Any = None, mask: str | None = None
    ) -> None:
        self._matrices = tuple(matrices)
        self._keep_dims = keep_dims
        self._sharding = sharding
        self._mask = mask
        four = [matrix.dtype.itemsize == 4 and not matrix.widths for matrix in self._matrices]
        self._of_words = sharding is None and bool(four) and all(four)
        self._memory = Memory(KEEP)
        self._cuts: dict[Any, Callable[..., dict[str, Any]]] = {}

    def columns(self, batch: Batch) -> dict[str, Any]:
        valid = () if self._mask is None else (np.int32(batch.rows - batch.padding),)
        words = self._words(batch) if self._of_words else None
        if words is not None:
            return self._cut((batch.rows, batch.column_major), self._from_words)(words, *valid)
        # A compiled function places NumPy arrays itself, in half the time that `device_put` takes.
        arrays = batch.matrices if self._sharding is None else [self._placed(array) for array in batch.matrices]
        return self._cut((batch.rows, batch.column_major), self._from_matrices)(arrays, *valid)

    def _words(self, batch: Batch) -> Array | None:
        """All matrices as one array, if they stand together or are soon brought together: it is placed in less time."""
        if batch.joined is not None:
            return batch.joined.view(np.int32)
        if batch.column_major or sum(array.nbytes for array in batch.matrices) > SMALL_BYTES:
            return None
        arrays = [array.reshape(-1).view(np.int32) for array in batch.matrices]
        return np.concatenate(arrays, out=self._memory.empty(sum(array.size for array in arrays), np.int32))

    def _cut(self, layout: tuple[int, bool], columns: Columns) -> Callable[..., dict[str, Any]]:
        """The compiled function that makes columns of what is placed, and the mask beside them."""
        found = self._cuts.get((layout, columns))
        if found is None:

            def cut(placed: Any, valid: Any = None) -> dict[str, Any]:
                made = dict(columns(placed, *layout))
                if valid is not None and made:  # made there: placing one more array takes as long as cutting all
                    assert self._mask is not None
                    made[self._mask] = jax.numpy.arange(len(next(iter(made.values())))) < valid
                return made

            sharded = {} if self._sharding is None else {"out_shardings": self._sharding}
            found = self._cuts[layout, columns] = jax.jit(cut, **sharded)
        return found

    def _from_words(self, words: Any, rows: int, column_major: bool) -> list[tuple[str, Any]]:
        """An array for each column, of matrices that stand one after another in one array."""
        offsets = column_major_offsets(self._matrices, rows)[0]
        each = offsets[0][1] // 4 if column_major else rows  # values that a column takes
        arrays, start = [], 0
        for matrix in self._matrices:
            held = words[start : start + matrix.width * each]
            array = held.reshape(matrix.width, each)[:, :rows] if column_major else held.reshape(rows, matrix.width)
            arrays.append(jax.lax.bitcast_convert_type(array, matrix.dtype))
            start += matrix.width * each
        return self._from_matrices(arrays, rows, column_major)

    def _from_matrices(self, arrays: list[Any], rows: int, column_major: bool) -> list[tuple[str, Any]]:
        pairs = zip(self._matrices, arrays, strict=True)
        return [column for pair in pairs for column in _columns(*pair, self._keep_dims, column_major)]

    def array(self, array: Array) -> Any:
        # Lists have other lengths than batches, so no sharding of rows fits them.
        return jax.device_put(_narrowed(array) if is_narrow() else array)

    def rows(self, array: Array) -> Any:
        return self._placed(array)

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def strings(self, name: str, array: Array) -> Any:
        return array[:, None] if self._keep_dims else array

    def ragged(self, values: Array, offsets: Array) -> Any:
        raise ArgumentError("lists='ragged', but JAX has no ragged arrays; wanted 'offsets'")

    def padded(self, values: Array, offsets: Array, length: int, fill: int) -> Any:
        return self.rows(padded_rows(values, offsets, length, fill))

    def sparse(self, values: Array, offsets: Array, length: int) -> Any:
        raise ArgumentError("sparse_names without sparse_as_dense=True, but a batch for JAX is dense; pass it")

    def _placed(self, array: Array) -> Any:
        if self._sharding is None:
            return jax.device_put(array)
        return jax.make_array_from_process_local_data(self._sharding, array)


class ForCompiled(NumpyTensors):
    """Columns as NumPy arrays that a compiled function can take as they are."""

    def array(self, array: Array) -> Any:
        return _narrowed(array) if is_narrow() else array


def is_narrow() -> bool:
    """Whether numbers of 8 bytes have to be delivered in 4: JAX would cut them off without a word."""
    return not jax.config.read("jax_enable_x64")


def on_cpu() -> bool:
    """Whether arrays are on the CPU if nobody says where."""
    return bool(jax.default_backend() == "cpu")


def _narrowed(array: Array) -> Array:
    """Offsets, which come in 8 bytes, in 4. Columns come narrow from the feed, which checks every value."""
    if array.dtype != np.int64:
        return array
    if array.size and array.max() > np.iinfo(np.int32).max:
        raise DtypeError(
            f"a batch has {array.max()} values in a list column, and int32 counts to 2147483647; make batches smaller, "
            f"or set jax_enable_x64"
        )
    return array.astype(np.int32)


def _columns(matrix: Matrix, array: Any, keep_dims: bool, column_major: bool) -> list[tuple[str, Any]]:
    if column_major and not matrix.widths:
        return [(name, row[:, None] if keep_dims else row) for name, row in zip(matrix.columns, array, strict=True)]
    widths = matrix.widths or (1,) * len(matrix.columns)
    found, start = [], 0
    for name, width in zip(matrix.columns, widths, strict=True):
        column = array[:, start : start + width] if matrix.widths or keep_dims else array[:, start]
        found.append((name, column))
        start += width
    return found
