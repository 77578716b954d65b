"""List columns as sparse or padded tensors: values and offsets in, `[N, limit]` out. Used by the PyTorch loaders."""

from __future__ import annotations

import torch

from rowmill.loader._base.lists import Limits, check_sizes, too_long


class ListTensors:
    """Which list columns become sparse or padded tensors, and how."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def convert(self, name: str, values: torch.Tensor, offsets: torch.Tensor, padding: int = 0) -> torch.Tensor | None:
        """A tensor `[N, limit]` or of the declared shape, or None if this column stays as values and offsets."""
        limit = self.limits.longest.get(name)
        if limit is None:
            return None
        lengths, size = offsets.diff(), self.limits.sizes.get(name)
        if size is not None:
            check_sizes(name, lengths, size, padding)
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > limit:
            raise too_long(name, longest, limit)
        rows = torch.repeat_interleave(torch.arange(len(lengths), device=values.device), lengths)
        places = torch.arange(len(values), device=values.device) - offsets[:-1].repeat_interleave(lengths)
        shape = (len(lengths), limit)
        if name not in self.limits.dense:
            return torch.sparse_coo_tensor(torch.stack([rows, places]), values, shape, check_invariants=False)
        padded = values.new_zeros(shape)
        padded[rows, places] = values
        return padded if size is None else padded.reshape(-1, *size)
