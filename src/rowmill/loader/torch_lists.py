"""List columns as sparse or padded tensors: values and offsets in, `[N, limit]` out. Used by the PyTorch loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from rowmill.errors import ArgumentError
from rowmill.loader.lists import checked_limits
from rowmill.schema import Schema


class Lists:
    """Which list columns become sparse or padded tensors, and how."""

    def __init__(
        self, schema: Schema, names: Sequence[str] | None, limits: Mapping[str, int] | None, dense: bool
    ) -> None:
        self.dense = dense
        self.limits = checked_limits(schema, names, limits)

    def convert(self, name: str, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor | None:
        """A tensor `[N, limit]`, or None if this column stays as values and offsets."""
        limit = self.limits.get(name)
        if limit is None:
            return None
        lengths = offsets.diff()
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > limit:
            raise ArgumentError(
                f"a row of {name!r} has {longest} values; sparse_max allows {limit}: raise it or cut the lists"
            )
        rows = torch.repeat_interleave(torch.arange(len(lengths), device=values.device), lengths)
        places = torch.arange(len(values), device=values.device) - offsets[:-1].repeat_interleave(lengths)
        shape = (len(lengths), limit)
        if not self.dense:
            return torch.sparse_coo_tensor(torch.stack([rows, places]), values, shape, check_invariants=False)
        padded = values.new_zeros(shape)
        padded[rows, places] = values
        return padded
