"""Parquet footers in, row counts, column types and pins out. Read once, in parallel, when a dataset is opened.

Nothing but footers is read, and no footer is kept: 10,000 files open in seconds and take a few megabytes.
The column chunks of a footer are left alone: PyArrow aborts the process over a damaged one. `pages` checks them before
the first row of a file is decoded.
"""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from rowmill._system.heap import trim_heap
from rowmill._system.threads import map_threads
from rowmill.errors import DataFileError, os_reason
from rowmill.sources.files.paths import Files
from rowmill.sources.files.pins import Pin, Pins, pin, settle, version
from rowmill.sources.frames.pandas_index import range_names
from rowmill.sources.types import arrow_types

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


_MANY_CELLS = 10_000  # row groups times columns; PyArrow takes about a kilobyte for each while it reads a footer


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column as Parquet stores it; a nested column has several. `repeated`: it has more values than rows."""

    column: str
    repeated: bool


@dataclass(frozen=True)
class Footers:
    """What the footers say: rows of each row group of each file, the distinct schemas, their leaves; and the pins."""

    group_rows: list[tuple[int, ...]]
    schemas: list[dict[str, pl.DataType]]
    leaves: list[tuple[Leaf, ...]]
    schema_of_file: list[int]
    pins: Pins
    ranges: list[str]  # names of indices of pandas that are described and not stored


def read_footers(files: Files) -> Footers:
    """Read the footer of every file, with more threads where a network answers than where a disk does."""
    paths, local = files.paths, files.filesystem is None
    settle(files)
    threads = min(len(paths), 4 * (os.cpu_count() or 1) if local else 32)
    known = _Known()
    share = max(1, min(64, len(paths) // (threads * 4)))
    lots = [range(i, min(i + share, len(paths))) for i in range(0, len(paths), share)]

    def run(lot: range) -> list[tuple[tuple[int, ...], int, Pin]]:
        return [_one(paths[i], files.filesystem, known) for i in lot]

    if threads <= 1:
        found = [one for lot in lots for one in run(lot)]
    else:
        found = [one for several in map_threads(run, lots, threads, "rowmill-footers") for one in several]
    group_rows = [rows for rows, _, _ in found]
    if sum(len(rows) for rows in group_rows) * max(map(len, known.leaves), default=0) > _MANY_CELLS:
        known.forget_last()
        gc.collect()  # PyArrow's footers and their schemas refer to each other
        trim_heap()
    places, pins = [place for _, place, _ in found], Pins(files, [pinned for _, _, pinned in found])
    return Footers(group_rows, known.schemas, known.leaves, places, pins, known.ranges)


_POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


class _Known:
    """The schemas seen so far."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, pl.DataType]] = []
        self.leaves: list[tuple[Leaf, ...]] = []
        self.ranges: list[str] = []
        self._lock = threading.Lock()
        self._last: tuple[Any, bytes | None, int] | None = None
        self._places: dict[pa.Schema, int] = {}

    def place(self, footer: pq.FileMetaData) -> int:
        """Which of the known schemas this footer has; almost always that of the file before it."""
        stored = (footer.metadata or {}).get(b"ARROW:schema")
        last = self._last
        if last is not None and last[1] == stored and last[0].equals(footer.schema):
            return last[2]
        arrow = footer.schema.to_arrow_schema().remove_metadata()
        with self._lock:
            if arrow not in self._places:
                types, leaves = arrow_types(arrow), leaves_of(arrow, footer.schema)
                self.schemas.append(types)
                self.leaves.append(leaves)
                self.ranges += range_names((footer.metadata or {}).get(b"pandas"))
                self._places[arrow] = len(self.schemas) - 1
        self._last = (footer.schema, stored, self._places[arrow])
        return self._places[arrow]

    def forget_last(self) -> None:
        """Let go of the last footer, which its schema keeps alive."""
        self._last = None


def leaves_of(schema: pa.Schema, stored: Any) -> tuple[Leaf, ...]:
    """The leaves of a file whose schema is given as Arrow's and as Parquet's."""
    names = [field.name for field in schema for _ in range(_leaf_count(field.type))]
    if len(names) != len(stored):
        raise ValueError(f"{len(stored)} stored columns for a schema of {len(names)}")
    return tuple(Leaf(name, stored.column(i).max_repetition_level > 0) for i, name in enumerate(names))


def _leaf_count(dtype: pa.DataType) -> int:
    if isinstance(dtype, pa.ExtensionType):
        return _leaf_count(dtype.storage_type)
    if pa.types.is_dictionary(dtype):
        return 1
    return sum(_leaf_count(dtype.field(i).type) for i in range(dtype.num_fields)) if dtype.num_fields else 1


def _one(path: str, filesystem: FileSystem | None, known: _Known) -> tuple[tuple[int, ...], int, Pin]:
    try:
        with (filesystem or LocalFileSystem()).open_input_file(path) as file:
            pinned = pin(file, path, filesystem, "parquet")
            reader = pq.core.ParquetReader()  # ParquetFile would list all columns in Python: a third of the time
            reader.open(file)
            footer = reader.metadata
            rows = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
            place = known.place(footer)
            if filesystem is None and version(file, path, None) != pinned.version:
                raise ValueError("it is being written")
        if sum(rows) != footer.num_rows or min(rows, default=0) < 0:
            raise ValueError(f"{footer.num_rows:,} rows, and {sum(rows):,} in its row groups")
        return rows, place, pinned
    except (OSError, ValueError, RecursionError, pa.ArrowException, *_POLARS_ERRORS) as error:
        raise DataFileError(
            f"cannot read the footer of {path}: {os_reason(error)}; wanted a whole Parquet file; write it again or "
            f"leave it out"
        ) from error
