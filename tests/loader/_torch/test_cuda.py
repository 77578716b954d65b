"""The way to a GPU, with a recorder in place of `torch.cuda`: what is waited for, and what is not overwritten."""

import contextlib
import ctypes
import threading
import time

import numpy as np
import pytest
import torch

import rowmill
from rowmill.errors import ArgumentError
from rowmill.feed.memory.block import Batch
from rowmill.feed.pack.selection import Selector
from rowmill.feed.run.stream import Stream as Feed
from rowmill.loader._torch.cuda import PREFETCH, as_tensor, transferred
from rowmill.loader.torch import Loader


class Event:
    def __init__(self, log, name):
        self.log, self.name, self.pending = log, name, []

    def record(self, stream):
        self.log.append(("record", self.name))

    def synchronize(self):
        self.log.append(("synchronize", self.name))
        self.happen()

    def query(self):
        """The copies of a batch are late: they are done when the batch after it has been waited for."""
        return not self.pending

    def happen(self):
        for run in self.pending:  # now, and not before, the copies of this batch are made
            run()
        self.pending.clear()


class Stream:
    def __init__(self, recorder, name):
        self.recorder, self.name = recorder, name

    def wait_event(self, event):
        """The GPU waits, this process does not: the copies of the batch before are made now, and of this one later."""
        self.recorder.log.append(("wait", event.name))
        for earlier in self.recorder.events[: event.name]:
            earlier.happen()


class Recorder:
    """Copies happen late: when a later batch is waited for. Memory that is reused too early shows as wrong rows."""

    def __init__(self):
        self.log, self.events, self.allocated, self.streams = [], [], [], 0
        self.using = self.thread = None

    def empty(self, size):
        self.allocated.append(np.empty(size, np.uint8))
        return self.allocated[-1]

    def activate(self):
        self.log.append(("activate", threading.current_thread().name))

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
        sent = DeviceTensor(torch.full_like(tensor, -7))
        self.log.append(("copy", (tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor.dtype)))
        size = tensor.numel() * tensor.element_size()
        memory = (ctypes.c_uint8 * size).from_address(tensor.data_ptr())  # as a GPU sees it: it keeps nothing alive
        shape, dtype = tensor.shape, tensor.dtype
        self.events[-1].pending.append(
            lambda: sent.copy_(torch.frombuffer(memory, dtype=torch.uint8).view(dtype).reshape(shape))
        )
        return sent

    def in_pinned_memory(self, start, size):
        places = [(array.ctypes.data, array.nbytes) for array in self.allocated]
        return any(begin <= start and start + size <= begin + room for begin, room in places)


class DeviceTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, tensor):
        return tensor.as_subclass(cls)

    def record_stream(self, stream):
        stream.recorder.log.append(("keep for", stream.name))


def numbered(count, rows=4):
    for number in range(count):
        yield Batch(rows, [np.full((rows if number < count - 1 else 2, 3), number), np.full((rows, 1), float(number))])


def pair(batch):
    x, y = map(as_tensor, batch.matrices)
    return x, {"y": y.squeeze(1)}, None


def transfer(batches, cuda):
    return transferred(batches, pair, cuda)


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
        next(transfer(numbered(3), Broken()))


def test_batches_arrive_in_order_and_whole():
    cuda, kept = Recorder(), []
    for number, (x, features, nothing) in enumerate(transfer(numbered(20), cuda)):
        cuda.events[number].happen()  # what the training step would wait for
        assert (x == number).all() and (features["y"] == number).all() and nothing is None
        kept.append((x, number))
    assert len(kept) == 20 and all((x == number).all() for x, number in kept)
    assert kept[-1][0].shape == (2, 3)
    assert cuda.streams == 1 and ("keep for", "current") in cuda.log
    assert [what for what, _ in cuda.log].count("copy") == 40, "one transfer for each matrix"


def test_the_device_of_the_rank_is_set_in_the_transfer_thread():
    cuda = Recorder()
    list(transfer(numbered(3), cuda))
    assert cuda.log[0] == ("activate", "rowmill-feed-transfer")


def table(rows=60_000):
    names = [f"c{i}" for i in range(26)], [f"x{i}" for i in range(14)]
    frame = {name: np.arange(rows) * 41 + i for i, name in enumerate(names[0])}
    frame |= {name: (np.arange(rows) * 43 + i).astype(np.float32) for i, name in enumerate(names[1])}
    return rowmill.Dataset(frame, npartitions=8), names


def test_rows_are_packed_in_pinned_memory_and_cross_once_for_each_dtype():
    data, (ids, numbers) = table()
    selector = Selector(data.schema)
    selector.native([*ids, *numbers])
    selection = selector.selection()
    cuda, seen = Recorder(), []
    feed = Feed(data, selection, batch_size=3_000, shuffle=True, memory="4MB")
    feed.allocate = cuda.empty

    def columns(batch):
        found = {}
        for matrix, tensor in zip(selection.layout.matrices, batch.matrices, strict=True):
            found.update(zip(matrix.columns, tensor.unbind(1), strict=True))
        return found

    held = []
    for batch in transferred(feed.batches(), columns, cuda):
        held.append(batch)
        if len(held) > 1:  # its copies have been made by now, from memory that was not used again
            before = held.pop(0)
            rows = torch.div(before["c0"], 41, rounding_mode="floor")
            assert all((before[f"c{i}"] == rows * 41 + i).all() for i in range(26))
            assert all((before[f"x{i}"] == (rows * 43 + i).float()).all() for i in range(14))
            seen += rows.tolist()
    for event in cuda.events:
        event.happen()
    seen += torch.div(held[0]["c0"], 41, rounding_mode="floor").tolist()
    assert sorted(seen) == list(range(60_000))
    copies = [detail for what, detail in cuda.log if what == "copy"]
    assert len(copies) == 2 * 20, "two dtypes, 20 batches"
    assert all(cuda.in_pinned_memory(start, size) for start, size, _ in copies), "no copy on the CPU in between"
    whole = sum(array.nbytes for array in cuda.allocated)
    assert whole < 60_000 * selection.layout.row_bytes, "blocks are used again"


def test_memory_returns_only_after_the_copy():
    """What was left while copies were under way is waited for."""
    cuda = Recorder()
    batches = transfer(numbered(10), cuda)
    for _ in range(3):
        next(batches)
    batches.close()
    waited = {name for what, name in cuda.log if what == "synchronize"}
    recorded = {name for what, name in cuda.log if what == "record"}
    finished = {event.name for event in cuda.events if not event.pending}
    assert recorded <= finished and waited


def threads():
    return [t for t in threading.enumerate() if t.name.endswith("transfer")]


def test_errors_and_early_leaving():
    def broken():
        yield from numbered(3)
        raise OSError("deliberate")

    count = 0
    with pytest.raises(OSError, match="deliberate"):
        for _ in transfer(broken(), Recorder()):
            count += 1
    assert count == 3 and not threads()
    for stop in range(6):
        batches = transfer(numbered(100), Recorder())
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

    batches = transfer(counted(), Recorder())
    next(batches)
    time.sleep(0.1)
    assert len(made) <= 1 + PREFETCH + 1
    batches.close()
