"""World size and rank of this process, as a function that is called when an epoch is planned; `plan` divides the rows.

Made by the loaders, called by `run.planner`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

Ranks = Callable[[], tuple[int, int]]  # the number of ranks and this one's; pickled with a loader, so no lambda


def fixed_ranks(size: int, rank: int) -> Ranks:
    """Ranks that stay as they are."""
    return partial(_pair, size, rank)


def _pair(size: int, rank: int) -> tuple[int, int]:
    return size, rank
