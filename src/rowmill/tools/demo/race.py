"""Two ways to get shuffled batches `(ids, numbers, label)` of one table, and a race between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from rowmill.dataset import Dataset
from rowmill.loader.torch import TorchAsyncItr
from rowmill.tools.synthetic import CATEGORICAL, CONTINUOUS, LABEL

BATCH = 16_384
# The order in which TorchAsyncItr delivers columns.
CATS, CONTS = sorted(CATEGORICAL), sorted(CONTINUOUS)


@dataclass(frozen=True)
class Lap:
    """What a loader delivered, and in what time."""

    rows: int
    seconds: float
    cpu_seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def cpu_per_million(self) -> float:
        return 1e6 * self.cpu_seconds / self.rows


def stock(paths: Sequence[Path]) -> DataLoader[Any]:
    """What PyTorch's tutorials show: all rows as tensors in memory, picked one by one and collated."""
    frame = pl.read_parquet(list(paths), columns=[*CATS, *CONTS, LABEL])
    cats, conts = (torch.from_numpy(frame.select(names).to_numpy(order="c", writable=True)) for names in (CATS, CONTS))
    label = torch.from_numpy(frame[LABEL].to_numpy(writable=True))
    return DataLoader(
        TensorDataset(cats, conts, label), BATCH, shuffle=True, generator=torch.Generator().manual_seed(0)
    )


def rowmill(paths: Sequence[Path], *, shuffle: bool = True) -> TorchAsyncItr:
    """Batches streamed from the Parquet files."""
    return TorchAsyncItr(
        Dataset([str(path) for path in paths]),
        cats=CATS,
        conts=CONTS,
        labels=[LABEL],
        batch_size=BATCH,
        shuffle=shuffle,
        seed=0,
        device="cpu",
    )


def lap(loader: Iterable[Any], *, rows: int, seconds: float, passed: Callable[[int], None]) -> Lap:
    """Take batches, epoch after epoch, until `rows` came or `seconds` are over; tell `passed` of each."""
    batches: Iterator[Any] = chain.from_iterable(repeat(loader))
    got, start, cpu = 0, time.perf_counter(), time.process_time()
    while got < rows and time.perf_counter() - start < seconds:
        count = len(next(batches)[-1])
        got += count
        passed(count)
    return Lap(got, time.perf_counter() - start, time.process_time() - cpu)
