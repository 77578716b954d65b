"""Rows by number for a stock `DataLoader` with its samplers and workers: `Dataset.as_map_style()`.

Fragments are decoded whole and kept while there is room, so neighbouring rows cost little; rows in random order over a
table larger than `memory` cost a fragment each: shuffle with `Loader` instead. In a forked worker process, where Polars
must not run, Parquet is read by PyArrow.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset as TorchDataset

from rowmill._system.heap import trim_heap
from rowmill._system.interrupts import interruptible
from rowmill._system.lock import Lock
from rowmill._system.sizes import parse_memory
from rowmill.errors import DtypeError, ForkedError, StoreError
from rowmill.feed.memory.block import Array, Batch
from rowmill.feed.pack.selection import Nulls, Selector, packed_dtype
from rowmill.feed.run.cache_protocol import as_rows
from rowmill.feed.run.stream import Stream, Table
from rowmill.loader._base.open_stream import open_stream
from rowmill.loader._base.options import StreamOptions
from rowmill.loader._torch.tensors import split_columns
from rowmill.sources.source import Fragment, fit_fragments, read_bounded

_PARTS = 8  # of the memory setting, one of them for a decoded fragment


class RowView(Sequence[Any]):
    """Rows fetched together: columns, of which row after row can be taken one at a time."""

    def __init__(self, columns: dict[str, Any], rows: int, targets: Sequence[str]) -> None:
        self.columns = columns
        self.rows = rows
        self.targets = targets

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: Any) -> Any:
        return _split({name: column[index] for name, column in self.columns.items()}, self.targets)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.rows))


class MapStyle(TorchDataset[Any]):
    """Rows by number: `features` (a dict), or `(features, target)` if there are targets."""

    @interruptible
    def __init__(
        self,
        dataset: Table,
        columns: Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
        *,
        nulls: Nulls = "error",
        memory: int | float | str = "256MB",
        cache: str | os.PathLike[str] | None = None,
        cache_size: int | float | str | None = None,
    ) -> None:
        schema = dataset.schema
        self.targets = [targets] if isinstance(targets, str) else list(targets or ())
        wanted = list(schema.column_names if columns is None else columns)
        self.columns = [*(name for name in wanted if name not in self.targets), *self.targets]
        selector = Selector(schema, nulls, masks=False)
        self._floats = [name for name in self.targets if name in schema and schema[name].dtype == "bool"]
        selector.native(self.columns, floats=self._floats)
        self._selection = selector.selection()
        if self._selection.layout.ragged:
            name = self._selection.layout.ragged[0]
            raise DtypeError(f"column {name!r} is a list column, which has no place in rows of tensors; use Loader")
        self._stream: Stream | None = None
        if cache is not None:
            options: StreamOptions = {"memory": memory, "cache": cache, "cache_size": cache_size}
            self._stream = open_stream(dataset, self._selection, options, batch_size=1)
        self._source = dataset.source
        self._dtypes = {name: packed_dtype(schema[name].dtype) for name in self.columns}
        self._dtypes |= dict.fromkeys(self._floats, np.dtype("float32"))
        self._memory = parse_memory(memory)
        self._has_objects = bool(self._selection.layout.objects)
        self._slice_bytes = self._memory // (2 * _PARTS if self._has_objects else _PARTS)
        # A fragment is decoded beside those that are held, and takes about three times its size meanwhile.
        most = max(1, int(self._memory / _PARTS / max(1.0, self._source.row_bytes(self.columns))))
        self._fragments = fit_fragments(self._source.fragments, most)
        self._ends = np.cumsum([fragment.rows for fragment in self._fragments], dtype=np.int64)
        self._held: OrderedDict[int, dict[str, Array]] = OrderedDict()
        self._sizes: dict[int, int] = {}  # bytes of fragments that were decoded
        self._lock = Lock()
        self._pid: int | None = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": OrderedDict(), "_pid": None}

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: Any) -> Any:
        """One row; or, for a slice, a list, an array or a mask of rows, all of them as one batch."""
        if isinstance(index, int | np.integer):
            return self.__getitems__([int(index)])[0]
        return self.collate(self.__getitems__(as_rows(index, len(self))))

    def build_cache(self) -> None:
        """Store all rows (see `cache`), so that rows in any order are had without decoding others."""
        if self._stream is None:
            raise StoreError("build_cache() of a view without a cache; wanted one; pass cache='auto' or a folder")
        self._stream.build_cache()

    @interruptible
    def __getitems__(self, indices: Sequence[int] | NDArray[np.int64]) -> RowView:
        """Many rows at once, each fragment looked up once: what a stock `DataLoader` calls for a batch."""
        wanted = as_rows(indices, len(self))
        if self._stream is not None and not self._forked():
            with suppress(StoreError):  # not complete yet
                return self._stored(self._stream.take(wanted))
        numbers = np.searchsorted(self._ends, wanted, side="right")
        found: dict[str, Any] = {}
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            rows = wanted[places] - (self._ends[number] - self._fragments[number].rows)
            for name, column in self._columns(number).items():
                if name not in found:
                    found[name] = np.empty((len(wanted), *column.shape[1:]), column.dtype)
                found[name][places] = column[rows]
        tensors = {n: c if c.dtype == object else torch.from_numpy(c) for n, c in found.items()}
        return RowView(tensors, len(wanted), self.targets)

    def _stored(self, batch: Batch) -> RowView:
        found = split_columns(self._selection.layout.matrices, batch)
        return RowView({name: found[name] for name in self.columns}, batch.rows, self.targets)

    def collate(self, rows: RowView) -> Any:
        """For `DataLoader(..., collate_fn=dataset.collate)`: the rows as one batch, with no work for each of them."""
        return _split(rows.columns, self.targets)

    @property
    def held_bytes(self) -> int:
        """Bytes of decoded fragments that are kept."""
        return sum(self._sizes[number] for number in self._held)

    def _columns(self, number: int) -> dict[str, Array]:
        with self._lock:
            if number in self._held:
                self._held.move_to_end(number)
                return self._held[number]
        fragment = self._fragments[number]
        columns = self._decode_forked(fragment) if self._forked() else self._decode(fragment)
        with self._lock:
            self._held[number] = columns
            self._sizes[number] = sum(_nbytes(column) for column in columns.values())
            dropped = 0
            while len(self._held) > 1 and self.held_bytes > self._memory // (6 if self._has_objects else 3):
                dropped += self._sizes[self._held.popitem(last=False)[0]]
        if dropped and self._has_objects:
            trim_heap()  # Python objects: the C library would keep their memory
        return columns

    def _forked(self) -> bool:
        return self._pid is not None and os.getpid() != self._pid

    def _decode(self, fragment: Fragment) -> dict[str, Array]:
        read = read_bounded(self._source, fragment, self._selection.columns, self._slice_bytes)
        frame = self._selection.prepare(read, self._source.describe(fragment))
        arrays = {name: frame.get_column(name).to_numpy() for name in self.columns}
        arrays |= {name: arrays[name].astype(np.float32) for name in self._floats}
        return {n: a.view(bool) if self._dtypes[n] == np.dtype(bool) else a for n, a in arrays.items()}

    def _decode_forked(self, fragment: Fragment) -> dict[str, Array]:
        """Read rows without Polars, whose threads a fork does not copy."""
        read = getattr(self._source, "read_arrow", None)
        if read is None:
            raise ForkedError(
                "only plain Parquet files can be read in a forked worker; pass multiprocessing_context='spawn' to the "
                "DataLoader, or num_workers=0"
            )
        table, arrays = read(fragment, self._selection.columns), {}
        for name in self.columns:
            column = table.column(name).combine_chunks()
            if column.null_count and name in self._selection.must_be_full:
                raise ForkedError(f"column {name!r} has nulls; fill them, or pass multiprocessing_context='spawn'")
            array, target = column.to_numpy(zero_copy_only=False), self._dtypes[name]
            if target is not None and array.dtype != target:  # times as integers; files of a narrower type
                array = (array.view("int64") if array.dtype.kind in "mM" else array).astype(target)
            arrays[name] = array
        return arrays


def _nbytes(column: Array) -> int:
    """Bytes of an array, and of the Python objects in it."""
    return column.nbytes if column.dtype != object else 64 * len(column) + sum(map(len, filter(None, column)))


def _split(columns: dict[str, Any], targets: Sequence[str]) -> Any:
    if not targets:
        return columns
    features = {name: column for name, column in columns.items() if name not in targets}
    if len(targets) == 1:
        return features, columns[targets[0]]
    return features, {name: columns[name] for name in targets}
