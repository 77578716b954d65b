"""A loader as a Keras dataset: `__getitem__`, `num_batches`, and the calls with which Keras begins and ends an epoch.

Comes in: what Keras calls, from one thread or several. Goes out: batches, each row of an epoch exactly once. Mixed into
`keras.utils.PyDataset` by the loaders of `keras` and `tensorflow`; knows no framework. What a call means is decided by
the state machine in `pass_states`; this file carries it out.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator, Mapping
from typing import Any, cast

from rowmill._system.lock import Lock
from rowmill.errors import ArgumentError, StateError
from rowmill.feed.run.stream import Stream, Table
from rowmill.loader._base.loader import Streamed
from rowmill.loader._keras.epoch_pass import EpochPass
from rowmill.loader._keras.pass_states import Action, Event, PassState, Thread, transition


class KerasStream(Streamed):
    """Batches by number: `loader[i]` is batch i of this epoch's plan.

    It reads the chunk that holds the batch and keeps it for i + 1. While Keras goes through an epoch the batches come
    in the plan's order, whatever order Keras asks in: asked in order (`evaluate`, `predict`, `fit(shuffle=False)`),
    index i is batch i; when `fit` shuffles its indices, the k-th index gets batch k. Every row comes exactly once in an
    epoch, and the epoch is counted once, when Keras begins with it; its looks at the shapes count for nothing.
    A loader feeds one `fit` at a time.
    `workers`, `max_queue_size` and `use_multiprocessing` are accepted and mean nothing: Rowmill reads with threads of
    its own, and Keras's queue carries batches of one epoch over into the next.
    """

    _REORDER_WINDOW = 0  # indices that may come out of order without being shuffled: none from a single thread

    def _open(self, dataset: Table, stream: Stream) -> None:
        super()._open(dataset, stream)
        self._lock = Lock()  # of all below
        self._state = PassState()
        self._pass: EpochPass | None = None
        # For random access: an iterator over a chunk, and which batch it gives next.
        self._chunk_reader: tuple[tuple[int, ...], Iterator[Any]] | None = None

    def __getitem__(self, index: int) -> Any:
        number = operator.index(index)
        with self._lock:
            action = self._handle(Event.INDEX)
            if action is Action.BEGIN_PASS:
                self._begin_pass()
            elif action is Action.REPEAT_PASS and self._pass is not None:
                self._pass.repeat()
            result = self._any_batch(number) if action is Action.RANDOM_ACCESS else self._pass_batch(number)
        return result[:1] if isinstance(result, tuple) and len(result) == 2 and result[1] is None else result

    @property
    def num_batches(self) -> int:
        """Batches of the next epoch, or of what is left of one after `load_state_dict`. Read by Keras before a pass."""
        with self._lock:
            self._handle(Event.LENGTH)
            left = self._left()
        if not left:
            raise ArgumentError(
                "an epoch without batches; wanted rows: the table has none, or fewer than batch_size with drop_last"
            )
        return left

    def on_epoch_begin(self) -> None:
        with self._lock:
            action = self._handle(Event.EPOCH_BEGIN)
            if action is Action.SPAN_EPOCHS and self._pass is not None:
                self._pass.go_on()
        if action is Action.REFUSE_EPOCH:
            raise StateError(
                "a resumed epoch has come to its end, and Keras would give every later epoch of this fit as few "
                "batches; take the rest of an epoch with fit(loader, epochs=1), then call fit again"
            )

    def on_epoch_end(self) -> None:
        with self._lock:
            if self._handle(Event.EPOCH_END) is Action.END_PASS:
                self._end_pass()

    workers = property(lambda self: 1, lambda self, value: None)
    use_multiprocessing = property(lambda self: False, lambda self, value: None)
    max_queue_size = property(lambda self: 10, lambda self, value: None)

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """The position of the latest pass, JSON-ready.

        Keras on TensorFlow draws batches ahead of the model: in a callback, say how many of this epoch the model has
        seen (`step=batch + 1`), or the position is that of the latest batch drawn. With `steps_per_epoch`, which takes
        one epoch of the table in several of Keras's, TensorFlow cannot be told: there, leave `step` out.
        """
        current = self._pass
        if step is None or current is None:
            if step:
                raise ArgumentError(f"step={step}, but no epoch of Keras is under way; leave it out")
            return self._stream.state_dict()
        if self._state.spans_epochs and not self._asked_in_main():
            raise ArgumentError(
                f"step={step} in a fit with steps_per_epoch: on TensorFlow it cannot be told which batch of the "
                f"table's epoch that is; leave step= out (the position may be some batches ahead), or fit whole epochs"
            )
        step += current.earlier
        if not 0 <= step <= current.length:
            raise ArgumentError(f"step={step} in a pass of {current.length} batches; wanted 0 to {current.length}")
        at = {"epoch": current.epoch, "batch": current.first + step}
        return {
            **self._stream.state_dict(),
            **(at if step < current.length else {"epoch": at["epoch"] + 1, "batch": 0}),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any], *, extend: bool = False) -> None:
        """Let the next pass go on where a saved one stood: `fit(loader, epochs=1)` takes the rest of that epoch."""
        self.stop()
        super().load_state_dict(state_dict, extend=extend)
        if not self._left():  # saved after the last batch: Keras takes no dataset without batches
            self._stream.epoch += 1

    def extend(self, dataset: Any) -> None:
        self.stop()
        super().extend(dataset)

    def set_epoch(self, epoch: int) -> None:
        self.stop()
        super().set_epoch(epoch)

    def stop(self) -> None:
        """End whatever is under way: a pass left in its middle, what `next(loader)` began, a chunk kept for more."""
        super().stop()
        with self._lock:
            self._handle(Event.STOP)
            self._end_pass()
            if self._chunk_reader is not None:
                cast("Any", self._chunk_reader[1]).close()
                self._chunk_reader = None

    def _handle(self, event: Event) -> Action:
        """Let an event, which happens in the calling thread, change the state; what is to be done about it."""
        self._state, action = transition(self._state, event, _calling_thread(), fit_asks_in_main=self._asked_in_main())
        return action

    def _asked_in_main(self) -> bool:
        """Whether Keras asks in the thread that called `fit`: not on TensorFlow, where that is the user or a look."""
        return True

    def _begin_pass(self) -> None:
        self._end_pass()
        try:
            start, length = self._stream.cursor.next, self._left()
            batches = self._stream.track(self._keras_batches(_calling_thread()))
        except BaseException:
            self._handle(Event.FAILURE)
            raise
        self._pass = EpochPass(batches, start.epoch, start.batch, length, self._REORDER_WINDOW)
        if start.batch > 0 and length > 1:
            self._handle(Event.RESUME)

    def _keras_batches(self, thread: Thread) -> Iterator[Any]:
        """The next epoch for a pass that this kind of thread begins; a framework may have a cheaper kind of batch."""
        return self._batches(self._stream.batches())

    def _pass_batch(self, index: int) -> Any:
        """The batch of the pass for an index of Keras's."""
        current = self._pass
        assert current is not None
        if not 0 <= index < current.length:
            raise IndexError(f"batch {index} of an epoch of {current.length}")
        number = current.number(index)
        if number is not None:
            return self._batch_at(current.epoch, number)
        try:
            batch = current.batch(index)
        except BaseException:
            self._handle(Event.FAILURE)
            self._end_pass()
            raise
        self._handle(Event.LAST_BATCH if current.is_over else Event.BATCH)
        return batch

    def _any_batch(self, index: int) -> Any:
        """A batch of the epoch under way, or of the next one, by its number in the plan."""
        steps = len(self._stream)
        if not -steps <= index < steps:
            raise IndexError(f"batch {index} of an epoch of {steps}")
        current = self._pass
        epoch = self._stream.epoch if current is None or current.is_over else current.epoch
        return self._batch_at(epoch, index % steps)

    def _batch_at(self, epoch: int, number: int) -> Any:
        """A batch of an epoch by its number. Its chunk is kept, so that the batch after it costs little."""
        key = (epoch, number, self._stream.batch_size, self._stream.seed)
        reader, self._chunk_reader = self._chunk_reader, None
        if reader is None or reader[0] != key:
            reader = (key, self._batches(self._stream.batches_at(epoch, number)))
        batch = next(reader[1], None)
        if batch is None:  # the chunk has ended where this batch begins
            return self._batch_at(epoch, number)
        self._chunk_reader = ((epoch, number + 1, *key[2:]), reader[1])
        return batch

    def _left(self) -> int:
        """Batches of the next pass; a pass that was only looked at is still to come."""
        if self._pass is not None and self._state.is_probe:
            return self._pass.length
        start = self._stream.cursor.next
        return self._stream.plan(start.epoch).steps - start.batch

    def _end_pass(self) -> None:
        current, self._pass = self._pass, None
        if current is not None:
            current.close()


def _calling_thread() -> Thread:
    return Thread.MAIN if threading.current_thread() is threading.main_thread() else Thread.OTHER
