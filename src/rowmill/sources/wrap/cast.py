"""`dtypes=` of a dataset: a source in, the same source with some columns read as other types out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from rowmill.errors import DataFileError, unknown_column
from rowmill.schema import Schema
from rowmill.sources.bounds import Bounds, bounds_of
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.frames.pandas_index import unlisted_schema
from rowmill.sources.locate import Rows, locate
from rowmill.sources.names import column
from rowmill.sources.null_columns import CountsNulls
from rowmill.sources.source import Fragment, Source, read_slices
from rowmill.sources.types import column_schema, frame_type, polars_type


class RecastSource:
    """Another source, with columns cast while they are read. `columns`: those to list, by default all it lists."""

    def __init__(self, source: Source, dtypes: Mapping[str, Any], columns: Sequence[str] | None = None) -> None:
        known = source.schema + unlisted_schema(source)
        for name in dtypes:
            if name not in known:
                raise unknown_column("dtypes", name, known.column_names)
        self._source = source
        self.files = getattr(source, "files", None)
        self._casts = {name: cast_expr(name, dtype, frame_type(known[name])) for name, dtype in dtypes.items()}
        new = {name: column_schema(name, target(dtype)) for name, dtype in dtypes.items()}
        names = source.schema.column_names if columns is None else columns
        self._schema = Schema(new.get(name, known[name]) for name in names)
        self.unlisted = Schema(new.get(c.name, c) for c in unlisted_schema(source) if c.name not in self._schema)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._source.fragments

    @property
    def same_rows_as(self) -> Source | None:
        """The other source, which has the rows in the types they are stored in."""
        return self._source

    @property
    def same_fragments_as(self) -> Source:
        """The other source, which has the same rows in the same fragments."""
        return self._source

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        return self._cast(self._source.read(fragment, columns), fragment)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        return (self._cast(part, fragment) for part in read_slices(self._source, fragment, columns, max_bytes))

    def _cast(self, frame: pl.DataFrame, fragment: Fragment) -> pl.DataFrame:
        casts = [self._casts[c] for c in frame.columns if c in self._casts]
        try:
            return frame.with_columns(casts) if casts else frame
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise DataFileError(
                f"a value in {self.describe(fragment)} does not fit: {reason}; wanted what dtypes= "
                f"says; pass a wider type"
            ) from error

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        """A cast makes no null of a value, and no value of a null."""
        return self._source.known_nulls(columns) if isinstance(self._source, CountsNulls) else {}

    def bounds(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
        """What the other source knows of columns that are not cast."""
        return bounds_of(self._source, fragments, [name for name in columns if name not in self._casts])

    def describe(self, fragment: Fragment) -> str:
        return self._source.describe(fragment)

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return locate(self._source, unit, rows)

    def fingerprint(self) -> str:
        return of_values(self._source.fingerprint(), self._schema)

    def stamp(self) -> tuple[str, str]:
        where, state = self._source.stamp()
        return where, of_values(state, self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._source.row_bytes(columns)


def target(dtype: Any) -> pl.DataType:
    """The type a `dtypes=` entry leads to; any name with "hex" in it leads to an integer."""
    if is_hex(dtype):
        return pl.Int32() if "32" in dtype else pl.Int64()
    return polars_type(dtype)


def is_hex(dtype: Any) -> bool:
    """Whether a `dtypes=` entry asks for hexadecimal digits to be read."""
    return isinstance(dtype, str) and "hex" in dtype


def cast_expr(name: str, dtype: Any, found: pl.DataType | None = None) -> pl.Expr:
    """The expression that turns a column into that type. Hexadecimal digits above the type's range wrap around.

    `found`: the type that it has, where that is known: text becomes dates and times in ISO form.

    Eight digits in "hex32" and sixteen in "hex" fill the integer bit by bit, so the top half comes out
    negative.
    """
    if not is_hex(dtype):
        wanted = target(dtype)
        if found == pl.String and isinstance(wanted, pl.Date):
            return column(name).str.to_date()
        if found == pl.String and isinstance(wanted, pl.Datetime):
            return column(name).str.to_datetime(time_unit=wanted.time_unit, time_zone=wanted.time_zone)
        return column(name).cast(wanted)
    text = column(name).cast(pl.String).str.strip_prefix("0x")
    if "32" in dtype:
        return text.str.to_integer(base=16, dtype=pl.Int64).cast(pl.UInt32).reinterpret(signed=True).alias(name)
    return text.str.to_integer(base=16, dtype=pl.UInt64).reinterpret(signed=True).alias(name)
