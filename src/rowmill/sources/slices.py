"""Rows of Parquet files in slices of a bounded size, however large their row groups and however uneven their rows.

The sizes of columns come from the footer. Columns whose values have no fixed size (lists, strings) and which are large
are streamed by PyArrow a few rows at a time: their measured bytes decide where a slice ends. The others are then read
for just these rows, as many columns at a time as may be decoded together, because a decoder may decode a whole row
group on the way to a slice. Called by `parquet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from rowmill.sources.source import Fragment
from rowmill.sources.thrift import ColumnChunk

_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 8, 4: 4, 5: 8}  # of Parquet's physical types; byte arrays have none
_FEWEST, _MOST = 1, 1_024  # rows of a large column of lists or strings that are decoded at once
_STREAMED_ROWS = 8_192  # the same for a column of numbers

Read = Callable[[Fragment, Sequence[str]], pl.DataFrame]
Stream = Callable[[Fragment, Sequence[str], int], Iterator[pa.RecordBatch]]  # in batches of so many rows


@dataclass(frozen=True, slots=True)
class ColumnSize:
    """The decoded bytes of a column in the row groups of a fragment."""

    name: str
    nbytes: int
    uneven: bool  # whether rows may differ in size


def decoded_bytes(chunk: ColumnChunk) -> int:
    """The bytes of a column chunk once decoded, as far as the footer tells: a dictionary may stand for more."""
    if chunk.is_text:
        return 16 * chunk.values + max(chunk.raw_bytes or 0, chunk.uncompressed)
    return max(_WIDTHS.get(chunk.physical, 16) * chunk.values, chunk.uncompressed)


@dataclass(frozen=True, slots=True)
class Slicer:
    """Reads a fragment in slices. `group_rows`: rows of the row groups that hold it."""

    read: Read
    stream: Stream
    sizes: Sequence[ColumnSize]
    group_rows: int

    def slices(self, fragment: Fragment, max_bytes: int) -> Iterator[pl.DataFrame]:
        """The rows of the fragment in frames of about `max_bytes` at most, columns in the order of `sizes`."""
        total = sum(size.nbytes for size in self.sizes)
        names = [size.name for size in self.sizes]
        if total <= max_bytes or not fragment.rows:
            yield self.read(fragment, names)
            return
        uneven = [size for size in self.sizes if size.uneven and size.nbytes > max_bytes // 4]
        parts = self._parts([size for size in self.sizes if size not in uneven], max_bytes)
        for rows, streamed in self._cut(fragment, uneven, total, max_bytes):
            frames = [self._part(rows, part, max_bytes) for part in parts]
            found = {column.name: column for frame in [*frames, *streamed] for column in frame.get_columns()}
            yield pl.DataFrame([found[name] for name in names])

    def _part(self, rows: Fragment, part: Sequence[ColumnSize], max_bytes: int) -> pl.DataFrame:
        names = [size.name for size in part]
        if sum(size.nbytes for size in part) <= 2 * max_bytes:
            return self.read(rows, names)
        return _frame(list(self.stream(rows, names, _STREAMED_ROWS)))

    def _parts(self, sizes: Sequence[ColumnSize], max_bytes: int) -> list[list[ColumnSize]]:
        """The columns in groups that may be decoded together."""
        parts: list[list[ColumnSize]] = []
        room = 0
        for size in sizes:
            if not parts or size.nbytes > room:
                parts.append([])
                room = max_bytes
            parts[-1].append(size)
            room -= size.nbytes
        return parts

    def _cut(
        self, fragment: Fragment, uneven: Sequence[ColumnSize], total: int, max_bytes: int
    ) -> Iterator[tuple[Fragment, list[pl.DataFrame]]]:
        """The fragment in slices, with the columns that decide where each ends."""
        if not uneven:
            each = max(1, max_bytes * self.group_rows // max(1, total))
            for start in range(0, fragment.rows, each):
                yield fragment.slice(start, min(each, fragment.rows - start)), []
            return
        even = sum(size.nbytes for size in self.sizes if size not in uneven) / max(1, self.group_rows)
        mean = sum(size.nbytes for size in uneven) / max(1, self.group_rows)
        at_once = max(_FEWEST, min(_MOST, int(max_bytes / 64 / max(1.0, mean))))
        start, rows, taken = 0, 0, 0.0
        held: list[pa.RecordBatch] = []
        for batch in self.stream(fragment, [size.name for size in uneven], at_once):
            held.append(batch)
            rows += batch.num_rows
            taken += batch.nbytes + even * batch.num_rows
            if taken > max_bytes / 2:
                yield fragment.slice(start, rows), [_frame(held)]
                start, rows, taken, held = start + rows, 0, 0.0, []
        if held:
            yield fragment.slice(start, rows), [_frame(held)]


def _frame(batches: Sequence[pa.RecordBatch]) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches(batches))
    assert isinstance(frame, pl.DataFrame)
    return frame
