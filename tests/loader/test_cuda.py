"""The way to a GPU, with a recorder in place of `torch.cuda`: what is waited for, and what is not overwritten."""

import contextlib
import itertools
import threading
import time

import pytest
import torch

import rowmill
from rowmill.errors import ArgumentError
from rowmill.loader.torch import Loader
from rowmill.loader.torch_cuda import SLOTS, transferred


class Event:
    def __init__(self, log, name):
        self.log, self.name, self.pending = log, name, []

    def record(self, stream):
        self.log.append(("record", self.name))

    def synchronize(self):
        self.log.append(("synchronize", self.name))
        self.happen()

    def happen(self):
        for run in self.pending:  # now, and not before, the copies of this slot are made
            run()
        self.pending.clear()


class Stream:
    def __init__(self, recorder, name):
        self.recorder, self.name = recorder, name

    def wait_event(self, event):
        self.recorder.log.append(("wait", event.name))  # the GPU waits, this process does not
        event.happen()


class Recorder:
    """Copies happen late: only when somebody waits for their event. Memory reused too early shows as wrong rows."""

    def __init__(self):
        self.log, self.events, self.pinned_memory, self.streams = [], [], [], 0
        self.using = None

    def pinned(self, like):
        self.pinned_memory.append(torch.empty_like(like))
        return self.pinned_memory[-1]

    def stream(self):
        self.streams += 1
        return Stream(self, f"own {self.streams}")

    def event(self):
        self.events.append(Event(self.log, len(self.events)))
        return self.events[-1]

    @contextlib.contextmanager
    def use(self, stream):
        self.using = stream
        yield
        self.using = None

    def current(self):
        return Stream(self, "current")

    def copy(self, tensor):
        assert self.using is not None, "copies belong on a stream of their own"
        assert any(tensor.data_ptr() == p.data_ptr() for p in self.pinned_memory), "copies come from pinned memory"
        sent = DeviceTensor(torch.full_like(tensor, -7))
        owner = self.events[len([e for e in self.log if e[0] == "record"]) % SLOTS]
        owner.pending.append(lambda: sent.copy_(tensor))
        return sent


class DeviceTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, tensor):
        return tensor.as_subclass(cls)

    def record_stream(self, stream):
        stream.recorder.log.append(("keep for", stream.name))


def numbered(count, rows=4):
    for number in range(count):
        yield (
            torch.full((rows if number < count - 1 else 2, 3), number),
            {"y": torch.full((rows,), float(number))},
            None,
        )


def test_a_device_that_is_not_there_is_refused_and_what_fails_in_the_thread_is_raised():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    data = rowmill.Dataset({"a": [1, 2, 3]})
    with pytest.raises(ArgumentError, match="PyTorch sees no GPU here; wanted 'cpu'"):
        Loader(data, 2, device="cuda")

    class Broken(Recorder):
        def stream(self):
            raise RuntimeError("no stream")

    with pytest.raises(RuntimeError, match="no stream"):
        next(transferred(numbered(3), Broken()))


def test_batches_arrive_in_order_and_whole():
    cuda = Recorder()
    kept = []
    for number, (x, features, nothing) in enumerate(transferred(numbered(20), cuda)):
        assert (x == number).all() and (features["y"] == number).all() and nothing is None
        kept.append((x, number))
    assert len(kept) == 20 and all((x == number).all() for x, number in kept)
    assert kept[-1][0].shape == (2, 3)
    assert cuda.streams == 1
    assert len(cuda.pinned_memory) == 2 * SLOTS, "staging is used again"
    assert ("keep for", "current") in cuda.log


def test_a_slot_is_waited_for_before_it_is_filled_again():
    cuda = Recorder()
    list(transferred(numbered(6), cuda))
    for slot in range(SLOTS):
        steps = [what for what, name in cuda.log if name == slot and what in ("record", "synchronize")]
        for first, second in itertools.pairwise(steps):
            assert (first, second) != ("record", "record"), "filled twice without waiting in between"


def threads():
    return [t for t in threading.enumerate() if t.name.endswith("transfer")]


def test_errors_and_early_leaving():
    def broken():
        yield from numbered(3)
        raise OSError("deliberate")

    count = 0
    with pytest.raises(OSError, match="deliberate"):
        for _ in transferred(broken(), Recorder()):
            count += 1
    assert count == 3 and not threads()
    for stop in range(6):
        batches = transferred(numbered(100), Recorder())
        for _ in range(stop):
            next(batches)
        batches.close()
        assert not threads()


def test_it_runs_ahead_by_no_more_than_its_slots():
    made = []

    def counted():
        for number, batch in enumerate(numbered(50)):
            made.append(number)
            yield batch

    batches = transferred(counted(), Recorder())
    next(batches)
    time.sleep(0.1)
    assert len(made) <= 1 + SLOTS
    batches.close()
