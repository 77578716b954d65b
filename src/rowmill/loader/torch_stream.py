"""What the PyTorch loaders share: an iterable over a `Stream` whose batches become tensors.

Tensors are views of the feed's blocks, so nothing is copied on the CPU.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from rowmill.errors import ForkedError
from rowmill.feed.stream import Stream, Table
from rowmill.loader.streamed import Streamed
from rowmill.loader.torch_cuda import TorchCuda, transferred


class TorchStream(Streamed, IterableDataset[Any]):
    """An iterable over a `Stream` for PyTorch: its device, and its place among a stock `DataLoader`'s workers."""

    def __init__(self, dataset: Table, stream: Stream, device: Any) -> None:
        super().__init__()
        self._open(dataset, stream)
        self.device = _device(device)
        self._pid = os.getpid()

    def __iter__(self) -> Iterator[Any]:
        """A new epoch (or the rest of one, after `load_state_dict`), independent of any other iterator."""
        batches = self._batches(self._stream.batches(*self._worker()))
        if self.device.type == "cuda":
            batches = transferred(batches, TorchCuda(self.device))
        return self._stream.counted(batches)

    def __getitem__(self, index: int) -> Any:
        """Batch `index` of the next epoch; its chunk alone is read."""
        return self._mapped(self._tensors(self._stream.batch(operator.index(index))))

    def __getstate__(self) -> dict[str, Any]:
        """What a spawned worker process gets."""
        return {**self.__dict__, "_current": None, "_pid": None}

    def _worker(self) -> tuple[int, int]:
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


def ranks(size: int | None, rank: int | None) -> tuple[int, int]:
    """The number of ranks and this one's: as given, else as `torch.distributed` has them, else 1 and 0."""
    if size is None and rank is None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return 1 if size is None else size, 0 if rank is None else rank


def _device(device: Any) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
