"""Where the latest iteration of a stream stands, and where the next one begins.

Called by `stream`. A position counts batches that were handed out, never those that were prefetched.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rowmill.errors import StateError
from rowmill.feed.order.plan import Plan
from rowmill.feed.order.resume_state import Position
from rowmill.feed.run.position import track_position

T = TypeVar("T")


class Cursor:
    """The position of the latest iteration, and the start of the next.

    Each iteration is one epoch further. One that was left with at most one batch has not used up its epoch, and the
    next iteration begins where it began: it was a look at the data.
    """

    def __init__(self, ranks: tuple[int, int]) -> None:
        self.position = Position()  # of the latest iteration
        self.ranks = ranks  # world size and rank of the latest iteration, or of a state that was loaded
        self.has_begun = False  # whether there was an iteration
        self._next = Position()
        self._start = Position()  # of the latest iteration
        self._latest: weakref.ref[Any] | None = None  # its iterator, as long as somebody holds it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_next": self.next, "_latest": None}

    @property
    def next(self) -> Position:
        """Where the next iteration begins."""
        taken = self.position.batch - self._start.batch
        left = self._latest is not None and self._latest() is None
        if left and taken <= 1 and self.position.epoch == self._start.epoch:
            self._next, self._latest = Position(self._start.epoch, self._start.batch), None
        return Position(self._next.epoch, self._next.batch)

    @next.setter
    def next(self, position: Position) -> None:
        self._next, self._latest = Position(position.epoch, position.batch), None
        self.position = Position(position.epoch, position.batch)

    def begin(self, start: Position, plan: Plan) -> None:
        """Start an iteration of this plan here."""
        size, rank = self.ranks
        if start.batch and (size != plan.ranks or (not plan.lanes and rank != plan.rank)):
            raise StateError(
                f"the rest of this epoch was planned for rank {rank} of {size}, and this process is now rank "
                f"{plan.rank} of {plan.ranks}; call load_state_dict() after init_process_group()"
            )
        self.ranks, self.has_begun = (plan.ranks, plan.rank), True
        self._start, self._next = start, Position(start.epoch + 1)
        self.position, self._latest = Position(start.epoch, start.batch), None

    def track(self, batches: Iterator[T]) -> Iterator[T]:
        """The batches of the iteration that has begun; the position says how many of them have been handed out."""
        tracked = track_position(batches, self.position)
        self._latest = weakref.ref(tracked)
        return tracked

    @contextmanager
    def unmoved(self) -> Iterator[None]:
        """Whatever is iterated meanwhile, the next iteration begins where it would have begun."""
        kept = {**self.__dict__, "_next": self.next}
        try:
            yield
        finally:
            self.__dict__.update(kept)
