"""A batch as PyTorch tensors: a `Batch` comes in, views of its memory go out, so nothing is copied on the CPU.

Called by the PyTorch loaders, by `map_style`, and by the Keras loaders on PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rowmill.errors import ArgumentError
from rowmill.feed.memory.block import Array, Batch, Matrix
from rowmill.loader._base.tensors import padded_rows
from rowmill.loader._torch.cuda import as_tensor


class TorchTensors:
    """Columns as PyTorch tensors. Arrays of a batch that is on a GPU already are tensors there, and stay on it.

    `mask`: the name of a bool column that is made beside the others, on `device`, with False for padding rows.
    """

    ragged_name: str | None = None

    def __init__(
        self, matrices: Sequence[Matrix], *, keep_dims: bool = False, mask: str | None = None, device: Any = None
    ) -> None:
        self._matrices = matrices
        self._keep_dims = keep_dims
        self._mask, self._device = mask, device

    def columns(self, batch: Batch) -> dict[str, Any]:
        found = split_columns(self._matrices, batch, keep_dims=self._keep_dims)
        if self._mask is not None:
            found[self._mask] = torch.arange(batch.rows, device=self._device) < batch.rows - batch.padding
        return found

    def array(self, array: Array) -> Any:
        return as_tensor(array)

    rows = array

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def strings(self, name: str, array: Array) -> Any:
        return array[:, None] if self._keep_dims else array

    def ragged(self, values: Array, offsets: Array) -> Any:
        raise ArgumentError("lists='ragged', but Keras on PyTorch has no ragged tensors; wanted 'offsets'")

    def padded(self, values: Any, offsets: Any, length: int, fill: int) -> Any:
        if not isinstance(values, torch.Tensor):
            return torch.from_numpy(padded_rows(values, offsets, length, fill))
        rows, places = _list_indices(values, offsets)
        padded = values.new_full((len(offsets) - 1, length), fill)
        padded[rows, places] = values
        return padded

    def sparse(self, values: Any, offsets: Any, length: int) -> Any:
        tensor, shape = as_tensor(values), (len(offsets) - 1, length)
        indices = torch.stack(_list_indices(tensor, as_tensor(offsets)))
        return torch.sparse_coo_tensor(indices, tensor, shape, check_invariants=False)


class KerasTorchTensors(TorchTensors):
    """Tensors for Keras on PyTorch, which takes no sparse ones. Keras moves them to its device."""

    def sparse(self, values: Any, offsets: Any, length: int) -> Any:
        raise ArgumentError(
            "sparse_names without sparse_as_dense=True, but Keras on PyTorch takes no sparse tensors; pass it"
        )


def split_columns(matrices: Sequence[Matrix], batch: Batch, *, keep_dims: bool = False) -> dict[str, Any]:
    """Every column of the matrices of a batch: views `[N]`, or `[N, 1]`; lists of fixed length `[N, length]`."""
    found: dict[str, Any] = {}
    for matrix, array in zip(matrices, batch.matrices, strict=True):
        tensor = as_tensor(array)
        if matrix.widths:
            parts: Sequence[Any] = torch.split(tensor, list(matrix.widths), dim=1)
        else:
            parts = torch.split(tensor, 1, dim=1) if keep_dims else tensor.unbind(1)
        found.update(zip(matrix.columns, parts, strict=True))
    return found


def _list_indices(values: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The row of each value of a list column, and its place in the list; made on their device."""
    lengths = offsets.diff()
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=values.device), lengths)
    places = torch.arange(len(values), device=values.device) - offsets[:-1].repeat_interleave(lengths)
    return rows, places
