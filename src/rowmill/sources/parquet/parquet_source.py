"""Parquet files as a source: units are files, natural fragments are row groups.

Local files are decoded by Polars, which reads only the pages a slice needs. Files on an object store are
read by PyArrow through its own file system. Every file is pinned when it is opened (`pins`), and its pages are checked
before they are decoded (`pages`). Any number of threads may call `read`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import polars as pl
import pyarrow as pa

from rowmill.errors import DataFileError, MemoryLimitError
from rowmill.schema import Schema
from rowmill.sources.bounds import Bounds
from rowmill.sources.files.fingerprint import of_values, stamp_pins
from rowmill.sources.files.hive import hive_columns, with_hive
from rowmill.sources.files.paths import Files
from rowmill.sources.frames.pandas_index import listed, only_common_index, unlisted, warn_of_ranges
from rowmill.sources.locate import Rows, places
from rowmill.sources.missing_columns import check_columns
from rowmill.sources.names import columns as exactly
from rowmill.sources.null_columns import footer_nulls
from rowmill.sources.parquet.batch_copy import BatchCopies
from rowmill.sources.parquet.footers import read_footers
from rowmill.sources.parquet.group_bounds import GroupBounds, footer_bounds, is_ordered, joined_bounds
from rowmill.sources.parquet.scan_cache import Scan, Scans
from rowmill.sources.parquet.slices import ColumnSize, Slicer
from rowmill.sources.row_size import Widths, is_uneven
from rowmill.sources.schema_unification import unify
from rowmill.sources.source import Fragment
from rowmill.sources.types import conform, schema_of

_LARGE = 100_000_000  # decoded bytes from which on `read` reads in slices
_SMALL = 1 << 20  # decoded bytes below which nothing is gained by reading in slices
_FOOTERS = 64  # files whose footers are looked into for the sizes of their lists and strings
_UNEVEN = 1.5  # times as large as the first rows have rows of a row group to be to count
_MEMORY = 24  # the memory setting is as many times the bytes that a slice of lists or strings may have (see feed)
_STREAMED_ROWS = 65_536


class ParquetSource:
    """The row groups of a list of Parquet files that agree on their columns.

    `verify`: compare the checksums of pages, in files that have them, with their bytes whenever they are read.
    """

    def __init__(self, files: Files, *, verify: bool = True) -> None:
        self.files = files
        self._verify = verify
        footers = read_footers(files)
        self._pins = footers.pins
        first_with = {place: footers.schema_of_file.index(place) for place in set(footers.schema_of_file)}
        distinct = [
            (files.name(i), footers.schemas[place]) for place, i in sorted(first_with.items(), key=lambda p: p[1])
        ]
        self._stored = unify(only_common_index(distinct))
        warn_of_ranges((name for name in footers.ranges if name not in self._stored), files.name(0))
        self._hive = hive_columns(files, self._stored)
        self.dtypes = {**self._stored, **{name: values.dtype for name, values in self._hive.items()}}
        self._starts = [(0, *accumulate(rows)) for rows in footers.group_rows]
        self._schema = schema_of(listed(self.dtypes))
        self.unlisted = schema_of(unlisted(self.dtypes))
        self._widths = Widths(self.dtypes)
        self._copies = BatchCopies()
        self._dense: dict[str, float | None] = {}
        self._leaves = [footers.leaves[place] for place in footers.schema_of_file]
        self._scans = Scans(files.paths, self._pins)
        self._fragments = tuple(
            Fragment(unit, start, stop - start)
            for unit, starts in enumerate(self._starts)
            for start, stop in pairwise(starts)
            if stop > start
        )

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._fragments

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of a fragment in the dataset's types, whatever the file stores them as."""
        frames = list(self._read_slices(fragment, columns, _LARGE))
        return frames[0] if len(frames) == 1 else pl.concat(frames)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        max_bytes = max(max_bytes, _SMALL)
        with self._pins.unchanged(fragment.unit, partial(self.describe, fragment)):
            whole = sum(size.decoded for size in self._sizes(fragment, columns)) <= min(max_bytes, _LARGE)
        if whole:
            yield self.read(fragment, columns)
        else:
            yield from self._read_slices(fragment, columns, max_bytes)

    def _read_slices(
        self, fragment: Fragment, columns: Sequence[str], max_bytes: int, *, copies: bool = True
    ) -> Iterator[pl.DataFrame]:
        check_columns(columns, self.dtypes, self.files.name(fragment.unit))
        slices, rows = self._slices(fragment, columns, max_bytes, self._copies if copies else None), 0
        while True:
            with self._pins.unchanged(fragment.unit, partial(self.describe, fragment)):
                frame = next(slices, None)
                if frame is None:
                    break
                rows += frame.height
                frame = conform(frame, self._stored)
            yield with_hive(frame, self._hive, fragment.unit, columns) if self._hive else frame
        if rows != fragment.rows:
            raise DataFileError(
                f"found {rows} rows in {self.describe(fragment)}; wanted {fragment.rows}; the file is damaged: write "
                f"it again or leave it out"
            )

    def _slices(
        self, fragment: Fragment, columns: Sequence[str], max_bytes: int, copies: BatchCopies | None
    ) -> Iterator[pl.DataFrame]:
        sizes, groups = self._sizes(fragment, columns), self._groups(fragment)
        if not sizes:
            yield pl.DataFrame(height=fragment.rows)
            return
        largest, names = 0, [size.name for size in sizes]
        if self.files.filesystem is None:
            pages = self._scan(fragment.unit).pages
            pages.check(groups, names, self._verify)
            largest = pages.largest_page(groups, names)
        if max_bytes < _LARGE and 3 * largest > 2 * _MEMORY * max_bytes:
            raise MemoryLimitError(
                f"{self.describe(fragment)} has a page of {largest / 1e6:,.0f} MB, which can only be decompressed as a "
                f"whole and takes more than two thirds of the memory setting; pass "
                f"memory='{3 * largest // 2_000_000 + 1}MB', or write the file with smaller pages"
            )
        if sum(size.decoded for size in sizes) <= max_bytes or not fragment.rows:
            yield self._decode(fragment, names)
            return
        whole = self._whole_groups(fragment)
        slicer = Slicer(self._decode, self._stream, sizes, whole, copies, large_pages=largest > max_bytes)
        yield from slicer.slices(fragment, max_bytes)

    def _sizes(self, fragment: Fragment, columns: Sequence[str]) -> list[ColumnSize]:
        """The decoded bytes of the stored ones of these columns in the row groups of a fragment."""
        stored = [c for c in columns if c in self._stored]
        if self.files.filesystem is None and stored:
            return self._scan(fragment.unit).pages.sizes(self._groups(fragment), stored)
        rows = self._whole_groups(fragment).rows
        sizes = {c: int(rows * self._widths.known(c)) for c in stored}
        return [ColumnSize(c, size, size, is_uneven(self.dtypes[c])) for c, size in sizes.items()]

    def _whole_groups(self, fragment: Fragment) -> Fragment:
        """All rows of the row groups that hold rows of a fragment."""
        starts, groups = self._starts[fragment.unit], self._groups(fragment)
        first = starts[groups.start]
        return Fragment(fragment.unit, first, starts[groups.stop] - first if groups else 0)

    def _scan(self, unit: int) -> Scan:
        return self._scans.of(unit, [b - a for a, b in pairwise(self._starts[unit])], self._leaves[unit])

    def _decode(self, fragment: Fragment, stored: Sequence[str]) -> pl.DataFrame:
        if self.files.filesystem is None:
            scan = self._scan(fragment.unit)
            return scan.frame.select(exactly(stored)).slice(fragment.start, fragment.rows).collect()
        if fragment.rows and 2 * fragment.rows <= self._whole_groups(fragment).rows:
            return _as_frame(pa.Table.from_batches(list(self._stream(fragment, stored, _STREAMED_ROWS))))
        from rowmill.sources.parquet.arrow_reader import read_parquet_rows

        path, system = self.files.name(fragment.unit), self.files.filesystem
        table = read_parquet_rows(path, system, fragment.start, fragment.rows, stored, verify=self._verify)
        return _as_frame(table).select(exactly(stored))

    def _stream(self, fragment: Fragment, stored: Sequence[str], batch_rows: int) -> Iterator[Any]:
        from rowmill.sources.parquet.arrow_reader import stream_parquet_rows

        path, system = self.files.name(fragment.unit), self.files.filesystem
        rows = (fragment.start, fragment.rows)
        return stream_parquet_rows(path, system, *rows, stored, batch_rows, verify=self._verify)

    def _groups(self, fragment: Fragment) -> range:
        """The row groups that hold rows of a fragment."""
        starts = self._starts[fragment.unit]
        return range(max(0, bisect_right(starts, fragment.start) - 1), bisect_left(starts, fragment.stop))

    def read_arrow(self, fragment: Fragment, columns: Sequence[str]) -> Any:
        """The rows of a fragment as a `pyarrow.Table`, without Polars: for forked processes. Stored columns only."""
        check_columns(columns, self._stored, self.files.name(fragment.unit))
        with self._pins.unchanged(fragment.unit, partial(self.describe, fragment)):
            return pa.Table.from_batches(list(self._stream(fragment, columns, _STREAMED_ROWS)))

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        """What the statistics of all row groups say, and the values of folders."""
        known = {c: self._hive[c].null_count() > 0 for c in columns if c in self._hive}
        asked = {c for c in columns if c in self._stored and not self.dtypes[c].is_nested()}
        for fragment in [f for f in self._fragments if not f.start]:
            found = {}
            with self._pins.unchanged(fragment.unit, partial(self.describe, fragment)):
                if self.files.filesystem is None and asked:
                    self._scan(fragment.unit)  # checks the column chunks that PyArrow is going to read
                found = footer_nulls(self.files.name(fragment.unit), self.files.filesystem, asked)
            known.update({c: True for c, null in found.items() if null})
            asked -= {c for c, null in found.items() if null is not False}
        return {**known, **dict.fromkeys(asked, False)}

    def bounds(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
        """From the statistics of row groups, and the values of folders."""
        stored = {c: self.dtypes[c] for c in columns if c in self._stored and is_ordered(self.dtypes[c])}
        found: dict[int, GroupBounds] = {}
        for unit in sorted({fragment.unit for fragment in fragments}) if stored else []:
            with self._pins.unchanged(unit, partial(self.describe, Fragment(unit, 0, 0))):
                if self.files.filesystem is None:
                    self._scan(unit)  # checks the column chunks that PyArrow is going to read
                found[unit] = footer_bounds(self.files.name(unit), self.files.filesystem, stored)
        known = joined_bounds([(found[f.unit], self._groups(f)) for f in fragments] if stored else [], stored)
        units = [fragment.unit for fragment in fragments]
        return known | {c: (self._hive[c].gather(units),) * 2 for c in columns if c in self._hive}

    def describe(self, fragment: Fragment) -> str:
        starts = self._starts[fragment.unit]
        first, last = (
            bisect_right(starts, row) - 1 for row in (fragment.start, max(fragment.start, fragment.stop - 1))
        )
        groups = f"row group {first}" if first == last else f"row groups {first} to {last}"
        return f"{self.files.name(fragment.unit)}, {groups} (rows {fragment.start} to {fragment.stop})"

    def file_keys(self) -> list[tuple[str, int, str]]:
        return self._pins.keys()

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(self.files.name(unit), rows, self._starts[unit])

    def fingerprint(self) -> str:
        return of_values(self._pins.fingerprint(), self._schema)

    def stamp(self) -> tuple[str, str]:
        return stamp_pins(self.files, self._pins, self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        """The mean of some rows; of lists and strings, what the footers say of row groups where that is more."""
        found = {c: self._widths.of([c], self, self._first_rows) for c in columns}
        uneven = [c for c in columns if c in self._stored and is_uneven(self.dtypes[c])]
        if uneven and self.files.filesystem is None:
            for name, most in self._densest(tuple(uneven)).items():
                found[name] = most if most > _UNEVEN * found[name] else found[name]
        return sum(found.values())

    def _first_rows(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> pl.DataFrame:
        """Some rows from the start of a fragment, without a temporary copy of it."""
        return next(self._read_slices(fragment, columns, max_bytes, copies=False))

    def _densest(self, columns: tuple[str, ...]) -> dict[str, float]:
        """For each column the most bytes a row in any large row group, as far as a number of footers tells."""
        for name in columns:
            self._dense.setdefault(name, None)
        new = [name for name in columns if self._dense[name] is None]
        if new:
            found = dict.fromkeys(new, 0.0)
            for fragment in self._looked_into():
                with self._pins.unchanged(fragment.unit, partial(self.describe, fragment)):
                    sizes = self._sizes(fragment, new)
                for size in sizes:
                    if size.decoded > _SMALL:
                        found[size.name] = max(found[size.name], size.decoded / fragment.rows)
            self._dense.update(found)
        return {name: self._dense[name] or 0.0 for name in columns}

    def _looked_into(self) -> Sequence[Fragment]:
        """Row groups whose footers are looked into: all, or those of files that are evenly chosen, and the largest."""
        units = len(self.files.paths)
        if units > _FOOTERS:
            chosen = {i * units // _FOOTERS for i in range(_FOOTERS)}
            chosen |= set(sorted(range(units), key=lambda unit: -self._pins[unit].size)[: _FOOTERS // 4])
            return [fragment for fragment in self._fragments if fragment.unit in chosen]
        return self._fragments


def _as_frame(table: Any) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
