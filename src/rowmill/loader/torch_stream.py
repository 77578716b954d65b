"""What the PyTorch loaders share: an iterable over a `Stream` whose batches become tensors.

Tensors are views of the feed's blocks, so nothing is copied on the CPU.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from multiprocessing.context import get_spawning_popen
from typing import Any, cast

import torch
from torch.utils.data import IterableDataset, get_worker_info

from rowmill.errors import ArgumentError, ForkedError
from rowmill.feed.stream import Stream, Table
from rowmill.loader.streamed import Streamed
from rowmill.loader.torch_cuda import TorchCuda, transferred

MOST_WORKERS = 1024


class TorchStream(Streamed, IterableDataset[Any]):
    """An iterable over a `Stream` for PyTorch: its device, and its place among a stock `DataLoader`'s workers."""

    def __init__(self, dataset: Table, stream: Stream, device: Any) -> None:
        super().__init__()
        self._open(dataset, stream)
        self.device = _device(device)
        self._pid: int | None = os.getpid()
        self._turns: torch.Tensor | None = None  # epochs that each worker process has begun; shared with all of them

    def __iter__(self) -> Iterator[Any]:
        """A new epoch (or the rest of one, after `load_state_dict`), independent of any other iterator."""
        share, shares = self._worker()
        self._join(share, in_worker=shares > 0)
        batches = self._batches(self._stream.batches(share, max(1, shares)))
        if self.device.type == "cuda":
            batches = transferred(batches, TorchCuda(self.device))
        return self._stream.counted(batches)

    def __getitem__(self, index: int) -> Any:
        """Batch `index` of the next epoch; its chunk alone is read."""
        return self._mapped(self._tensors(self._stream.batch(operator.index(index))))

    def __getstate__(self) -> dict[str, Any]:
        """What a spawned worker process gets."""
        if get_spawning_popen() is None:  # a copy, or a file
            return {**self.__dict__, "_current": None, "_pid": None, "_turns": None}
        if self._turns is None:
            self._turns = cast("Any", torch.zeros(MOST_WORKERS, dtype=torch.int64)).share_memory_()
        return {**self.__dict__, "_current": None, "_pid": None}

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will be, here or in a `DataLoader`'s worker processes."""
        return self._stream.epoch + self._begun_by_workers()

    def set_epoch(self, epoch: int) -> None:
        self._forget_workers()
        super().set_epoch(epoch)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self._forget_workers()
        super().load_state_dict(state_dict)

    def _join(self, worker: int, *, in_worker: bool) -> None:
        """Count this iteration: a `DataLoader` makes new worker processes for every epoch, which know of no other."""
        if self._turns is None:
            return
        if not in_worker:
            if begun := self._begun_by_workers():
                self._stream.epoch += begun
            self._forget_workers()
            return
        if self._pid is None:  # this process has just been made
            self._pid = os.getpid()
            if begun := int(self._turns[worker]):
                self._stream.epoch += begun
        self._turns[worker] += 1

    def _begun_by_workers(self) -> int:
        here = self._turns is not None and get_worker_info() is None
        return int(self._turns.max()) if here and self._turns is not None else 0

    def _forget_workers(self) -> None:
        if self._turns is not None and get_worker_info() is None:
            self._turns.zero_()
        elif self._pid is None:
            self._pid = os.getpid()  # a worker that is told where to begin

    def _worker(self) -> tuple[int, int]:
        """Which worker of a stock `DataLoader` this process is, and of how many; of 0 if it is none."""
        worker = get_worker_info()
        if worker is None:
            return 0, 0
        if self._pid is not None and os.getpid() != self._pid:
            raise ForkedError(
                f"a DataLoader with num_workers={worker.num_workers} forked this loader, and its decoder's threads do "
                f"not survive a fork; use num_workers=0 (Rowmill reads in threads of its own), or pass "
                f"multiprocessing_context='spawn'"
            )
        return worker.id, worker.num_workers


def ranks(size: int | None, rank: int | None) -> tuple[int, int]:
    """The number of ranks and this one's: as given, else as `torch.distributed` has them, else 1 and 0."""
    if size is None and rank is None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return 1 if size is None else size, 0 if rank is None else rank


def _device(device: Any) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    made = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if made.type == "cuda" and not torch.cuda.is_available():
        raise ArgumentError(f"device={device!r}, and PyTorch sees no GPU here; wanted 'cpu', or None for what there is")
    return made
