"""How fast this machine has a table: decoded and thrown away, through Rowmill, and from the stock `DataLoader`.

A dataset comes in, a `Pace` goes out. Called by `rowmill bench`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import polars as pl

from rowmill._system.sizes import cores
from rowmill.dataset import Dataset
from rowmill.report import open_loader
from rowmill.report.loading import load_for

STOCK_ROWS = 200_000  # held in memory; more would take longer to read and be picked no faster

Passed = Callable[[int], None]


@dataclass(frozen=True)
class Pace:
    """What came in what time."""

    rows: int
    seconds: float
    cpu_seconds: float
    bound: str = ""  # what limited it, as `RunReport.bound` says
    cores: int = 1  # that it could use

    @property
    def rows_per_second(self) -> float:
        return self.rows / max(1e-9, self.seconds)

    @property
    def busy(self) -> float:
        """The share of this machine's cores that was in use."""
        return self.cpu_seconds / max(1e-9, self.seconds * cores())


def decode(dataset: Dataset, columns: Sequence[str], *, seconds: float, passed: Passed) -> Pace:
    """Read row groups with a thread for each core, and do nothing with them: the ceiling."""

    def read(fragment: Any) -> int:
        return dataset.source.read(fragment, columns).height

    with ThreadPoolExecutor(min(8, cores()), "rowmill-pace") as pool:
        fragments = cycle(dataset.source.fragments)

        def finished() -> Iterator[int]:
            waiting = [pool.submit(read, next(fragments)) for _ in range(2 * cores())]
            while waiting:
                yield waiting.pop(0).result()
                waiting.append(pool.submit(read, next(fragments)))

        return _timed(finished(), seconds, passed)


def rowmill(dataset: Dataset, columns: Sequence[str], batch_size: int, *, seconds: float, passed: Passed) -> Pace:
    """Shuffled batches of tensors, epoch after epoch."""
    loader = open_loader(dataset, batch_size, columns=columns)
    loader.peek()  # compiles
    run = load_for(loader, seconds, passed)
    return Pace(run.rows, run.seconds, run.cpu_seconds, run.bound, run.cores)


def stock(dataset: Dataset, columns: Sequence[str], batch_size: int, *, seconds: float, passed: Passed) -> Pace | None:
    """What PyTorch's tutorials show: rows as tensors in memory, picked one by one. None if nothing of it can run."""
    try:
        import torch
        from torch.utils.data import DataLoader, TensorDataset
    except ImportError:
        return None
    frame = dataset.head(STOCK_ROWS).select(columns)
    numbers = (
        frame.select(pl.selectors.integer() | pl.selectors.boolean()).cast(pl.Int64, strict=False),
        frame.select(pl.selectors.float()),
    )
    matrices = [
        torch.from_numpy(part.fill_null(0).to_numpy(order="c", writable=True)) for part in numbers if part.width
    ]
    if not matrices:
        return None
    loader = DataLoader(TensorDataset(*matrices), batch_size, shuffle=True, generator=torch.Generator().manual_seed(0))

    def rows() -> Iterator[int]:
        while True:
            for batch in loader:
                yield len(batch[0])

    return _timed(rows(), seconds, passed)


def _timed(rows: Iterable[int], seconds: float, passed: Passed) -> Pace:
    """Take until the time is over, telling `passed` of each tenth of a second."""
    total, told, start, cpu = 0, 0, time.perf_counter(), time.process_time()
    for count in rows:
        total += count
        gone = time.perf_counter() - start
        passed(int(10 * gone) - told)
        told = int(10 * gone)
        if gone > seconds:
            break
    return Pace(total, time.perf_counter() - start, time.process_time() - cpu)
