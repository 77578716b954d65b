"""Who races: each a function that delivers the rows of a table, batch by batch, and returns their number.

Peers are set up as their documentation shows, data in RAM or page cache, set-up not timed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import torch
from tensordict import TensorDict
from torch.utils.data import DataLoader, TensorDataset

import rowmill
import tables
from journal import cores
from rowmill.loader.torch import Loader, TorchAsyncItr
from tables import Table

Run = Callable[[], int]
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def repeated(run: Run, times: int) -> Run:
    """The same, several times over."""
    return lambda: sum(run() for _ in range(times))


def ceiling(table: Table) -> Run:
    """Every core decodes row groups and drops them: what reading costs if nothing is done with the rows."""
    groups, columns = table.row_groups, table.columns

    def decode(group: tuple[Any, int, int]) -> int:
        path, start, rows = group
        return pl.scan_parquet(path).select(columns).slice(start, rows).collect().height

    def run() -> int:
        with ThreadPoolExecutor(cores()) as pool:
            return sum(pool.map(decode, groups))

    return run


def rowmill_itr(table: Table, batch_size: int, **options: Any) -> TorchAsyncItr:
    """The loader as a user writes it."""
    return TorchAsyncItr(
        rowmill.Dataset([str(path) for path in table.paths]),
        cats=list(table.cats),
        conts=list(table.conts),
        labels=[table.label],
        batch_size=batch_size,
        **{"shuffle": True, "device": "cpu", **options},
    )


def rowmill_run(table: Table, batch_size: int, *, epochs: int = 1, **options: Any) -> Run:
    """`epochs` epochs of `TorchAsyncItr`, each in another order."""
    loader = rowmill_itr(table, batch_size, **options)
    return lambda: sum(_drain(loader) for _ in range(epochs))


def rowmill_dicts(table: Table, batch_size: int) -> Run:
    """An epoch of `Loader`: a dict of 39 columns and the label."""
    dataset = rowmill.Dataset([str(path) for path in table.paths])
    loader = Loader(dataset, batch_size, columns=table.columns, targets=table.label, shuffle=True, device="cpu")
    return lambda: _drain(loader)


def in_memory(table: Table) -> Tensors:
    """The whole table as three tensors: int64 `[N, C]`, float32 `[N, D]`, float32 `[N]`."""
    frame = pl.read_parquet(list(table.paths), columns=table.columns)
    cats, conts = (
        torch.from_numpy(frame.select(names).to_numpy(order="c", writable=True)) for names in (table.cats, table.conts)
    )
    return cats, conts, torch.from_numpy(frame[table.label].to_numpy(writable=True))


def permuted(tensors: Tensors, batch_size: int) -> Run:
    """Index the tensors with pieces of a permutation: the best that plain PyTorch does."""

    def run() -> int:
        perm, rows = torch.randperm(len(tensors[2])), 0
        for start in range(0, len(perm), batch_size):
            batch = tuple(tensor[perm[start : start + batch_size]] for tensor in tensors)
            rows += len(batch[-1])
        return rows

    return run


def stock(tensors: Tensors, batch_size: int, *, workers: int) -> Run:
    """`DataLoader(TensorDataset(...), shuffle=True)`: one index operation a row and tensor, then collate."""
    loader = DataLoader(
        TensorDataset(*tensors),
        batch_size,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    return lambda: _drain(loader)


def tensordict(tensors: Tensors, batch_size: int) -> Run:
    """A memory-mapped TensorDict in a `DataLoader`, indexed once a batch."""
    folder = tables.cache() / f"tensordict-{len(tensors[2])}"
    shutil.rmtree(folder, ignore_errors=True)
    cats, conts, label = tensors
    mapped = TensorDict({"cats": cats, "conts": conts, "label": label}, batch_size=[len(label)]).memmap(folder)
    loader: DataLoader[Any] = DataLoader(mapped, batch_size, shuffle=True, collate_fn=_itself)

    def run() -> int:
        return sum(len(batch["label"]) for batch in loader)

    return run


def arrow(table: Table, batch_size: int) -> Run:
    """PyArrow's batches, each group of columns stacked to a matrix."""

    def stacked(batch: Any, names: Iterable[str]) -> torch.Tensor:
        # np.stack takes 0.4 of the CPU-seconds of torch.stack.
        return torch.from_numpy(np.stack([batch[name].to_numpy() for name in names], axis=1))

    def run() -> int:
        rows = 0
        for path in table.paths:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size, columns=table.columns):
                    matrices = stacked(batch, table.cats), stacked(batch, table.conts)
                    label = torch.from_numpy(batch[table.label].to_numpy().copy())
                    rows += min(len(label), *map(len, matrices))
        return rows

    return run


def _drain(batches: Iterable[Any]) -> int:
    return sum(len(batch[-1]) for batch in batches)


def _itself(batch: Any) -> Any:
    return batch
