"""What does a store cost, and what does it save? Question `store`."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset, TensorDataset

import contestants
import tables
from clock import read
from contestants import Run, Tensors
from journal import Journal
from race import BATCH
from rowmill.loader.tensordict import dataset_to_tensordict

FULL = ("full", "full filled", "full read back")
SHORT = ("later", *FULL, "take")  # read more often: a neighbour on the host disturbs a second more than a minute
EPOCHS = 5  # in a reading of what takes a tenth of a second
AT_ONCE = 256 << 10  # bytes; larger writes take longer where free memory has been returned to a host
AT_HAND = 2 << 30  # bytes; more than a first epoch and its store take


def ask(journal: Journal, *, quick: bool) -> None:
    """The Criteo table: first and later epochs, full shuffle, peers over mapped files, and wrapping a dataset."""
    table = tables.criteo(1_000_000 if quick else 4_000_000)
    tensors = contestants.in_memory(table)
    few = tuple(tensor[: 20_000 if quick else 100_000].clone() for tensor in tensors)
    folder = tables.cache() / "store"
    read(_draining(contestants.rowmill_itr(table, BATCH)))
    later = contestants.rowmill_itr(table, BATCH, cache=_emptied(folder)).build_cache()
    stores = {"full": folder, "full filled": _filled(table), "full read back": _read_back(table)}
    fully = {name: contestants.rowmill_itr(table, BATCH, cache=kept, shuffle="full") for name, kept in stores.items()}
    runs: dict[str, Run] = {
        "later": contestants.repeated(_draining(later), EPOCHS),
        **{name: contestants.repeated(_draining(loader), EPOCHS) for name, loader in fully.items()},
        "take": taken([tensor.numpy() for tensor in tensors]),
        "tensordict": contestants.tensordict(tensors, BATCH),
        "datasets": hugging_face(few, folder.with_name("store-datasets")),
        "memmap-rows": mapped_rows(few, folder.with_name("store-rows")),
        "stock-0": contestants.stock(few, BATCH, workers=0),
        "pass": one_pass(few),
        "wrap": wrapping(few, folder.with_name("store-wrap")),
    }
    for name in (*SHORT, "tensordict", "wrap"):
        read(runs[name])
    for number in range(2 if quick else 9):
        for name, run in runs.items():
            if number < 5 or name in SHORT:
                journal.add("store", name, number, read(run), table_rows=table.rows)
    other, bare = folder.with_name("store-first"), folder.with_name("store-bare")
    ids = tensors[0].numpy().astype(np.int32)  # as they are stored
    stored = [ids, *(tensor.numpy() for tensor in tensors[1:])]
    for number in range(2 if quick else 9):
        for kind, prepare in (("", _take_memory), (" as found", lambda: None)):
            _first_epoch(journal, f"plain{kind}", number, table, prepare)
            _first_epoch(journal, f"first{kind}", number, table, prepare, cache=_emptied(other))
            write = bare_write(stored, _emptied(bare))
            prepare()
            journal.add("store", f"bare-write{kind}", number, read(write), table_rows=table.rows)
            shutil.rmtree(bare)


def _filled(table: tables.Table) -> Path:
    """A store that a first epoch has filled."""
    folder = _emptied(tables.cache() / "store-filled")
    loader = contestants.rowmill_itr(table, BATCH, cache=folder)
    contestants._drain(loader)
    loader.build_cache()  # waits until it is complete
    return folder


def _read_back(table: tables.Table) -> Path:
    """A store that is on the disk only: the first who reads it brings it back to the page cache."""
    folder = _emptied(tables.cache() / "store-read-back")
    contestants.rowmill_itr(table, BATCH, cache=folder).build_cache()
    for path in folder.rglob("*.memmap"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return folder


def _first_epoch(
    journal: Journal, name: str, number: int, table: tables.Table, prepare: Callable[[], None], **options: Any
) -> None:
    """Read the first epoch of a new loader. Nothing of it is left when the next begins: memory that it still held would
    have to be fetched anew by the next, which takes longer than most of what is read here."""
    loader = contestants.rowmill_itr(table, BATCH, **options)
    prepare()
    journal.add("store", name, number, read(_draining(loader)), table_rows=table.rows)
    if options:
        loader.build_cache()  # waits until the disk has it, so that the next reading is not disturbed


def _take_memory() -> None:
    """Use memory and free it, so that it is there for what is read next.

    A virtual machine may return its free memory to its host, and has to fetch it when it is used again. Ours does, and
    then writing 0.6 GB to new files takes between 0.6 and 7 seconds where it takes 0.1: what an epoch takes is lost in
    that. Where memory is a machine's own there is no such wait. Both are read, with and without.
    """
    np.empty(AT_HAND, np.uint8)[:: mmap.PAGESIZE] = 1


def _draining(loader: Any) -> Run:
    return lambda: contestants._drain(loader)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def taken(arrays: list[np.ndarray]) -> Run:
    """`np.take` of the rows of each batch from warm arrays in RAM, into memory that is reused: nothing but the copy."""
    out = [np.empty((BATCH, *array.shape[1:]), array.dtype) for array in arrays]

    def run() -> int:
        order = np.random.default_rng(0).permutation(len(arrays[0]))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            for array, room in zip(arrays, out, strict=True):
                np.take(array, rows, axis=0, out=room[: len(rows)], mode="clip")
        return len(order)

    return run


def bare_write(arrays: list[np.ndarray], folder: Path) -> Run:
    """The bytes of the store into new files, and nothing else: what the system takes for them, on one core."""
    folder.mkdir()

    def run() -> int:
        for number, array in enumerate(arrays):
            data = memoryview(array).cast("B")
            with (folder / str(number)).open("wb", buffering=0) as file:
                for start in range(0, len(data), AT_ONCE):
                    file.write(data[start : start + AT_ONCE])
        return len(arrays[0])

    return run


def hugging_face(tensors: Tensors, folder: Path) -> Run:
    """Hugging Face datasets, memory-mapped Arrow with the format "torch", in a `DataLoader`."""
    import datasets

    names = ("cats", "conts", "label")
    made = datasets.Dataset.from_dict({n: t.numpy() for n, t in zip(names, tensors, strict=True)})
    made.save_to_disk(str(_emptied(folder)))
    loader: DataLoader[Any] = DataLoader(datasets.load_from_disk(str(folder)).with_format("torch"), BATCH, shuffle=True)
    return lambda: sum(len(batch["label"]) for batch in loader)


class _Mapped(Dataset):
    """Three `np.memmap`s, indexed row by row."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return tuple(np.array(array[index]) for array in self.arrays)


def mapped_rows(tensors: Tensors, folder: Path) -> Run:
    """`np.memmap` indexed per row, in a `DataLoader`."""
    _emptied(folder).mkdir()
    arrays = []
    for number, tensor in enumerate(tensors):
        tensor.numpy().tofile(folder / str(number))
        arrays.append(np.memmap(folder / str(number), tensor.numpy().dtype, "r", shape=tuple(tensor.shape)))
    loader: DataLoader[Any] = DataLoader(_Mapped(arrays), BATCH, shuffle=True)
    return lambda: contestants._drain(loader)


def one_pass(tensors: Tensors) -> Run:
    """Fetch and collate every item once, in order: what wrapping is compared with."""
    loader: DataLoader[Any] = DataLoader(TensorDataset(*tensors), 1024)
    return lambda: contestants._drain(loader)


def wrapping(tensors: Tensors, folder: Path) -> Run:
    """Wrap the same dataset as memory-mapped tensors."""
    return lambda: len(dataset_to_tensordict(TensorDataset(*tensors), folder=_emptied(folder)))
