"""Splits large row groups: rows of Parquet files in slices of a bounded size.

For row groups that do not fit in memory at once. The sizes of columns come from the footer. Columns of numbers are read
by Polars, as many rows at a time as fit, and as many columns as may be in memory together. Columns that Polars would
have to decode whole (lists and strings) or load whole are streamed by PyArrow a few rows at a time; where that would
decode a row group many times, from a temporary copy (`batch_copy`). Called by `parquet_source`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from rowmill.sources.parquet.arrow_pool import returning_pool
from rowmill.sources.parquet.batch_copy import BatchCopies
from rowmill.sources.parquet.thrift import ColumnChunk
from rowmill.sources.source import Fragment

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 8, 4: 4, 5: 8}  # of Parquet's physical types; byte arrays have none
_UNEVEN_SPREAD = 512  # rows streamed at once fit if they are on average this many times as large as the mean
_EVEN_SPREAD = 8
_MOST_UNEVEN_ROWS, _MOST_EVEN_ROWS = 1_024, 65_536  # rows streamed at once
_MOST_JOINED = 256  # batches at once: each takes some kilobytes, even if it holds one number
_MOST_BYTES = 1 << 29  # of joined batches: Arrow's strings have offsets of 32 bits
_COPIED_PART = 8  # a part that is this many times smaller than its row group is read from a copy of it

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
            decoded = 16 * chunk.values + max(chunk.raw_bytes, chunk.uncompressed)
        else:
            decoded = max(_WIDTHS.get(chunk.physical, 16) * chunk.values, chunk.uncompressed)
        uneven, text = self.uneven or repeated or chunk.is_text, self.text or chunk.is_text
        return ColumnSize(self.name, self.decoded + decoded, self.stored + chunk.compressed, uneven, text)

    @property
    def loaded(self) -> int:
        """What Polars has in memory at once on the way to a slice of the column."""
        return self.stored + (self.decoded if self.text else 0)

    def is_streamed(self, max_bytes: int) -> bool:
        """Whether slices of at most `max_bytes` are streamed by PyArrow rather than read by Polars."""
        return self.loaded > max_bytes or (self.uneven and self.decoded > max_bytes // 4)


@dataclass(frozen=True, slots=True)
class Slicer:
    """Reads a fragment in slices. `groups`: all rows of the row groups that hold it.

    `copies` is where temporary copies are kept, or None if none may be made. `large_pages`: whether single pages are
    larger than a slice, so that no stream may be left open between two slices.
    """

    read: Read
    stream: Stream
    sizes: Sequence[ColumnSize]
    groups: Fragment
    copies: BatchCopies | None
    large_pages: bool = False

    def slices(self, fragment: Fragment, max_bytes: int) -> Iterator[pl.DataFrame]:
        """The rows of the fragment in frames of about `max_bytes` at most, columns in the order of `sizes`."""
        names = [size.name for size in self.sizes]
        streamed = [size for size in self.sizes if size.is_streamed(max_bytes)]
        parts = _parts([size for size in self.sizes if size not in streamed], max_bytes // 2)
        even = sum(size.decoded for part in parts for size in part) / max(1, self.groups.rows)
        runs = self._streamed(fragment, streamed, max_bytes, even) if streamed else _even(fragment, max_bytes, even)
        for rows, frame in runs:
            frames = [frame, *(self.read(rows, [size.name for size in part]) for part in parts)]
            found = {column.name: column for part in frames for column in part.get_columns()}
            yield pl.DataFrame([found[name] for name in names])

    def _streamed(
        self, fragment: Fragment, sizes: Sequence[ColumnSize], max_bytes: int, even: float
    ) -> Iterator[tuple[Fragment, pl.DataFrame]]:
        """Runs of rows with these columns of theirs. `even`: bytes of a row's other columns."""
        start = 0
        for batch in self._batches(fragment, sizes, max_bytes, even):
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield fragment.slice(start, batch.num_rows), frame
            start += batch.num_rows

    def _batches(
        self, fragment: Fragment, sizes: Sequence[ColumnSize], max_bytes: int, even: float
    ) -> Iterator[pa.RecordBatch]:
        names, at_once = [size.name for size in sizes], self._rows_at_once(sizes, max_bytes)

        def streamed(rows: Fragment) -> Iterator[pa.RecordBatch]:
            return _joined(self.stream(rows, names, at_once), min(max_bytes // 2, _MOST_BYTES), even)

        is_small_part = fragment.start > self.groups.start and _COPIED_PART * fragment.rows < self.groups.rows
        if self.copies is not None and (is_small_part or self.large_pages):
            copy = self.copies.get((self.groups, tuple(names), max_bytes), lambda: streamed(self.groups))
            if copy is not None:
                return copy.read(fragment.start - self.groups.start, fragment.rows)
        return streamed(fragment)

    def _rows_at_once(self, sizes: Sequence[ColumnSize], max_bytes: int) -> int:
        """Rows of these columns that are streamed at once."""
        uneven = any(size.uneven for size in sizes)
        spread, most = (_UNEVEN_SPREAD, _MOST_UNEVEN_ROWS) if uneven else (_EVEN_SPREAD, _MOST_EVEN_ROWS)
        mean = sum(size.decoded for size in sizes) / max(1, self.groups.rows)
        return max(1, min(most, int(max_bytes / spread / max(1.0, mean))))


def _even(fragment: Fragment, max_bytes: int, row_bytes: float) -> Iterator[tuple[Fragment, pl.DataFrame]]:
    """Runs of as many rows as fit, with no columns yet."""
    each = max(1, int(max_bytes / max(1.0, row_bytes)))
    for start in range(0, fragment.rows, each):
        yield fragment.slice(start, min(each, fragment.rows - start)), pl.DataFrame()


def _parts(sizes: Sequence[ColumnSize], max_bytes: int) -> list[list[ColumnSize]]:
    """The columns in groups that Polars may read together."""
    parts: list[list[ColumnSize]] = []
    room = 0
    for size in sizes:
        if not parts or size.loaded > room:
            parts.append([])
            room = max_bytes
        parts[-1].append(size)
        room -= size.loaded
    return parts


def _joined(batches: Iterable[pa.RecordBatch], max_bytes: int, even: float) -> Iterator[pa.RecordBatch]:
    """The batches joined to larger ones of at most `max_bytes`, if they are not larger by themselves."""
    found: list[pa.RecordBatch] = []
    nbytes = 0.0
    for batch in batches:
        own = batch.nbytes + even * batch.num_rows
        if found and nbytes + own > max_bytes:
            yield _one(found)
            found, nbytes = [], 0.0
            pa.default_memory_pool().release_unused()
        elif len(found) == _MOST_JOINED:
            found = [_one(found)]
        found.append(batch)
        nbytes += own
    if found:
        yield _one(found)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches, memory_pool=returning_pool())
