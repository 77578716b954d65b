"""A batch as JAX arrays. Comes in: a `Batch`. Goes out: an array for each column, on a device or over a sharding.

Each matrix goes to the device as one array, and one compiled function cuts all of them into columns there: placing 40
columns one by one takes 1 to 2 ms a batch. Matrices on their sides are cut in three quarters of the time of row-major
ones. Called by the JAX loader, and by the Keras loader on JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from rowmill.errors import ArgumentError, DtypeError
from rowmill.feed.block import Array, Batch, Matrix
from rowmill.loader.tensors import NumpyTensors


class JaxTensors:
    """Columns as JAX arrays."""

    ragged_name: str | None = None

    def __init__(
        self, matrices: Sequence[Matrix], *, upright: bool, sharding: Any = None, mask: str | None = None
    ) -> None:
        self._sharding = sharding
        self._upright = upright
        matrices = tuple(matrices)

        def cut(arrays: list[Any], rows: Any, turned: bool) -> dict[str, Any]:
            found = {
                name: column
                for matrix, array in zip(matrices, arrays, strict=True)
                for name, column in _columns(matrix, array, upright, turned)
            }
            if mask is not None and found:  # made there, because placing one more array takes as long as cutting all
                found[mask] = jax.numpy.arange(len(next(iter(found.values())))) < rows
            return found

        placed = {} if sharding is None else {"out_shardings": sharding}
        self._cut = jax.jit(cut, static_argnums=2, **placed)

    def columns(self, batch: Batch) -> dict[str, Any]:
        # A compiled function places NumPy arrays itself, in half the time that `device_put` takes.
        arrays = batch.matrices if self._sharding is None else [self._placed(array) for array in batch.matrices]
        found: dict[str, Any] = self._cut(arrays, np.int32(batch.rows - batch.padding), batch.turned)
        return found

    def array(self, array: Array) -> Any:
        # Lists have other lengths than batches, so no sharding of rows fits them.
        return jax.device_put(_narrowed(array) if is_narrow() else array)

    def rows(self, array: Array) -> Any:
        return self._placed(array)

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def strings(self, name: str, array: Array) -> Any:
        return array[:, None] if self._upright else array

    def ragged(self, values: Array, offsets: Array) -> Any:
        raise ArgumentError("lists='ragged', but JAX has no ragged arrays; wanted 'offsets'")

    def sparse(self, indices: Array, values: Array, shape: tuple[int, int]) -> Any:
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


def _columns(matrix: Matrix, array: Any, upright: bool, turned: bool) -> list[tuple[str, Any]]:
    if turned and not matrix.widths:
        return [(name, row[:, None] if upright else row) for name, row in zip(matrix.columns, array, strict=True)]
    widths = matrix.widths or (1,) * len(matrix.columns)
    found, start = [], 0
    for name, width in zip(matrix.columns, widths, strict=True):
        column = array[:, start : start + width] if matrix.widths or upright else array[:, start]
        found.append((name, column))
        start += width
    return found
