"""A `Streamed` loader as a Keras dataset: `__getitem__`, `num_batches`, and the calls that open and close an epoch.

Comes in: what Keras calls, from one thread or several. Goes out: batches, each row of an epoch exactly once. Mixed into
`keras.utils.PyDataset` by the loaders of `keras` and `tensorflow`; knows no framework. What Keras 3.15 calls (n is a
read of `num_batches`, B and E are on_epoch_begin and on_epoch_end, t is another thread):

    tensorflow    n n 0 1 n E   B nt 3t 0t 4t 1t 2t E   B nt ...        the first two to see the shapes
    torch, jax    n B n 0 n E   B n 3 0 4 1 2 n E       B n ...         the first one to see the shapes
    with steps_per_epoch the indices of one pass go on over several B and E, and TensorFlow asks ahead between them

So a pass begins with the first index after a read of `num_batches` in the same kind of thread, inside an epoch or in a
thread of TensorFlow's. Everything else is random access, which changes nothing.
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
from rowmill.loader._keras.epoch_pass import Pass


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

    _AHEAD = 0  # indices that may come out of order without being shuffled: none from a single thread

    def _open(self, dataset: Table, stream: Stream) -> None:
        super()._open(dataset, stream)
        self._turn = Lock()
        self._inside = False  # between on_epoch_begin and on_epoch_end
        self._length_read: set[bool] = set()  # since the latest batch: by the main thread (True), by another (False)
        self._pass: Pass | None = None
        self._pass_in_main = True
        self._rest_over = False  # whether a `fit` under way was told how long the rest of an epoch is, and has had it
        self._near: tuple[tuple[int, ...], Iterator[Any]] | None = None  # which batch this iterator gives next

    def __getitem__(self, index: int) -> Any:
        number = operator.index(index)
        with self._turn:
            result = self._pass_batch(number) if self._in_pass() else self._any_batch(number)
        return result[:1] if isinstance(result, tuple) and len(result) == 2 and result[1] is None else result

    @property
    def num_batches(self) -> int:
        """Batches of the next epoch, or of what is left of one after `load_state_dict`. Read by Keras before a pass."""
        with self._turn:
            self._length_read.add(_in_main())
            if _in_main() and not self._inside:
                self._rest_over = False  # another `fit` begins
            left = self._left()
        if not left:
            raise ArgumentError(
                "an epoch without batches; wanted rows: the table has none, or fewer than batch_size with drop_last"
            )
        return left

    def on_epoch_begin(self) -> None:
        if self._rest_over:
            raise StateError(
                "a resumed epoch has come to its end, and Keras would give every later epoch of this fit as few "
                "batches; take the rest of an epoch with fit(loader, epochs=1), then call fit again"
            )
        if self._pass is not None and not self._pass.is_probe:
            self._pass.go_on()
        self._inside = True

    def on_epoch_end(self) -> None:
        with self._turn:
            self._inside = False
            self._length_read.discard(True)  # what the main thread reads is used within an epoch, or not at all
            held = self._pass
            if held is not None and held.is_over:
                self._rest_over = held.first > 0 and held.length > 1 and not held.spans_epochs
                self._pass = None

    workers = property(lambda self: 1, lambda self, value: None)
    use_multiprocessing = property(lambda self: False, lambda self, value: None)
    max_queue_size = property(lambda self: 10, lambda self, value: None)

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """The position of the latest pass, JSON-ready.

        Keras on TensorFlow draws batches ahead of the model: in a callback, say how many of this epoch the model has
        seen (`step=batch + 1`), or the position is that of the latest batch drawn. With `steps_per_epoch`, which takes
        one epoch of the table in several of Keras's, TensorFlow cannot be told: there, leave `step` out.
        """
        held = self._pass
        if step is None or held is None:
            if step:
                raise ArgumentError(f"step={step}, but no epoch of Keras is under way; leave it out")
            return self._stream.state_dict()
        if held.spans_epochs and not self._asked_in_main():
            raise ArgumentError(
                f"step={step} in a fit with steps_per_epoch: on TensorFlow it cannot be told which batch of the "
                f"table's epoch that is; leave step= out (the position may be some batches ahead), or fit whole epochs"
            )
        step += held.before
        if not 0 <= step <= held.length:
            raise ArgumentError(f"step={step} in a pass of {held.length} batches; wanted 0 to {held.length}")
        at = {"epoch": held.epoch, "batch": held.first + step}
        return {**self._stream.state_dict(), **(at if step < held.length else {"epoch": held.epoch + 1, "batch": 0})}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next pass go on where a saved one stood: `fit(loader, epochs=1)` takes the rest of that epoch."""
        self.stop()
        super().load_state_dict(state_dict)
        if not self._left():  # saved after the last batch: Keras takes no dataset without batches
            self._stream.epoch += 1

    def set_epoch(self, epoch: int) -> None:
        self.stop()
        super().set_epoch(epoch)

    def stop(self) -> None:
        """End whatever is under way: an epoch left in its middle, what `next(loader)` began, a chunk kept near."""
        super().stop()
        with self._turn:
            self._drop_pass()
            self._inside = self._rest_over = False
            self._length_read.clear()
            if self._near is not None:
                cast("Any", self._near[1]).close()
                self._near = None

    def _in_pass(self) -> bool:
        """Whether this batch is asked for by Keras in the course of an epoch; begins a pass if so."""
        main = _in_main()
        if main and not (self._inside and self._asked_in_main()):
            return False
        if main in self._length_read:
            self._length_read.remove(main)
            self._begin(main)
        return self._pass is not None and self._pass_in_main is main

    def _asked_in_main(self) -> bool:
        """Whether Keras asks in the thread that called `fit`: not on TensorFlow, where that is the user or a look."""
        return True

    def _begin(self, main: bool) -> None:
        if self._pass is not None and self._pass.is_probe:
            self._pass.again()
        else:
            self._drop_pass()
            start, length = self._stream.cursor.next, self._left()
            self._pass_in_main = main
            batches = self._stream.track(self._for_keras(main))
            self._pass = Pass(batches, start.epoch, start.batch, length, self._AHEAD)
        self._pass_in_main = main

    def _for_keras(self, main: bool) -> Iterator[Any]:
        """What Keras gets: the same batches as everybody, unless a framework takes others at less cost."""
        return self._batches(self._stream.batches())

    def _pass_batch(self, index: int) -> Any:
        held = self._pass
        assert held is not None
        if not 0 <= index < held.length:
            raise IndexError(f"batch {index} of an epoch of {held.length}")
        number = held.number(index)
        if number is not None:
            return self._batch_at(held.epoch, number)
        try:
            return held.batch(index)
        except BaseException:
            self._drop_pass()
            raise

    def _any_batch(self, index: int) -> Any:
        steps = len(self._stream)
        if not -steps <= index < steps:
            raise IndexError(f"batch {index} of an epoch of {steps}")
        held = self._pass
        epoch = self._stream.epoch if held is None or held.is_over else held.epoch
        return self._batch_at(epoch, index % steps)

    def _batch_at(self, epoch: int, number: int) -> Any:
        """A batch of an epoch by its number; the one after it is cheap."""
        key = (epoch, number, self._stream.batch_size, self._stream.seed)
        near, self._near = self._near, None
        if near is None or near[0] != key:
            near = (key, self._batches(self._stream.batches_at(epoch, number)))
        batch = next(near[1], None)
        if batch is None:  # the chunk has ended where this batch begins
            return self._batch_at(epoch, number)
        self._near = ((epoch, number + 1, *key[2:]), near[1])
        return batch

    def _left(self) -> int:
        held = self._pass
        if held is not None and held.is_probe:
            return held.length
        start = self._stream.cursor.next
        return self._stream.plan(start.epoch).steps - start.batch

    def _drop_pass(self) -> None:
        held, self._pass = self._pass, None
        if held is not None:
            held.close()


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()
