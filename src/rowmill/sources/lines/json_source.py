"""JSON lines as a source: files with one JSON object on each line. Units are files, fragments pieces of about 64
thousand rows or 8 MB.

Columns and types are found from the first rows when the dataset is opened, numbers exactly as they are written. Each
piece is read with types of its own, which have to agree with those, so a key or a kind of value that comes later is an
error and never lost.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from rowmill.errors import DataFileError, SchemaDriftError, os_reason
from rowmill.schema import Schema
from rowmill.sources.files.fingerprint import of_values, stamp_pins
from rowmill.sources.files.hive import hive_columns, with_hive
from rowmill.sources.files.paths import Files
from rowmill.sources.lines.line_files import LineFiles
from rowmill.sources.lines.row_index import Piece, index_rows
from rowmill.sources.locate import Rows, places
from rowmill.sources.missing_columns import check_columns
from rowmill.sources.names import column
from rowmill.sources.names import columns as exactly
from rowmill.sources.row_size import Widths
from rowmill.sources.schema_unification import widest
from rowmill.sources.source import Fragment
from rowmill.sources.types import schema_of, type_name
from rowmill.sources.wrap.cast import cast_expr, target

_INFERRED_FILES = 8  # files whose first rows decide the columns
_INFERRED_BYTES = 8 << 20
_READ_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, RecursionError)


class JsonSource:
    """The rows of a list of files of JSON lines. A key that a row lacks is null."""

    def __init__(self, files: Files, *, dtypes: Mapping[str, Any] | None = None) -> None:
        self.files = files
        self._lines = LineFiles(files, partial(_index, files))
        self._asked = dict(dtypes or {})
        self._given = {name: target(dtype) for name, dtype in self._asked.items()}
        stored = _inferred(
            [(files.name(n), self._first_types(n)) for n in range(min(_INFERRED_FILES, len(files.paths)))]
        )
        self._stored: dict[str, pl.DataType] = {**stored, **{n: t for n, t in self._given.items() if n not in stored}}
        self._hive = hive_columns(files, self._stored)
        shown = {name: self._given.get(name, dtype) for name, dtype in self._stored.items()}
        self.dtypes = {**shown, **{name: values.dtype for name, values in self._hive.items()}}
        self._schema = schema_of(self.dtypes)
        self._widths = Widths(self.dtypes)

    def _first_types(self, unit: int) -> dict[str, pl.DataType]:
        name = self.files.name(unit)
        try:
            with self.files.open(unit) as file:
                data: bytes = file.read(_INFERRED_BYTES)
                while len(data) % _INFERRED_BYTES == 0 and data and b"\n" not in data:
                    more = file.read(len(data))
                    if not more:
                        break
                    data += more
        except OSError as error:
            raise DataFileError(f"cannot read {name}: {os_reason(error)}; check that it is readable") from error
        whole = data if len(data) < _INFERRED_BYTES else data[: data.rfind(b"\n") + 1] or data
        return dict(self._parsed(whole, f"the first rows of {name}").schema)

    def _parsed(self, data: bytes, where: str) -> pl.DataFrame:
        if not data.strip():
            return pl.DataFrame()
        try:
            return pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
        except _READ_ERRORS as error:
            raise DataFileError(
                f"cannot parse {where}: {str(error).splitlines()[0]}; wanted a JSON object on each line, with values "
                f"of one kind for each key"
            ) from error

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def unlisted(self) -> Schema:
        return Schema()

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._lines.fragments()

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        check_columns(columns, self.dtypes, self.files.name(fragment.unit))
        stored = [name for name in columns if name in self._stored]
        if stored and fragment.rows:
            frame = self._decode(fragment, stored)
        else:
            frame = pl.DataFrame(schema={n: self.dtypes[n] for n in stored}) if stored else pl.DataFrame()
            frame = frame if stored else pl.DataFrame(height=fragment.rows)
        return with_hive(frame, self._hive, fragment.unit, columns)

    def _decode(self, fragment: Fragment, stored: Sequence[str]) -> pl.DataFrame:
        where = self.describe(fragment)
        data, pieces = self._lines.read(fragment)
        found = self._parsed(data, where)
        rows = pieces[-1].start + pieces[-1].rows - pieces[0].start
        if found.height != rows:
            raise DataFileError(f"found {found.height} rows in {where}; wanted {rows}: one JSON object on each line")
        self._check(found.schema, where)
        missing = [pl.lit(None, self._stored[name]).alias(name) for name in stored if name not in found.columns]
        frame = found.with_columns(missing).select(exactly(stored))
        try:
            frame = frame.with_columns(
                cast_expr(name, self._asked[name], frame.schema[name])
                if name in self._asked
                else column(name).cast(self._stored[name])
                for name in stored
            )
            return frame.slice(fragment.start - pieces[0].start, fragment.rows)
        except pl.exceptions.PolarsError as error:
            raise DataFileError(
                f"a value in {where} does not fit: {str(error).splitlines()[0]}; pass dtypes={{column: 'string'}} or "
                f"another type that fits"
            ) from error

    def _check(self, found: Mapping[str, pl.DataType], where: str) -> None:
        """Refuse keys and kinds of values that the first rows did not have."""
        for name, dtype in found.items():
            if name not in self._stored:
                raise SchemaDriftError(
                    f"{where} have a key {name!r}, which the first rows have not; name its type to read it: "
                    f"dtypes={{{name!r}: {type_name(dtype)!r}}}"
                )
            known = self._stored[name]
            if name not in self._given and widest(known, dtype) != known:
                raise SchemaDriftError(
                    f"column {name!r} is {type_name(dtype)} in {where}, and {type_name(known)} in the first rows; name "
                    f"its type: dtypes={{{name!r}: {_for_both(known, dtype)!r}}}"
                )

    def describe(self, fragment: Fragment) -> str:
        return self._lines.describe(fragment)

    def file_keys(self) -> list[tuple[str, int, str]]:
        return self._lines.pins.keys()

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(self.files.name(unit), rows)

    def fingerprint(self) -> str:
        return of_values(self._lines.pins.fingerprint(), self._schema)

    def stamp(self) -> tuple[str, str]:
        return stamp_pins(self.files, self._lines.pins, self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._widths.of(columns, self)


def _index(files: Files, file: Any, unit: int) -> list[Piece]:
    return index_rows(file, 0, None, keep_blank=False, name=files.name(unit))


def _inferred(tables: Sequence[tuple[str, Mapping[str, pl.DataType]]]) -> dict[str, pl.DataType]:
    """One type for each key of any file, in the order in which they are found; a key that is always null is text."""
    made: dict[str, pl.DataType] = {}
    for name, types in tables:
        for key, dtype in types.items():
            wide = widest(made.get(key, pl.Null()), dtype)
            if wide is None:
                raise SchemaDriftError(
                    f"column {key!r} is {type_name(dtype)} in the first rows of {name}, and {type_name(made[key])} in "
                    f"other files; name its type: dtypes={{{key!r}: {_for_both(made[key], dtype)!r}}}"
                )
            made[key] = wide
    return {key: pl.String() if dtype == pl.Null else dtype for key, dtype in made.items()}


def _for_both(one: pl.DataType, other: pl.DataType) -> str:
    """A type to suggest for values of both types."""
    wide = widest(one, other)
    if wide is None:
        wide = pl.Float64() if one.is_numeric() and other.is_numeric() else pl.String()
    return type_name(wide)
