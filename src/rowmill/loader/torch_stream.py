"""What the PyTorch loaders share: an iterable over a `Stream` whose batches become tensors.

Tensors are views of the feed's blocks, so nothing is copied on the CPU.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import IterableDataset, get_worker_info

from rowmill.errors import ForkedError
from rowmill.feed.block import Batch
from rowmill.feed.explain import PlanReport, explain
from rowmill.feed.stats import RunReport
from rowmill.feed.stored import as_rows
from rowmill.feed.stream import Stream, Table
from rowmill.loader.torch_cuda import TorchCuda, transferred

_Self = TypeVar("_Self", bound="TorchStream")


class TorchStream(IterableDataset[Any]):
    """An iterable over a `Stream`, whose batches become tensors in `_tensors`."""

    def __init__(self, dataset: Table, stream: Stream, device: Any) -> None:
        super().__init__()
        self.data = dataset
        self.dataset = dataset
        self.device = _device(device)
        self._stream = stream
        self._maps: list[Callable[..., Any]] = []
        self._current: Iterator[Any] | None = None
        self._pid = os.getpid()

    def __iter__(self) -> Iterator[Any]:
        """A new epoch (or the rest of one, after `load_state_dict`), independent of any other iterator."""
        batches = self._batches(self._stream.batches(*self._worker()))
        if self.device.type == "cuda":
            batches = transferred(batches, TorchCuda(self.device))
        return self._stream.counted(batches)

    def __next__(self) -> Any:
        """The next batch of an epoch of its own; starts one if there is none."""
        if self._current is None:
            self._current = iter(self)
        try:
            return next(self._current)
        except BaseException:
            self._current = None
            raise

    def __len__(self) -> int:
        return len(self._stream)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the epoch that `next(loader)` began. Epochs of a `for` loop end with the loop."""
        current, self._current = self._current, None
        if current is not None:
            cast("Any", current).close()

    def peek(self) -> Any:
        """The first batch of the next epoch, which still begins with it."""
        with self._stream.unmoved():
            batches = iter(self)
            try:
                return next(batches)
            finally:
                cast("Any", batches).close()

    def __getitem__(self, index: int) -> Any:
        """Batch `index` of the next epoch. With a complete store no row before it is read."""
        return self._mapped(self._stream.batch(operator.index(index)))

    def take(self, rows: Any) -> Any:
        """Rows of the table by number (an array, a list, a slice or a mask), as one batch, from a complete store."""
        total = sum(fragment.rows for fragment in self._stream.fragments)
        return self._mapped(self._stream.take(as_rows(rows, total)))

    def build_cache(self: _Self) -> _Self:
        """Store all rows that are not stored yet, without training on them; returns this loader."""
        self._stream.build_cache()
        return self

    def state_dict(self) -> dict[str, Any]:
        """The position of the latest iteration, JSON-ready: batches handed out, and what they are part of."""
        return self._stream.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a saved one stood; a state of other data or settings is refused."""
        self._stream.load_state_dict(state_dict)

    def map(self: _Self, function: Callable[..., Any]) -> _Self:
        """Apply `function(*batch)` to every batch from now on, in the training loop; returns this loader."""
        self._maps.append(function)
        return self

    def plan(self, column: str | None = None) -> PlanReport:
        """What the next epoch will be: steps, rows dropped or padded, memory, bytes, and how well the table is mixed.

        With `column` (a label, a time) it is read once, to see how far batch means stray from a perfect shuffle's.
        """
        return explain(self._stream, column, self._stream.epoch)

    def stats(self) -> RunReport:
        """What the latest iteration cost so far: time waited, time by stage, rows/s, and what limits it."""
        return self._stream.stats.report()

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch. Without it every iteration is one epoch further."""
        self._stream.epoch = epoch

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will be."""
        return self._stream.epoch

    @property
    def batch_size(self) -> int:
        return self._stream.batch_size

    @batch_size.setter
    def batch_size(self, rows: int) -> None:
        previous, self._stream.batch_size = self._stream.batch_size, rows
        try:
            self._stream.plan()
        except ValueError:
            self._stream.batch_size = previous
            raise

    @property
    def num_rows_processed(self) -> int:
        """Rows handed out by the latest iteration."""
        return self._stream.stats.rows

    @property
    def padding(self) -> int:
        """Rows at the end of the latest batch that stand for nothing: see `last="pad"`, and ranks without rows."""
        return self._stream.stats.padding

    @property
    def waited(self) -> float:
        """Seconds for which the latest iteration's consumer waited for data."""
        return self._stream.stats.waited

    @property
    def shuffle(self) -> bool:
        return self._stream.shuffle

    @property
    def drop_last(self) -> bool:
        return self._stream.last == "drop"

    @property
    def global_size(self) -> int:
        return self._stream.ranks

    @property
    def global_rank(self) -> int:
        return self._stream.rank

    def _batches(self, batches: Iterator[Batch]) -> Iterator[Any]:
        try:
            for batch in batches:
                result = self._mapped(batch)
                del batch  # the tensors alone shall hold its block
                yield result
                del result
        finally:
            cast("Any", batches).close()

    def _mapped(self, batch: Batch) -> Any:
        result = self._tensors(batch)
        for function in self._maps:
            result = function(*result) if isinstance(result, tuple) else function(result)
        return result

    def _tensors(self, batch: Batch) -> Any:
        raise NotImplementedError

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
