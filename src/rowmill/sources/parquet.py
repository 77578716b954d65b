"""Parquet files as a source: units are files, natural fragments are row groups.

Local files are decoded by Polars, which reads only the pages a slice needs. Files on an object store are
read by PyArrow through its own file system. Any number of threads may call `read`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import polars as pl

from rowmill.errors import DataFileError
from rowmill.schema import Schema
from rowmill.sources.drift import unify
from rowmill.sources.fingerprint import of_files, stamp_files
from rowmill.sources.footers import read_footers
from rowmill.sources.hive import check_columns, hive_columns, with_hive
from rowmill.sources.paths import Files
from rowmill.sources.scans import Scans
from rowmill.sources.source import Fragment
from rowmill.sources.types import conform, schema_of
from rowmill.sources.widths import Widths

_LARGE_GROUP = 100_000_000  # decoded bytes of a row group from which on a slice of it is read by PyArrow


class ParquetSource:
    """The row groups of a list of Parquet files that agree on their columns."""

    def __init__(self, files: Files) -> None:
        self.files = files
        footers = read_footers(files.paths, files.filesystem)
        first_with = {place: footers.schema_of_file.index(place) for place in set(footers.schema_of_file)}
        distinct = [
            (files.name(i), footers.schemas[place]) for place, i in sorted(first_with.items(), key=lambda p: p[1])
        ]
        self._stored = unify(distinct)
        self._hive = hive_columns(files.hive, self._stored)
        self.dtypes = {**self._stored, **{name: values.dtype for name, values in self._hive.items()}}
        self._starts = [(0, *accumulate(rows)) for rows in footers.group_rows]
        self._schema = schema_of(self.dtypes)
        self._widths = Widths(self.dtypes)
        self._scans = Scans()
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
        check_columns(columns, self.dtypes, self.files.name(fragment.unit))
        stored = [c for c in columns if c in self._stored]
        try:
            frame = self._decode(fragment, stored)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataFileError(
                f"cannot read {self.describe(fragment)}: {reason}; wanted the file as it was when opened; "
                f"write it again or leave it out"
            ) from error
        if frame.height != fragment.rows:
            raise DataFileError(
                f"found {frame.height} rows in {self.describe(fragment)}; wanted {fragment.rows}; "
                f"the file has changed since it was opened: open the dataset again"
            )
        return with_hive(frame, self._hive, fragment.unit, columns)

    def _decode(self, fragment: Fragment, stored: Sequence[str]) -> pl.DataFrame:
        path = self.files.name(fragment.unit)
        if not stored:
            return pl.DataFrame(height=fragment.rows)
        if self.files.filesystem is None and not self._small_part(fragment, stored):
            scan = self._scans.of(path, len(self._starts[fragment.unit]) * len(self._stored))
            frame = scan.select(pl.col(stored)).slice(fragment.start, fragment.rows).collect()
        else:
            from rowmill.sources.arrow import read_parquet_rows

            table = read_parquet_rows(path, self.files.filesystem, fragment.start, fragment.rows, stored)
            frame = _as_frame(table).select(stored)
        return conform(frame, self._stored)

    def _small_part(self, fragment: Fragment, stored: Sequence[str]) -> bool:
        """Whether this is a slice of a row group too large to be decoded whole.

        Polars mostly decodes no more than a slice needs, but in 17 of 58 runs it decoded the whole row group.
        """
        starts = self._starts[fragment.unit]
        group = max(0, bisect_right(starts, fragment.start) - 1)
        rows = starts[min(group + 1, len(starts) - 1)] - starts[group]
        return 2 * fragment.rows <= rows and rows * self.row_bytes(stored) > _LARGE_GROUP

    def read_arrow(self, fragment: Fragment, columns: Sequence[str]) -> Any:
        """The rows of a fragment as a `pyarrow.Table`, without Polars: for forked processes. Stored columns only."""
        from rowmill.sources.arrow import read_parquet_rows

        check_columns(columns, self._stored, self.files.name(fragment.unit))
        system = self.files.filesystem
        return read_parquet_rows(self.files.name(fragment.unit), system, fragment.start, fragment.rows, columns)

    def describe(self, fragment: Fragment) -> str:
        starts = self._starts[fragment.unit]
        first, last = (
            bisect_right(starts, row) - 1 for row in (fragment.start, max(fragment.start, fragment.stop - 1))
        )
        groups = f"row group {first}" if first == last else f"row groups {first} to {last}"
        return f"{self.files.name(fragment.unit)}, {groups} (rows {fragment.start} to {fragment.stop})"

    def fingerprint(self) -> str:
        return of_files(self.files, self._schema)

    def stamp(self) -> tuple[str, str]:
        return stamp_files(self.files, self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._widths.of(columns, self)


def _as_frame(table: Any) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
