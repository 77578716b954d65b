"""A batch as PyTorch tensors for Keras on PyTorch. Tensors are views of the feed's blocks: nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rowmill.errors import ArgumentError
from rowmill.feed.memory.block import Array, Batch, Matrix


class TorchTensors:
    """Columns as PyTorch tensors; Keras moves them to its device."""

    ragged_name: str | None = None

    def __init__(self, matrices: Sequence[Matrix], *, upright: bool) -> None:
        self._matrices = matrices
        self._upright = upright

    def columns(self, batch: Batch) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for matrix, array in zip(self._matrices, batch.matrices, strict=True):
            tensor = torch.from_numpy(array)
            if matrix.widths:
                parts: Sequence[Any] = torch.split(tensor, list(matrix.widths), dim=1)
            else:
                parts = torch.split(tensor, 1, dim=1) if self._upright else tensor.unbind(1)
            found.update(zip(matrix.columns, parts, strict=True))
        return found

    def array(self, array: Array) -> Any:
        return torch.from_numpy(array)

    rows = array

    def shaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.reshape(shape)

    def strings(self, name: str, array: Array) -> Any:
        return array[:, None] if self._upright else array

    def ragged(self, values: Array, offsets: Array) -> Any:
        raise ArgumentError("lists='ragged', but Keras on PyTorch has no ragged tensors; wanted 'offsets'")

    def sparse(self, indices: Array, values: Array, shape: tuple[int, int]) -> Any:
        raise ArgumentError(
            "sparse_names without sparse_as_dense=True, but Keras on PyTorch takes no sparse tensors; pass it"
        )
