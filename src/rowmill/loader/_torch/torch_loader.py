"""The base class of the PyTorch loaders: an iterable over a `Stream` whose batches become tensors.

Tensors are views of the feed's blocks, so nothing is copied on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from multiprocessing.context import get_spawning_popen
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from rowmill.errors import ArgumentError, ForkedError, warn
from rowmill.feed.memory.block import Batch
from rowmill.feed.run.stream import Stream, Table
from rowmill.loader._base.batch_iterators import map_batches
from rowmill.loader._base.loader import Streamed
from rowmill.loader._torch.accelerate import SKIPPING, refuse_second_division, refuse_skipping
from rowmill.loader._torch.cuda import TorchCuda, transferred
from rowmill.loader._torch.worker_positions import WorkerPositions


class TorchStream(Streamed, IterableDataset[Any]):
    """An iterable over a `Stream` for PyTorch: its device, and its place among a stock `DataLoader`'s workers."""

    def __init__(self, dataset: Table, stream: Stream, device: Any) -> None:
        super().__init__()
        self._open(dataset, stream)
        self.device = _device(device)
        if self.device.type == "cuda":
            stream.allocate = TorchCuda.empty
        self._pid: int | None = os.getpid()
        self._workers: WorkerPositions | None = None  # if there are worker processes

    def __iter__(self) -> Iterator[Any]:
        """A new epoch (or the rest of one, after `load_state_dict`), independent of any other iterator.

        World size and rank are those of `torch.distributed` at this moment, unless they were given. An iterator that is
        dropped after one batch, as in `next(iter(loader))`, does not use up its epoch.
        """
        refuse_second_division(self.global_size, self._stream.selection.layout.ragged)
        refuse_skipping()
        batches = self._epoch_batches()
        self._tell()
        return batches

    def _epoch_batches(self) -> Iterator[Any]:
        self._catch_up()
        batches = self._stream.batches(*self._share())
        made = self._on_device(batches) if self.device.type == "cuda" else self._batches(batches)
        return self._stream.track(made)

    def _on_device(self, batches: Iterator[Batch]) -> Iterator[Any]:
        """What users get of these batches, on the GPU; `map` is applied in the training loop."""
        return map_batches(self._mapped, transferred(batches, self._tensors, TorchCuda(_numbered(self.device))))

    def __getitem__(self, index: int) -> Any:
        """Batch `index` of the epoch that `epoch` names; its chunk alone is read."""
        self._catch_up()
        return super().__getitem__(index)

    def __getstate__(self) -> dict[str, Any]:
        """What a spawned worker process gets."""
        if get_spawning_popen() is None:  # a copy, or a file
            return {**self.__dict__, "_batch_itr": None, "_pid": None, "_workers": None}
        refuse_second_division(self.global_size, self._stream.selection.layout.ragged)  # no worker would see who asks
        if self._workers is None:
            self._workers = WorkerPositions(self._stream.cursor.next)
        return {**self.__dict__, "_batch_itr": None, "_pid": None}

    @property
    def sampler(self) -> Any:
        """What Accelerate asks for in order to pass over batches. There is none, and the error says what to do."""
        raise AttributeError(SKIPPING)

    @property
    def epoch(self) -> int:
        """The epoch of the latest iteration, or of the next one once that has ended: `state_dict()["epoch"]`.

        With worker processes of a `DataLoader`, which tell only where they begin, the epoch of the next iteration.
        """
        self._catch_up()
        return self._stream.position.epoch

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self._tell()

    def load_state_dict(self, state_dict: Mapping[str, Any], *, extend: bool = False) -> None:
        super().load_state_dict(state_dict, extend=extend)
        self._tell()

    def extend(self, dataset: Any) -> None:
        super().extend(dataset)
        self._tell()

    def _tell(self) -> None:
        """Let the processes after this one begin where this one would: the parent tells all, a worker its successor."""
        if self._workers is not None:
            worker = get_worker_info()
            self._workers.put(self._stream.cursor.next, None if worker is None else worker.id)

    def _catch_up(self) -> None:
        """Begin where the worker processes before this one have come to."""
        if self._workers is not None:
            worker = get_worker_info()
            position = self._workers.latest() if worker is None else self._workers.of(worker.id)
            if position != self._stream.cursor.next:
                self._stream.cursor.next = position

    def _share(self) -> tuple[int, int]:
        """Which share of the chunks this process takes: all, or its own among the workers of a stock `DataLoader`."""
        worker = get_worker_info()
        if worker is None:
            return 0, 1
        if self._pid is not None and os.getpid() != self._pid:
            raise ForkedError(
                f"a DataLoader with num_workers={worker.num_workers} forked this loader, and its decoder's threads do "
                f"not survive a fork; use num_workers=0 (Rowmill reads in threads of its own), or pass "
                f"multiprocessing_context='spawn'"
            )
        return worker.id, worker.num_workers


def _numbered(device: torch.device) -> torch.device:
    """The current GPU of the calling thread by its number: the thread that copies has a current GPU of its own."""
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def _device(device: Any) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if isinstance(device, int) and not torch.cuda.is_available():
        warn(f"device={device} names a GPU, and PyTorch sees none here; batches stay on the CPU")
        return torch.device("cpu")
    made = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if made.type == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(f"device={device!r}, and PyTorch sees no GPU here; wanted 'cpu', or None for what there is")
    return made
