"""Where each worker process of a stock `DataLoader` begins next, in memory that all of them share.

A `DataLoader` makes new worker processes for every epoch. Each gets a copy of the loader as it was, and would begin the
same epoch again. Called by `torch_loader`, in the parent and in the workers.
"""

from __future__ import annotations

from typing import Any, cast

import torch

from rowmill.feed.order.resume_state import Position

MOST_WORKERS = 1024


class WorkerPositions:
    """The next position of each worker. A worker writes its own only, so none waits for another."""

    def __init__(self, position: Position) -> None:
        self._next = cast("Any", torch.empty((MOST_WORKERS, 2), dtype=torch.int64)).share_memory_()
        self.put(position)

    def latest(self) -> Position:
        """The next position, as far as any worker has come."""
        return self.of(int(self._next[:, 0].argmax()))

    def of(self, worker: int) -> Position:
        return Position(*self._next[worker].tolist())

    def put(self, position: Position, worker: int | None = None) -> None:
        """Let this position be the next, of one worker or of all."""
        self._next[slice(None) if worker is None else worker] = torch.tensor([position.epoch, position.batch])
