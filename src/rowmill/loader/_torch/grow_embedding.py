"""An embedding with rows for new categories: `grow_embedding` of `rowmill.loader.torch`."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from rowmill.errors import ArgumentError
from rowmill.loader._base.new_rows import with_rows

E = TypeVar("E", bound=torch.nn.Module)


def grow_embedding(embedding: E, rows: int, *, optimizer: torch.optim.Optimizer | None = None, seed: int = 0) -> E:
    """Give an `nn.Embedding` or `nn.EmbeddingBag` rows for new categories, in place, and return it.

    `rows`: how many it has afterwards, as `workflow.update()` tells. The rows that are there keep their values. New
    ones are drawn with the mean and standard deviation of the others, by `seed`, so that they are the same on every
    rank. `optimizer`: what trains the embedding; its state (such as Adam's moments) gets zeros for the new rows.
    """
    weight = getattr(embedding, "weight", None)
    if not isinstance(embedding, torch.nn.Embedding | torch.nn.EmbeddingBag) or not isinstance(weight, torch.Tensor):
        raise ArgumentError(f"found {type(embedding).__name__}; wanted torch.nn.Embedding or torch.nn.EmbeddingBag")
    old = len(weight)
    made = torch.from_numpy(with_rows(weight.detach().to("cpu", torch.float32).numpy(), rows, seed))
    with torch.no_grad():
        grown = torch.cat([weight.detach(), made[old:].to(weight.device, weight.dtype)])
        weight.data, weight.grad = grown, None  # the parameter stays the one that the optimizer knows
    embedding.num_embeddings = len(grown)
    if optimizer is not None:
        _grow_state(optimizer.state.get(weight, {}), old, len(grown))
    return embedding


def _grow_state(state: dict[str, Any], old: int, new: int) -> None:
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.ndim and len(value) == old:
            state[name] = torch.cat([value, value.new_zeros((new - old, *value.shape[1:]))])
