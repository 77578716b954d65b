"""Batches on their way to a GPU: pinned staging, copies on a stream of their own, one batch ahead of the training loop.

Comes in: an iterator of batches of CPU tensors. Goes out: the same batches on the device, in the same order. Used by
the PyTorch loaders when `device` is a CUDA device. Not run on a GPU yet: its logic is tested on the CPU with a recorder
in place of `torch.cuda`.

    transfer thread: next batch ─► wait until the slot's last copy is done ─► pinned slot ─► copy on own stream ─► event
    training loop:   takes a batch ─► its stream waits for the event ─► batch
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

import torch

from rowmill.feed.feed import THREAD_NAME

SLOTS = 2


class Cuda(Protocol):
    """The few calls of `torch.cuda` that are needed."""

    def pinned(self, like: torch.Tensor) -> torch.Tensor: ...
    def stream(self) -> Any: ...
    def event(self) -> Any: ...
    def use(self, stream: Any) -> AbstractContextManager[Any]: ...
    def current(self) -> Any: ...
    def copy(self, tensor: torch.Tensor) -> torch.Tensor: ...


class TorchCuda:
    """`torch.cuda` itself, for one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

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


class Slot:
    """Pinned memory for one batch, and the event that says when its copy is done."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self.event = cuda.event()
        self._pinned: list[torch.Tensor] = []

    def send(self, batch: Any, stream: Any) -> Any:
        """The batch on the device, once the event has come to pass. Waits until the slot's last copy is done."""
        self.event.synchronize()
        number = iter(range(1 << 30))
        with self.cuda.use(stream):
            sent = each_tensor(batch, lambda tensor: self.cuda.copy(self._stage(next(number), tensor)))
            self.event.record(stream)
        return sent

    def _stage(self, number: int, tensor: torch.Tensor) -> torch.Tensor:
        if number == len(self._pinned):
            self._pinned.append(self.cuda.pinned(tensor))
        held = self._pinned[number]
        if held.dtype != tensor.dtype or held.shape[1:] != tensor.shape[1:] or len(held) < len(tensor):
            held = self._pinned[number] = self.cuda.pinned(tensor)
        return held[: len(tensor)].copy_(tensor)


def transferred(batches: Iterator[Any], cuda: Cuda) -> Iterator[Any]:
    """The batches on the device. Leaving the iteration ends the transfer thread; what fails in it is raised here."""
    ready: deque[tuple[Any, Any]] = deque()
    changed = threading.Condition()
    state: dict[str, Any] = {"closed": False, "done": False, "error": None}

    def transfer() -> None:
        try:
            slots, stream = [Slot(cuda) for _ in range(SLOTS)], cuda.stream()
            for number, batch in enumerate(batches):
                slot = slots[number % SLOTS]
                sent = slot.send(batch, stream)
                with changed:
                    ready.append((sent, slot.event))
                    changed.notify_all()
                    changed.wait_for(lambda: len(ready) < SLOTS - 1 or state["closed"])
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
    try:
        while True:
            with changed:
                changed.wait_for(lambda: ready or state["done"])
                if not ready:
                    break
                sent, event = ready.popleft()
                changed.notify_all()
            current = cuda.current()
            current.wait_event(event)
            _keep(sent, current)
            yield sent
        if state["error"] is not None:
            raise state["error"]
    finally:
        with changed:
            state["closed"] = True
            changed.notify_all()
        thread.join()
        cast("Any", batches).close()


def _keep(batch: Any, stream: Any) -> None:
    """Memory of the batch is given to others only when this stream is past its use."""
    each_tensor(batch, lambda tensor: tensor.record_stream(stream))


def each_tensor(batch: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """The same structure with the function applied to every tensor in it."""
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, dict):
        return {name: each_tensor(value, function) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        values = [each_tensor(value, function) for value in batch]
        return batch._make(values) if hasattr(batch, "_make") else type(batch)(values)  # a namedtuple has names to keep
    return batch
