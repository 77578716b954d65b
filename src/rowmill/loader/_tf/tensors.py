"""A batch as TensorFlow tensors. Comes in: a `Batch`. Goes out: a tensor for each column, without a copy if it can be.

TensorFlow's tensors have no strides, so a matrix has to be column-major, as the feed packs it if asked; it is imported
by DLPack, column by column if each begins aligned, else at once and split. DLPack import of memory that
is not aligned to 64 bytes aborts the process, so addresses are checked. A tensor holds the memory it looks into, so a
batch that is kept is never overwritten. Called by the loaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from rowmill.errors import NullError
from rowmill.feed.memory.block import ALIGNMENT, Array, Batch, Matrix
from rowmill.feed.pack.transpose import is_aligned
from rowmill.loader._base.tensors import NumpyTensors, list_indices


class TfTensors(NumpyTensors):
    """Columns as TensorFlow tensors, on the CPU or on `device`."""

    ragged_name: str | None = "RaggedTensor"

    def __init__(self, matrices: Sequence[Matrix], *, keep_dims: bool, device: Any = None) -> None:
        super().__init__(matrices, keep_dims=keep_dims)
        self._device = device_name(device)

    def _split_columns(self, transposed: Array) -> Sequence[Any]:
        """One tensor for each row of a matrix that begins aligned. 26 of them: 36 us by DLPack, 33 us by one Unpack."""
        if transposed.strides[0] % ALIGNMENT == 0 and transposed.size and self._device is None:
            return [tf.experimental.dlpack.from_dlpack(row.__dlpack__()) for row in transposed]
        return tf.raw_ops.Unpack(value=self.array(transposed), num=len(transposed), axis=0)  # type: ignore[no-any-return]

    def array(self, array: Array) -> Any:
        """The array as a tensor that looks into it if it is aligned, else as a copy."""
        if is_aligned(array) and array.size and array.flags.writeable:
            tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
        else:
            tensor = tf.convert_to_tensor(array)
        if self._device is None:
            return tensor
        with tf.device(self._device):
            return tf.identity(tensor)

    rows = array

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tf.reshape(tensor, shape)

    def strings(self, name: str, array: Array) -> Any:
        if any(value is None for value in array):
            raise NullError(f"column {name!r} holds nulls, and a tf.string has none; fill them: nulls={{{name!r}: ''}}")
        return tf.constant(array[:, None] if self._keep_dims else array, tf.string)

    def ragged(self, values: Array, offsets: Array) -> Any:
        return tf.RaggedTensor.from_row_splits(self.array(values), self.array(offsets), validate=False)

    def sparse(self, values: Array, offsets: Array, length: int) -> Any:
        indices = np.stack(list_indices(values, offsets), axis=1)
        return tf.sparse.SparseTensor(self.array(indices), self.array(values), (len(offsets) - 1, length))


def device_name(device: Any) -> str | None:
    """`0` is the first GPU, `"cpu"` the CPU, None wherever TensorFlow puts a tensor."""
    if device is None:
        return None
    if isinstance(device, int):
        return f"/GPU:{device}" if tf.config.list_physical_devices("GPU") else "/CPU:0"
    return str(device)


class FromGenerator(NumpyTensors):
    """What `tf.data` takes from a Python generator at the least cost: NumPy arrays, and tensors where it must."""

    ragged_name: str | None = "RaggedTensor"

    def __init__(self, matrices: Sequence[Matrix], *, keep_dims: bool) -> None:
        super().__init__(matrices, keep_dims=keep_dims)
        tensors = TfTensors((), keep_dims=keep_dims)
        self.strings, self.ragged, self.sparse = tensors.strings, tensors.ragged, tensors.sparse  # type: ignore[method-assign]


class Unpacked:
    """In a graph of `tf.data`: columns of the matrices that a generator gave, transposed. Cheaper than
    columns from the generator, whose every array costs 50 to 80 us there."""

    ragged_name: str | None = None

    def __init__(self, matrices: Sequence[Matrix], tensors: Sequence[Any]) -> None:
        self._found: dict[str, Any] = {}
        for matrix, tensor in zip(matrices, tensors, strict=True):
            parts = tf.split(tensor, matrix.widths, axis=1) if matrix.widths else tf.unstack(tensor)
            self._found.update(zip(matrix.columns, parts, strict=True))

    def columns(self, batch: Batch) -> dict[str, Any]:
        return self._found

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tf.reshape(tensor, shape)
