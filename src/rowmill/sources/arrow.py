"""Rows of a Parquet file read by PyArrow alone: for object stores, and for processes in which Polars may not run.

A path and a file system in, an Arrow table out. Only the row groups that hold the rows are read, with no
threads of its own: the caller has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_BATCH_ROWS = 65_536
_SLICE_ROWS = 8_192  # decoded at once on the way to a slice; a batch is kept whole if one of its rows is
_READ_BYTES = 4 << 20  # one request to an object store; smaller costs round trips, larger costs memory per column
_LOCAL_READ_BYTES = 1 << 16


def read_parquet_rows(
    path: str, filesystem: FileSystem | None, start: int, rows: int, columns: Sequence[str], *, verify: bool = True
) -> Any:
    """Rows `start` to `start + rows` of the file as a `pyarrow.Table` of these columns.

    `verify`: compare the checksums of pages that have one.
    """
    read_bytes = _READ_BYTES if filesystem is not None else _LOCAL_READ_BYTES
    with (filesystem or LocalFileSystem()).open_input_file(path) as file:
        return _read(file, start, rows, columns, read_bytes, verify)


def _read(file: Any, start: int, rows: int, columns: Sequence[str], read_bytes: int, verify: bool) -> Any:
    footer = pq.read_metadata(file)
    edges = [0, *accumulate(footer.row_group(i).num_rows for i in range(footer.num_row_groups))]
    groups = [i for i in range(footer.num_row_groups) if edges[i] < start + rows and edges[i + 1] > start]
    if not groups:
        return footer.schema.to_arrow_schema().empty_table().select(list(columns))
    held = edges[groups[-1] + 1] - edges[groups[0]]
    if held <= max(rows, 2 * _BATCH_ROWS):
        table = pq.ParquetFile(
            file, metadata=footer, pre_buffer=True, page_checksum_verification=verify
        ).read_row_groups(
            groups, columns=list(columns), use_threads=False
        )
        return table.slice(start - edges[groups[0]], rows)
    # A slice of a large row group: decode in batches and keep only what was asked for, so memory stays small.
    reader = pq.ParquetFile(
        file, metadata=footer, pre_buffer=False, buffer_size=read_bytes, page_checksum_verification=verify
    )
    at, kept = edges[groups[0]], []
    for batch in reader.iter_batches(_SLICE_ROWS, row_groups=groups, columns=list(columns), use_threads=False):
        first, last = max(start - at, 0), min(start + rows - at, batch.num_rows)
        if first < last:
            kept.append(batch.slice(first, last - first))
        at += batch.num_rows
        if at >= start + rows:
            break
    return pa.Table.from_batches(kept)
