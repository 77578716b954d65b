"""A version of a table, resolved to Parquet files, and its rows as a source.

Comes in: a `TableVersion` (see `delta`, `iceberg`): the files, their partition values, and the table's own columns.
Goes out: a source. Columns that were added after a file was written are null in it, renamed ones are found by their
field ids, and columns of a narrower type are cast to the table's.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from rowmill._system.threads import map_threads
from rowmill.errors import ArgumentError, DataFileError, SchemaDriftError, missing_column
from rowmill.schema import Schema
from rowmill.sources.bounds import Bounds
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.files.paths import Files
from rowmill.sources.files.remote import file_system, path_in
from rowmill.sources.locate import Rows
from rowmill.sources.names import columns as exactly
from rowmill.sources.names import frame_of
from rowmill.sources.parquet.group_bounds import as_series
from rowmill.sources.parquet.parquet_source import ParquetSource
from rowmill.sources.source import Fragment
from rowmill.sources.types import conform, schema_of, value_bytes

_THREADS = 16  # that read the schemas of files
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a version, by path or URL, and the values of the columns that it does not store."""

    path: str
    constants: Mapping[str, Any]


@dataclass(frozen=True)
class TableVersion:
    """What a version of a table is made of. `field_ids`: names of columns by the ids that files store, where columns
    may have been renamed; without them columns are found by name."""

    kind: str
    name: str
    number: int
    dtypes: Mapping[str, pl.DataType]
    files: tuple[DataFile, ...]
    field_ids: Mapping[int, str] | None = None
    always_stored: frozenset[str] = frozenset()  # columns that are not null in a file without them, but unknown

    def __str__(self) -> str:
        number = f"{'snapshot' if self.kind == 'Iceberg' else 'version'} {self.number}"
        return f"{number} of the {self.kind} table {self.name}"


@dataclass(frozen=True)
class _Group:
    """Files that store the same columns: the names that the table gives them, and values of other columns by file."""

    source: ParquetSource
    stored: Mapping[str, str]
    constants: Mapping[str, pl.Series]


class TableVersionSource:
    """The rows of one version of a table. Units are its files."""

    def __init__(
        self, version: TableVersion, storage_options: Mapping[str, Any] | None = None, *, verify: bool = True
    ) -> None:
        self.version = version
        self.dtypes = dict(version.dtypes)
        self._schema = schema_of(self.dtypes)
        self.unlisted = Schema()
        files = _files(version, storage_options or {})
        self._groups = [
            _open_group(version, files, chosen, stored, verify) for stored, chosen in _by_columns(version, files)
        ]
        paths = tuple(path for group in self._groups for path in group.source.files.paths)
        self.files = Files(paths, "parquet", files.filesystem)
        self._first_units = [0, *accumulate(len(group.source.files.paths) for group in self._groups)]
        self._fragments = tuple(
            Fragment(first + fragment.unit, fragment.start, fragment.rows)
            for first, group in zip(self._first_units, self._groups, strict=False)
            for fragment in group.source.fragments
        )

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._fragments

    def _find(self, unit: int) -> tuple[_Group, int]:
        """The group that a file is in, and its number there."""
        number = bisect_right(self._first_units, unit) - 1
        return self._groups[number], unit - self._first_units[number]

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        self._check(columns)
        if not self._groups:
            return pl.DataFrame(schema={name: self.dtypes[name] for name in columns})
        group, unit = self._find(fragment.unit)
        within = Fragment(unit, fragment.start, fragment.rows)
        return self._reshaped(group.source.read(within, self._stored(group, columns)), group, unit, columns)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        self._check(columns)
        group, unit = self._find(fragment.unit)
        within = Fragment(unit, fragment.start, fragment.rows)
        for frame in group.source.read_slices(within, self._stored(group, columns), max_bytes):
            yield self._reshaped(frame, group, unit, columns)

    def _check(self, columns: Sequence[str]) -> None:
        for name in columns:
            if name not in self.dtypes:
                raise missing_column(name, f"in {self.version}", self.dtypes)

    @staticmethod
    def _stored(group: _Group, columns: Sequence[str]) -> list[str]:
        return [group.stored[name] for name in columns if name in group.stored]

    def _reshaped(self, frame: pl.DataFrame, group: _Group, unit: int, columns: Sequence[str]) -> pl.DataFrame:
        """Rows of a file as rows of the table."""
        found = []
        for name in columns:
            if name in group.stored:
                series = frame.get_column(group.stored[name]).alias(name)
            else:
                value = group.constants[name][unit] if name in group.constants else None
                series = pl.Series(name, [value], dtype=self.dtypes[name]).new_from_index(0, frame.height)
            found.append(series)
        return conform(frame_of(found), self.dtypes) if found else pl.DataFrame(height=frame.height)

    def bounds(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
        """From the partition values, and from the statistics of row groups where all files store a column."""
        known: Bounds = {}
        for name in columns:
            ends: list[list[Any]] = [[], []]
            for number, group in enumerate(self._groups):
                low, high = self._first_units[number], self._first_units[number + 1]
                own = [Fragment(f.unit - low, f.start, f.rows) for f in fragments if low <= f.unit < high]
                if name in group.stored:
                    found = group.source.bounds(own, [group.stored[name]]).get(group.stored[name])
                    pair = ([None] * len(own),) * 2 if found is None else tuple(one.to_list() for one in found)
                else:
                    constants = group.constants.get(name)
                    pair = ([None if constants is None else constants[f.unit] for f in own],) * 2
                ends[0] += pair[0]
                ends[1] += pair[1]
            series = [as_series(name, values, self.dtypes[name]) for values in ends]
            if series[0] is not None and series[1] is not None and len(series[0]) == len(fragments):
                known[name] = (series[0], series[1])
        return known

    def describe(self, fragment: Fragment) -> str:
        if not self._groups:
            return str(self.version)
        group, unit = self._find(fragment.unit)
        return group.source.describe(Fragment(unit, fragment.start, fragment.rows))

    def file_keys(self) -> list[tuple[str, int, str]]:
        return [key for group in self._groups for key in group.source.file_keys()]

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        group, within = self._find(unit)
        return group.source.locate(within, rows)

    def fingerprint(self) -> str:
        kind, number = self.version.kind, self.version.number
        return of_values(kind, number, [group.source.fingerprint() for group in self._groups], self._schema)

    def stamp(self) -> tuple[str, str]:
        stamps = [group.source.stamp() for group in self._groups]
        where = of_values(self.version.kind, self.version.name)
        return where, of_values(self.version.number, [stamp for _, stamp in stamps], self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        size = 0.0
        for group in self._groups:
            other = sum(value_bytes(self.dtypes[name]) for name in columns if name not in group.stored)
            size = max(size, group.source.row_bytes(self._stored(group, columns)) + other)
        return size


def milliseconds(moment: str | datetime) -> int:
    """A moment, given as `timestamp=`, in milliseconds since 1970. Without a time zone it is local time."""
    try:
        given = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        return int(given.timestamp() * 1000)
    except (ValueError, AttributeError) as error:
        raise ArgumentError(
            f"timestamp is {moment!r}; wanted a datetime, or a text such as 2024-01-31T12:00"
        ) from error


def _files(version: TableVersion, options: Mapping[str, Any]) -> Files:
    """The files of a version, all of which must be there."""
    paths = [file.path for file in version.files]
    if paths and "://" in paths[0] and not paths[0].startswith("file://"):
        system = file_system(paths[0], options)
        return Files(tuple(path_in(path, system) for path in paths), "parquet", system)
    paths = [path.removeprefix("file://") for path in paths]
    gone = [path for path in paths if not os.path.exists(path)]  # noqa: PTH110
    if gone:
        raise DataFileError(
            f"{len(gone)} of the {len(paths)} files of {version} are gone, {gone[0]} among them: they were removed by "
            f"vacuum or by expiring snapshots; open a later version"
        )
    return Files(tuple(paths), "parquet")


def _by_columns(version: TableVersion, files: Files) -> list[tuple[dict[str, str], list[int]]]:
    """Files that store the same columns: for each set of them, the table's names to the stored names, and the files."""
    if not version.files:
        return []

    def stored(number: int) -> tuple[tuple[str, str], ...]:
        try:
            schema = pq.read_schema(files.paths[number], filesystem=files.filesystem)
        except (OSError, ValueError) as error:
            raise DataFileError(f"cannot read {files.paths[number]} of {version}: {error}") from error
        named = {}
        for field in schema:
            number_text = (field.metadata or {}).get(_FIELD_ID)
            if version.field_ids is None:
                named[field.name] = field.name
            elif number_text is None:
                raise SchemaDriftError(
                    f"{files.paths[number]} of {version} stores no field ids, by which renamed columns are found; "
                    f"write the file again with the table's own library"
                )
            else:
                named[version.field_ids.get(int(number_text), "")] = field.name
        constants = version.files[number].constants
        if unknown := sorted(version.always_stored - named.keys()):
            raise SchemaDriftError(
                f"{files.paths[number]} of {version} does not store column {unknown[0]!r}, by which the table is "
                f"partitioned; write the file again with the table's own library"
            )
        return tuple((n, named[n]) for n in version.dtypes if n in named and n not in constants)

    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for number, names in enumerate(map_threads(stored, range(len(files.paths)), _THREADS, "rowmill-schemas")):
        found.setdefault(names, []).append(number)
    return [(dict(names), numbers) for names, numbers in found.items()]


def _open_group(
    version: TableVersion, files: Files, chosen: Sequence[int], stored: Mapping[str, str], verify: bool
) -> _Group:
    names = {name for number in chosen for name in version.files[number].constants}
    constants = {
        name: pl.Series(name, [version.files[number].constants.get(name) for number in chosen], version.dtypes[name])
        for name in names
        if name in version.dtypes
    }
    source = ParquetSource(
        Files(tuple(files.paths[number] for number in chosen), "parquet", files.filesystem), verify=verify
    )
    _check_types(version, source, stored)
    return _Group(source, stored, constants)


def _check_types(version: TableVersion, source: ParquetSource, stored: Mapping[str, str]) -> None:
    """Whether the stored columns can be cast to the table's types."""
    empty = source.read(Fragment(0, 0, 0), list(stored.values()))
    for name, held in stored.items():
        try:
            empty.select(exactly([held])).cast({held: version.dtypes[name]})
        except pl.exceptions.PolarsError as error:
            raise SchemaDriftError(
                f"column {name!r} of {version} is stored as {source.dtypes[held]} in {source.files.name(0)}, which "
                f"does not become {version.dtypes[name]}; write the file again"
            ) from error
