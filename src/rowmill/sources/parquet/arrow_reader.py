"""Rows of a Parquet file read by PyArrow alone: for object stores, and for processes in which Polars may not run.

A path and a file system in, an Arrow table out. Only the row groups that hold the rows are read, with no
threads of its own: the caller has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from rowmill.sources.parquet.arrow_pool import returning_pool
from rowmill.sources.parquet.footers import Leaf, leaves_of

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_READ_BYTES = 4 << 20  # one request to an object store; smaller costs round trips, larger costs memory per column
_LOCAL_READ_BYTES = 1 << 16
_BATCH_ROWS = 65_536


def read_parquet_rows(
    path: str, filesystem: FileSystem | None, start: int, rows: int, columns: Sequence[str], *, verify: bool = True
) -> pa.Table:
    """Rows `start` to `start + rows` of the file as a table of these columns, their row groups decoded whole.

    `verify`: compare the checksums of pages that have one.
    """
    with (filesystem or LocalFileSystem()).open_input_file(path) as file:
        footer = pq.read_metadata(file)
        groups, before = _groups(footer, start, rows)
        if not groups:
            return footer.schema.to_arrow_schema().empty_table().select(list(columns))
        reader = pq.ParquetFile(file, metadata=footer, pre_buffer=True, page_checksum_verification=verify)
        table = reader.read_row_groups(groups, columns=list(columns), use_threads=False)
        return table.slice(start - before, rows)


def stream_parquet_rows(
    path: str,
    filesystem: FileSystem | None,
    start: int,
    rows: int,
    columns: Sequence[str],
    batch_rows: int = _BATCH_ROWS,
    *,
    verify: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows that `read_parquet_rows` reads, `batch_rows` at a time. Those before them in their row group are decoded
    too, and dropped.

    Freed memory goes back to the system at once (`pool`).
    """
    read_bytes = _READ_BYTES if filesystem is not None else _LOCAL_READ_BYTES
    pool = returning_pool()
    with pa.OSFile(path, memory_pool=pool) if filesystem is None else filesystem.open_input_file(path) as file:
        footer = pq.read_metadata(file)
        groups, at = _groups(footer, start, rows)
        indices = [i for i, leaf in enumerate(_leaves(footer)) if leaf.column in columns]
        reader = pq.core.ParquetReader(memory_pool=pool)  # ParquetFile cannot be given a pool
        reader.open(file, metadata=footer, pre_buffer=False, buffer_size=read_bytes, page_checksum_verification=verify)
        for found in reader.iter_batches(batch_rows, row_groups=groups, column_indices=indices, use_threads=False):
            batch = found.select(list(columns))
            first, last = max(start - at, 0), min(start + rows - at, batch.num_rows)
            if first < last:
                yield batch.slice(first, last - first)
            at += batch.num_rows
            if at >= start + rows:
                return


def _leaves(footer: pq.FileMetaData) -> tuple[Leaf, ...]:
    return leaves_of(footer.schema.to_arrow_schema(), footer.schema)


def _groups(footer: pq.FileMetaData, start: int, rows: int) -> tuple[list[int], int]:
    """The row groups that hold these rows, and the number of rows before them."""
    edges = [0, *accumulate(footer.row_group(i).num_rows for i in range(footer.num_row_groups))]
    groups = [i for i in range(footer.num_row_groups) if edges[i] < start + rows and edges[i + 1] > start]
    return groups, edges[groups[0]] if groups else 0
