"""Parquet footers in, row counts and column types out. Read once, in parallel, when a dataset is opened.

Nothing but footers is read, and no footer is kept: 10,000 files open in seconds and take a few megabytes.
The column chunks of a footer are left alone: PyArrow aborts the process over a damaged one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from rowmill.errors import DataFileError
from rowmill.sources.types import arrow_types

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True)
class Footers:
    """What the footers say: rows of each row group of each file, and the distinct schemas."""

    group_rows: list[tuple[int, ...]]
    schemas: list[dict[str, pl.DataType]]
    schema_of_file: list[int]


def read_footers(paths: Sequence[str], filesystem: FileSystem | None) -> Footers:
    """Read the footer of every file, with more threads where a network answers than where a disk does."""
    local = filesystem is None
    system = filesystem or LocalFileSystem()
    threads = min(len(paths), 4 * (os.cpu_count() or 1) if local else 32)
    known = _Known()
    share = max(1, min(64, len(paths) // (threads * 4)))
    lots = [range(i, min(i + share, len(paths))) for i in range(0, len(paths), share)]

    def run(lot: range) -> list[tuple[tuple[int, ...], int]]:
        return [_one(paths[i], system, known) for i in lot]

    if threads <= 1:
        rows = [pair for lot in lots for pair in run(lot)]
    else:
        with ThreadPoolExecutor(threads, "rowmill-footers") as pool:
            rows = [pair for pairs in _until_error(pool, run, lots) for pair in pairs]
    return Footers([r for r, _ in rows], known.schemas, [s for _, s in rows])


def _until_error(pool: ThreadPoolExecutor, run: Callable[[range], Any], lots: Sequence[range]) -> list[Any]:
    """The results in order; the first failure, in file order, stops the rest."""
    waiting = [pool.submit(run, lot) for lot in lots]
    try:
        return [future.result() for future in waiting]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


_POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


class _Known:
    """The schemas seen so far. Threads race harmlessly: the worst is that a schema is compared twice."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, pl.DataType]] = []
        self._last: tuple[Any, bytes | None, int] | None = None
        self._places: dict[pa.Schema, int] = {}

    def place(self, footer: pq.FileMetaData) -> int:
        """Which of the known schemas this footer has; almost always that of the file before it."""
        stored = (footer.metadata or {}).get(b"ARROW:schema")
        last = self._last
        if last is not None and last[1] == stored and last[0].equals(footer.schema):
            return last[2]
        arrow = footer.schema.to_arrow_schema().remove_metadata()
        if arrow not in self._places:
            types = arrow_types(arrow)
            self.schemas.append(types)
            self._places.setdefault(arrow, next(i for i, s in enumerate(self.schemas) if s is types))
        self._last = (footer.schema, stored, self._places[arrow])
        return self._places[arrow]


def _one(path: str, system: FileSystem, known: _Known) -> tuple[tuple[int, ...], int]:
    try:
        with system.open_input_file(path) as file:
            reader = pq.core.ParquetReader()  # ParquetFile would list all columns in Python: a third of the time
            reader.open(file)
            footer = reader.metadata
        rows = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
        return rows, known.place(footer)
    except (OSError, ValueError, pa.ArrowException, *_POLARS_ERRORS) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataFileError(
            f"cannot read the footer of {path}: {reason}; wanted a whole Parquet file; write it again or leave it out"
        ) from error
