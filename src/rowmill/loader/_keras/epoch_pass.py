"""Batches by index for Keras, at the speed of a stream: indices come in, in Keras's order; planned batches go out.

A chunk holds many batches and must be decoded as a whole, so random access would decode a chunk for each batch. Instead
a *pass* hands out the plan's batches in the plan's order: the k-th new index gets batch k. Asked in order, index i is
batch i; asked in shuffled order, the indices are only names. When a pass begins and ends is decided in `pass_states`.
Called by `keras_loader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast


class EpochPass:
    """One pass over the batches of an epoch, or over the rest of one. Not safe for threads: the caller has a lock."""

    def __init__(self, batches: Iterator[Any], epoch: int, first: int, length: int, reorder_window: int) -> None:
        self.epoch = epoch
        self.first = first  # the number of its first batch in the epoch's plan
        self.length = length
        self.earlier = 0  # batches given in earlier epochs of Keras's (steps_per_epoch)
        self._batches = batches
        self._reorder_window = reorder_window  # how far a pool of threads may ask out of order
        self._in_order = True
        self._given: dict[int, int] = {}  # index: number of its batch in this pass
        self._waiting: dict[int, Any] = {}  # batches that were drawn before their index was asked for
        self._drawn = 0
        self._probe: Any = None  # the first batch, as long as it is the only one given

    def go_on(self) -> None:
        """Keras begins another epoch of its own, and goes on with this pass."""
        self.earlier = len(self._given)

    @property
    def is_over(self) -> bool:
        """Whether all batches have been given."""
        return len(self._given) >= self.length

    def repeat(self) -> None:
        """Begin anew after a look at the shapes: the batch that was given is given again, and nothing is read twice."""
        self._waiting = {number: batch for number, batch in self._waiting.items() if number}
        if self._given:
            self._waiting[0] = self._probe
        self._given, self._in_order, self._probe = {}, True, None

    def number(self, index: int) -> int | None:
        """Which batch of the epoch this index was given already; None if none."""
        found = self._given.get(index)
        return None if found is None else self.first + found

    def batch(self, index: int) -> Any:
        """The batch for an index that is asked for the first time."""
        number = self._choose(index)
        batch = self._draw(number)
        self._probe = None if self._given else batch
        self._given[index] = number
        if self.is_over:
            self._finish()
        return batch

    def _choose(self, index: int) -> int:
        """The number of the batch for this index: its own if all indices came in order so far, else the next."""
        following = min(self._waiting, default=self._drawn)
        if self._in_order and index != following and index not in self._waiting:
            self._in_order = self._drawn <= index <= following + self._reorder_window
        return index if self._in_order else following

    def _draw(self, number: int) -> Any:
        if number in self._waiting:
            return self._waiting.pop(number)
        while self._drawn < number:
            self._waiting[self._drawn] = next(self._batches)
            self._drawn += 1
        self._drawn += 1
        return next(self._batches)

    def _finish(self) -> None:
        """Let the iteration come to its end, so that its threads end and the position moves to the next epoch."""
        for _ in self._batches:
            raise AssertionError("more batches than planned; please report this")

    def close(self) -> None:
        """End the iteration and its threads."""
        self._waiting.clear()
        self._probe = None
        cast("Any", self._batches).close()
