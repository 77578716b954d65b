"""World size and rank as a function, called when an epoch is planned. Made by the loaders, called by `run.stream`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

Ranks = Callable[[], tuple[int, int]]  # the number of ranks and this one's; pickled with a loader, so no lambda


def fixed_ranks(size: int, rank: int) -> Ranks:
    """Ranks that stay as they are."""
    return partial(_pair, size, rank)


def _pair(size: int, rank: int) -> tuple[int, int]:
    return size, rank
