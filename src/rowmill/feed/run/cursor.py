"""The position of a stream: where its latest iteration stands, and where the next one begins.

Called by `stream`. A position counts batches that were handed out, never those that were prefetched. Iterations that
are still open when the interpreter ends are closed.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, TypeVar

from rowmill._system.interrupts import KeepInterrupts
from rowmill.errors import StartedError, StateError
from rowmill.feed.order.plan import Plan
from rowmill.feed.order.resume_state import Position

T = TypeVar("T")

_END: Any = object()
_numbers = count()
_unfinished: dict[int, weakref.ref[Any]] = {}  # no WeakSet: that runs code where Ctrl-C would be lost


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

    def between_epochs(self) -> Position:
        """Where the next epoch begins. Raises `StartedError` within an epoch."""
        under_way = self._latest is not None and self._latest() is not None and self.position.batch > 0
        if under_way or self.next.batch:
            raise StartedError(
                "an epoch is under way, and its order is planned; finish or leave it, then extend the data"
            )
        return self.next

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
        tracked = _track(batches, self.position)
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


def _track(batches: Iterator[T], position: Position) -> Iterator[T]:
    """Pass batches on; the position says how many of them have been handed out."""
    for number in [number for number, found in list(_unfinished.items()) if found() is None]:
        _unfinished.pop(number, None)  # never begun
    number = next(_numbers)
    counting: Iterator[T] = _counting(batches, position, number)
    _unfinished[number] = weakref.ref(counting)
    return counting


def _counting(batches: Any, position: Position, number: int) -> Iterator[T]:
    try:
        while True:
            with KeepInterrupts():
                batch = next(batches, _END)
            if batch is _END:
                break
            position.batch += 1
            yield batch
        position.epoch, position.batch = position.epoch + 1, 0
    finally:
        batches.close()
        _unfinished.pop(number, None)


@atexit.register
def _close_all() -> None:
    """An iteration that was left in the middle ends while its modules are still there to end it."""
    for found in list(_unfinished.values()):
        with suppress(ValueError):  # another thread is inside it
            if (batches := found()) is not None:
                batches.close()
