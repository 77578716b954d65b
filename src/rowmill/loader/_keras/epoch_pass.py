"""Batches by number for Keras, at the speed of a stream: indices come in, in Keras's order; planned batches go out.

Keras asks a dataset for batches by index, shuffles the indices in `fit`, asks for some before the first epoch to see
their shapes, and on TensorFlow asks from a thread of its own and ahead of time. A chunk holds many batches and must be
decoded as a whole, so jumping about would decode a chunk for each batch. Instead a *pass* hands out the plan's batches
in the plan's order: the k-th new index gets batch k. Asked in order, index i is batch i; asked in shuffled order, the
indices are only names. Called by the Keras loaders (`keras_loader`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast


class Pass:
    """One pass over the batches of an epoch, or over the rest of one. Not safe for threads: the caller has a lock."""

    def __init__(self, batches: Iterator[Any], epoch: int, first: int, length: int, ahead: int) -> None:
        self.epoch = epoch
        self.first = first  # the number of its first batch in the epoch's plan
        self.length = length
        self.spans_epochs = False  # whether Keras takes it in several epochs of its own (steps_per_epoch)
        self.before = 0  # batches given before the latest of them
        self._batches = batches
        self._ahead = ahead  # how far a pool of threads may ask out of order
        self._in_order = True
        self._given: dict[int, int] = {}
        self._waiting: dict[int, Any] = {}  # batches that were drawn before their index was asked for
        self._drawn = 0
        self._probe: Any = None  # the first batch, as long as it is the only one given

    @property
    def is_probe(self) -> bool:
        """Whether one batch of several has been given: what Keras does to see the shapes, before an epoch."""
        return len(self._given) <= 1 < self.length

    def go_on(self) -> None:
        """Keras begins another epoch of its own, and goes on with this pass."""
        self.spans_epochs = True
        self.before = len(self._given)

    @property
    def is_over(self) -> bool:
        return len(self._given) >= self.length

    def again(self) -> None:
        """Begin anew after a probe: the batch that was given is given again, and nothing is read twice."""
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
        batch = self._draw(self._choose(index))
        self._probe = None if self._given else batch
        self._given[index] = self._chosen
        if self.is_over:
            self._finish()
        return batch

    def _choose(self, index: int) -> int:
        """The number of the batch for this index: its own if all indices came in order so far, else the next."""
        following = min(self._waiting, default=self._drawn)
        if self._in_order and index != following and index not in self._waiting:
            self._in_order = self._drawn <= index <= following + self._ahead
        self._chosen = index if self._in_order else following
        return self._chosen

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
        self._waiting.clear()
        self._probe = None
        cast("Any", self._batches).close()
