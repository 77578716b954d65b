"""Temporary copies of large row groups in small record batches.

A row group can only be decoded from its start. Where much less of it may be in memory than it holds, its large columns
are therefore decoded once, by streaming, and written to a temporary Arrow IPC file whose record batches have a bounded
size; any rows can then be read from there. Called by `slices`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate

import pyarrow as pa
import pyarrow.ipc

from rowmill._system.lock import Lock
from rowmill.errors import os_reason, warn
from rowmill.sources.files.temporary_files import temporary_folder
from rowmill.sources.parquet.arrow_pool import returning_pool


class CopyError(Exception):
    """A copy cannot be written; the text says why."""


@contextmanager
def _writing() -> Iterator[None]:
    """Tell what fails while a copy is written from what fails while its rows are read."""
    try:
        yield
    except OSError as error:
        raise CopyError(os_reason(error)) from error


class BatchCopy:
    """Some columns of a run of rows in a temporary file, which is removed together with this object."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        with _writing():
            self._path = str(temporary_folder(self) / "rows.arrow")
        rows, writer = list[int](), None
        try:
            for batch in batches:
                with _writing():
                    if writer is None:
                        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
                        writer = pa.ipc.new_file(self._path, batch.schema, options=options)
                    writer.write_batch(batch)
                rows.append(batch.num_rows)
        finally:
            if writer is not None:
                with _writing():
                    writer.close()
        self._starts = [0, *accumulate(rows)]

    def read(self, start: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Rows `start` to `start + rows`, counted from the first row that was copied, a record batch at a time."""
        number = bisect_right(self._starts, start) - 1
        pool = returning_pool()
        with pa.OSFile(self._path, memory_pool=pool) as file:
            options = pa.ipc.IpcReadOptions(use_threads=False)
            reader = pa.ipc.open_file(file, options=options, memory_pool=pool)
            while number < reader.num_record_batches and self._starts[number] < start + rows:
                before = self._starts[number]
                first, last = max(0, start - before), min(self._starts[number + 1], start + rows) - before
                yield reader.get_batch(number).slice(first, last - first)
                number += 1


class BatchCopies:
    """The copies that a source has made, one at a time: the thread that first asks for one makes it, others wait.

    If a copy cannot be written (a full disk, no folder for temporary files), there is one warning and no further copy.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._copies: dict[Hashable, BatchCopy] = {}
        self._failed = False

    def get(self, key: Hashable, batches: Callable[[], Iterable[pa.RecordBatch]]) -> BatchCopy | None:
        """The copy of this key, made of `batches()` if there is none yet; None if it cannot be written."""
        with self._lock:
            if key not in self._copies and not self._failed:
                try:
                    self._copies[key] = BatchCopy(batches())
                except CopyError as error:
                    self._failed = True
                    warn(
                        f"cannot copy a large row group to a temporary file: {error}. It is decoded from its start for "
                        f"every slice instead, which is slow; set TMPDIR to a folder with more room, or write smaller "
                        f"row groups",
                    )
            return self._copies.get(key)

    def __reduce__(self) -> tuple[type[BatchCopies], tuple[()]]:
        return BatchCopies, ()  # another process makes its own
