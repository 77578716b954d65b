"""Rows of Parquet files in slices of a bounded size, however large their row groups and however uneven their rows.

The sizes of columns come from the footer. Where lists and strings are large, an index says how many bytes they take up
to which row: it is made once, by streaming these columns a few rows at a time. A slice is then read as many columns at
a time as may be in memory together, because Polars loads whole column chunks on the way to a slice. Called by
`parquet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from rowmill.sources.source import Fragment
from rowmill.sources.thrift import ColumnChunk

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 8, 4: 4, 5: 8}  # of Parquet's physical types; byte arrays have none
_PARTS = 512  # as many times as large as the mean may the rows be that are streamed at once
_MOST_ROWS = 1_024
_STREAMED_ROWS = 8_192  # of columns whose rows are all of one size

Read = Callable[[Fragment, Sequence[str]], pl.DataFrame]
Stream = Callable[[Fragment, Sequence[str], int], Iterator[pa.RecordBatch]]  # the last argument: rows of a batch


@dataclass(frozen=True, slots=True)
class ColumnSize:
    """The bytes of a column in the row groups of a fragment: once decoded, and as they are stored."""

    name: str
    decoded: int = 0
    stored: int = 0
    uneven: bool = False  # whether rows may differ in size
    text: bool = False  # whether it is made of strings or binary values, for which Polars decodes whole column chunks

    def plus(self, chunk: ColumnChunk, repeated: bool) -> ColumnSize:
        """The size together with that of another column chunk. Dictionaries may stand for more than footers tell."""
        if chunk.is_text:
            decoded = 16 * chunk.values + max(chunk.raw_bytes or 0, chunk.uncompressed)
        else:
            decoded = max(_WIDTHS.get(chunk.physical, 16) * chunk.values, chunk.uncompressed)
        uneven, text = self.uneven or repeated or chunk.is_text, self.text or chunk.is_text
        return ColumnSize(self.name, self.decoded + decoded, self.stored + chunk.compressed, uneven, text)


@dataclass(frozen=True)
class Index:
    """How many bytes some columns take from the start of their row groups up to which row, block by block."""

    rows: NDArray[np.int64]
    nbytes: NDArray[np.float64]

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Index:
        sizes = [(batch.num_rows, batch.nbytes) for batch in batches]
        return cls(np.cumsum([rows for rows, _ in sizes]), np.cumsum([nbytes for _, nbytes in sizes], dtype=np.float64))

    def cut(self, first: int, last: int, max_bytes: float, even: float) -> Iterator[tuple[int, int]]:
        """Rows `first` to `last` in runs of at most `max_bytes`, or of one block. `even`: bytes of a row's other
        columns."""
        ends = self.nbytes + even * self.rows
        while first < last:
            block = int(np.searchsorted(self.rows, first, "right"))
            before = float(ends[block - 1]) if block else 0.0
            stop = max(block + 1, int(np.searchsorted(ends, before + max_bytes, "right")))
            end = min(last, int(self.rows[stop - 1]))
            yield first, end - first
            first = end


@dataclass(frozen=True, slots=True)
class Slicer:
    """Reads a fragment in slices. `groups`: all rows of the row groups that hold it. `index` is called for columns that
    are large and uneven, with the number of rows that may be streamed at once."""

    read: Read
    stream: Stream
    index: Callable[[Sequence[str], int], Index]
    sizes: Sequence[ColumnSize]
    groups: Fragment

    def slices(self, fragment: Fragment, max_bytes: int) -> Iterator[pl.DataFrame]:
        """The rows of the fragment in frames of about `max_bytes` at most, columns in the order of `sizes`."""
        names = [size.name for size in self.sizes]
        if sum(size.decoded for size in self.sizes) <= max_bytes or not fragment.rows:
            yield self.read(fragment, names)
            return
        parts = _parts(self.sizes, max_bytes)
        for rows in self._cut(fragment, max_bytes):
            frames = [self._part(rows, part, max_bytes) for part in parts]
            found = {column.name: column for frame in frames for column in frame.get_columns()}
            yield pl.DataFrame({name: found[name] for name in names})

    def _part(self, rows: Fragment, part: Sequence[ColumnSize], max_bytes: int) -> pl.DataFrame:
        names = [size.name for size in part]
        if sum(_loaded(size) for size in part) <= max_bytes:
            return self.read(rows, names)
        return _frame(self.stream(rows, names, self._at_once(part, max_bytes)))

    def _cut(self, fragment: Fragment, max_bytes: int) -> Iterator[Fragment]:
        uneven = [size for size in self.sizes if size.uneven and size.decoded > max_bytes // 4]
        even = sum(size.decoded for size in self.sizes if size not in uneven) / max(1, self.groups.rows)
        if not uneven:
            each = max(1, int(max_bytes / max(1.0, even)))
            runs: Iterable[tuple[int, int]] = (
                (start, min(each, fragment.rows - start)) for start in range(0, fragment.rows, each)
            )
        else:
            found = self.index([size.name for size in uneven], self._at_once(uneven, max_bytes))
            before = fragment.start - self.groups.start
            runs = found.cut(before, before + fragment.rows, max_bytes / 2, even)
            runs = ((start - before, rows) for start, rows in runs)
        return (fragment.slice(start, rows) for start, rows in runs)

    def _at_once(self, sizes: Sequence[ColumnSize], max_bytes: int) -> int:
        """Rows of these columns that are streamed at once."""
        if not any(size.uneven for size in sizes):
            return _STREAMED_ROWS
        mean = sum(size.decoded for size in sizes) / max(1, self.groups.rows)
        return max(1, min(_MOST_ROWS, int(max_bytes / _PARTS / max(1.0, mean))))


def _loaded(size: ColumnSize) -> int:
    """What Polars has in memory at once on the way to a slice of a column."""
    return size.stored + (size.decoded if size.text else 0)


def _parts(sizes: Sequence[ColumnSize], max_bytes: int) -> list[list[ColumnSize]]:
    """The columns in groups that may be read together; those that are too large by themselves come alone."""
    parts: list[list[ColumnSize]] = []
    room = 0
    for size in sizes:
        if not parts or _loaded(size) > room:
            parts.append([])
            room = max_bytes
        parts[-1].append(size)
        room -= _loaded(size)
    return parts


def _frame(batches: Iterable[pa.RecordBatch]) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches(list(batches)).combine_chunks())
    assert isinstance(frame, pl.DataFrame)
    pa.default_memory_pool().release_unused()  # else PyArrow keeps what it took for the batches
    return frame
