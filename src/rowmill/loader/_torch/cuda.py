"""Batches for a GPU: packed in pinned memory, copied on a stream of their own, prefetched for the training loop.

Comes in: an iterator of batches whose blocks lie in pinned memory (`TorchCuda.empty` allocates them). Goes out: tensors
on the device, in the same order. A batch crosses in one transfer for each of its matrices, and for each array of a list
column; it is cut into columns on the device. Used by the PyTorch loaders when `device` is a CUDA device. Not run on a
GPU yet: its logic is tested on the CPU with a recorder in place of `torch.cuda`.

    transfer thread: next batch ─► copies on own stream ─► event recorded
    training loop:   its stream waits for the event ─► batch ─► memory of the batch returns once the event has passed
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rowmill.feed.memory.block import Array, Batch
from rowmill.feed.run.pipeline import THREAD_NAME

PREFETCH = 2  # batches on the device that the training loop has not taken yet


class Cuda(Protocol):
    """The few calls of `torch.cuda` that are needed."""

    def activate(self) -> None: ...
    def stream(self) -> Any: ...
    def event(self) -> Any: ...
    def use(self, stream: Any) -> AbstractContextManager[Any]: ...
    def current(self) -> Any: ...
    def copy(self, tensor: torch.Tensor) -> torch.Tensor: ...


class TorchCuda:
    """`torch.cuda` itself, for one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @staticmethod
    def empty(size: int) -> NDArray[np.uint8]:
        """Pinned memory, from which the GPU copies by itself."""
        return cast("NDArray[np.uint8]", torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy())

    def activate(self) -> None:
        torch.cuda.set_device(self.device)

    def stream(self) -> Any:
        return cast("Any", torch.cuda).Stream(self.device)

    def event(self) -> Any:
        return cast("Any", torch.cuda).Event()

    def use(self, stream: Any) -> AbstractContextManager[Any]:
        return cast("AbstractContextManager[Any]", torch.cuda.stream(stream))

    def current(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, non_blocking=True)


def as_tensor(array: Any) -> torch.Tensor:
    """An array of a batch as a tensor; it is one already if the batch is on a device."""
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(array)


def on_device(batch: Batch, cuda: Cuda) -> Batch:
    """The batch with tensors on the device in place of its arrays of numbers."""

    def copied(array: Array) -> Any:
        return cuda.copy(torch.from_numpy(array))

    ragged = {name: (copied(values), copied(offsets)) for name, (values, offsets) in batch.ragged.items()}
    return replace(batch, matrices=[copied(array) for array in batch.matrices], ragged=ragged)


def transferred(batches: Iterator[Batch], make: Callable[[Batch], Any], cuda: Cuda) -> Iterator[Any]:
    """What `make` makes of the batches on the device. Leaving the iteration ends the transfer thread; what fails in it
    is raised here."""
    ready: deque[tuple[Any, Any, Batch]] = deque()
    changed = threading.Condition()
    state: dict[str, Any] = {"closed": False, "done": False, "error": None}

    def transfer() -> None:
        try:
            cuda.activate()
            stream = cuda.stream()
            for batch in batches:
                event = cuda.event()
                with cuda.use(stream):
                    sent = make(on_device(batch, cuda))
                    event.record(stream)
                with changed:
                    ready.append((sent, event, batch))
                    changed.notify_all()
                    changed.wait_for(lambda: len(ready) < PREFETCH or state["closed"])
                    if state["closed"]:
                        return
        except BaseException as error:  # noqa: BLE001 - it belongs to the training loop
            state["error"] = error
        finally:
            with changed:
                state["done"] = True
                changed.notify_all()

    thread = threading.Thread(target=transfer, name=f"{THREAD_NAME}-transfer", daemon=True)
    thread.start()
    copying: deque[tuple[Any, Batch]] = deque()  # batches whose memory the GPU may still be reading
    try:
        while True:
            with changed:
                changed.wait_for(lambda: ready or state["done"])
                if not ready:
                    break
                sent, event, batch = ready.popleft()
                changed.notify_all()
            copying.append((event, batch))
            current = cuda.current()
            current.wait_event(event)
            each_tensor(sent, partial(_use_on, current))
            yield sent
            while copying and copying[0][0].query():
                copying.popleft()
        if state["error"] is not None:
            raise state["error"]
    finally:
        with changed:
            state["closed"] = True
            changed.notify_all()
        thread.join()
        for event, _ in [*copying, *((event, batch) for _, event, batch in ready)]:
            event.synchronize()  # before the memory of these batches returns
        cast("Any", batches).close()


def _use_on(stream: Any, tensor: torch.Tensor) -> None:
    """Give memory of the tensor to others only when this stream is past its use."""
    tensor.record_stream(stream)


def each_tensor(batch: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """A copy of the structure with the function applied to every tensor in it."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, dict):
        return {name: each_tensor(value, function) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        values = [each_tensor(value, function) for value in batch]
        return batch._make(values) if hasattr(batch, "_make") else type(batch)(values)  # a namedtuple has names to keep
    return batch
