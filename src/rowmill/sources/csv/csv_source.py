"""CSV files as a source: units are files, natural fragments are pieces of about 64 thousand rows or 8 MB.

The columns and their types are found from the first rows when the dataset is opened; where rows begin is
found by one scan of the bytes, when rows are first counted or read. A file is never in memory whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rowmill.errors import DataFileError, unknown_column
from rowmill.schema import Schema
from rowmill.sources.csv.head import Head, read_head, unify_heads
from rowmill.sources.csv.options import csv_options
from rowmill.sources.files.fingerprint import of_values, stamp_pins
from rowmill.sources.files.hive import hive_columns, with_hive
from rowmill.sources.files.paths import Files
from rowmill.sources.lines.line_files import LineFiles
from rowmill.sources.lines.row_index import Piece, index_rows, without_blank
from rowmill.sources.locate import Rows, places
from rowmill.sources.missing_columns import check_columns
from rowmill.sources.names import columns as exactly
from rowmill.sources.null_texts import is_null_text, null_values_hint
from rowmill.sources.row_size import Widths
from rowmill.sources.source import Fragment
from rowmill.sources.types import schema_of
from rowmill.sources.wrap.cast import cast_expr, is_hex, target

_INFERRED_FILES = 8  # files whose first rows decide the types
_PARSED = (
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
    pl.Float32, pl.Float64, pl.String, pl.Boolean, pl.Date, pl.Datetime,
)  # fmt: skip


class CsvSource:
    """The rows of a list of CSV files with the same columns, in any order of columns."""

    def __init__(self, files: Files, *, dtypes: Mapping[str, Any] | None = None, **options: Any) -> None:
        self.files = files
        self.options = csv_options(options)
        self._lines = LineFiles(files, self._index)
        self._heads: list[Head] = [
            read_head(files, unit, self.options, infer=unit < _INFERRED_FILES) for unit in range(len(files.paths))
        ]
        inferred = unify_heads([(files.name(i), h) for i, h in enumerate(self._heads)], dtypes or {})
        self._given = dict(dtypes or {})
        for name in self._given:
            if name not in inferred:
                raise unknown_column("dtypes", name, inferred)
        self._hive = hive_columns(files, inferred)
        self._stored = {n: target(self._given[n]) if n in self._given else t for n, t in inferred.items()}
        # What the parser cannot make of text directly is read as text and cast afterwards.
        self._parsed = {
            n: t if isinstance(t, _PARSED) and not is_hex(self._given.get(n)) else pl.String()
            for n, t in self._stored.items()
        }
        self.dtypes = {**self._stored, **{name: values.dtype for name, values in self._hive.items()}}
        # pandas writes an index without a name as a first column without one.
        index = {"": self.dtypes[""]} if next(iter(self.dtypes)) == "" and len(self.dtypes) > 1 else {}
        self._schema = schema_of({name: dtype for name, dtype in self.dtypes.items() if name not in index})
        self.unlisted = schema_of(index)
        self._widths = Widths(self.dtypes)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._lines.fragments()

    def _index(self, file: Any, unit: int) -> list[Piece]:
        begin, name = self._heads[unit].begin, self.files.name(unit)
        return index_rows(file, begin, self.options.quote, len(self._stored) == 1, name)

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        check_columns(columns, self.dtypes, self.files.name(fragment.unit))
        stored = [c for c in columns if c in self._stored]
        if stored and fragment.rows:
            frame = self._parse(fragment, stored)
        else:
            frame = (
                pl.DataFrame(schema={c: self._stored[c] for c in stored})
                if stored
                else pl.DataFrame(height=fragment.rows)
            )
        return with_hive(frame, self._hive, fragment.unit, columns)

    def _parse(self, fragment: Fragment, stored: Sequence[str]) -> pl.DataFrame:
        data, pieces = self._lines.read(fragment)
        if any(piece.blank for piece in pieces):
            data = without_blank(data, self.options.quote)
        try:
            frame = (
                pl.scan_csv(
                    data,
                    has_header=False,
                    schema={n: self._parsed[n] for n in self._heads[fragment.unit].columns},
                    separator=self.options.separator_of(self.files.name(fragment.unit)),
                    quote_char=self.options.quote,
                    null_values=self.options.null_values,
                    missing_columns="insert",
                )
                .select(exactly(stored))
                .collect()
            )
            casts = [
                cast_expr(c, self._given[c])
                for c in stored
                if self._parsed[c] != self._stored[c] or is_hex(self._given.get(c))
            ]
            frame = frame.with_columns(casts) if casts else frame
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = str(error).splitlines()[0]
            value = re.search(r"could not parse `(.*)` as", reason)
            null = [value[1]] if value and is_null_text(value[1]) else []
            hint = f"{null_values_hint(null)} if that means null, or " if null else ""
            raise DataFileError(
                f"cannot parse {self.describe(fragment)}: {reason}; wanted what the first rows "
                f"look like; pass {hint}dtypes={{column: 'string'}} or another type that fits"
            ) from error
        rows = pieces[-1].start + pieces[-1].rows - pieces[0].start
        if frame.height != rows:
            raise DataFileError(
                f"found {frame.height} rows in {self.describe(fragment)}; wanted {rows}; "
                f"its quotes do not match: correct them, or pass quote_char=None where quotes mean nothing"
            )
        return frame.slice(fragment.start - pieces[0].start, fragment.rows)

    def describe(self, fragment: Fragment) -> str:
        return self._lines.describe(fragment)

    def file_keys(self) -> list[tuple[str, int, str]]:
        return self._lines.pins.keys()

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(self.files.name(unit), rows)

    def fingerprint(self) -> str:
        return of_values(self._lines.pins.fingerprint(), self._schema, self.options)

    def stamp(self) -> tuple[str, str]:
        return stamp_pins(self.files, self._lines.pins, self._schema, self.options)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._widths.of(columns, self)
