"""Tracks the position of an iteration, and closes iterations that are still open when the interpreter ends.

Called by `stream`, for whatever the loaders make of its batches.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from rowmill._system.interrupts import KeepInterrupts
from rowmill.feed.order.resume_state import Position

T = TypeVar("T")

_END: Any = object()
_numbers = count()
_unfinished: dict[int, weakref.ref[Any]] = {}  # no WeakSet: that runs code where Ctrl-C would be lost


def track_position(batches: Iterator[T], position: Position) -> Iterator[T]:
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
