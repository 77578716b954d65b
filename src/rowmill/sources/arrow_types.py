"""Arrow types that Polars does not read exactly: converted where that is exact, refused by column and type elsewhere.

Given such a type, Polars panics, raises errors of its own, or delivers other values (`decimal32` from a stream). So a
table in memory is checked and converted here before Polars sees it, and so is the schema of a file. Called by `types`
and `frames`.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

from rowmill.errors import ArgumentError, DtypeError

_FAILURES = (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError)
_WIDEST_DECIMAL = 38  # digits
FINE, FILES_ONLY, NO_COLUMN, NO_FILE = range(4)


class Unreadable(pl.DataType):
    """The type of a column that a file has and that cannot be read; the file's other columns can."""

    def __init__(self, arrow: str) -> None:
        self.arrow = arrow

    def __str__(self) -> str:
        return self.arrow


def refusal(name: str, kind: object) -> DtypeError:
    """The error for a column whose type cannot be read exactly."""
    return DtypeError(
        f"column {name!r} has the Arrow type {kind}, which cannot be read exactly; leave the column out, or convert it "
        f"before, for example to int64, float64 or string"
    )


def trouble(kind: pa.DataType) -> int:
    """What Polars does with a type: reads it (0), reads it from files only, cannot read the column, or the file."""
    types: Any = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return trouble(kind.storage_type)
    if types.is_dictionary(kind):
        return trouble(kind.value_type)
    if types.is_decimal(kind):
        if kind.scale < 0:
            return NO_FILE
        return NO_COLUMN if kind.precision > _WIDEST_DECIMAL else FILES_ONLY if kind.bit_width < 128 else FINE
    if types.is_fixed_size_binary(kind) and kind.byte_width == 0:
        return NO_COLUMN
    if types.is_timestamp(kind):
        return FINE if _knows_zone(kind.tz) else NO_FILE
    odd = (types.is_interval, types.is_union, types.is_run_end_encoded, types.is_list_view, types.is_large_list_view)
    if any(is_odd(kind) for is_odd in odd):
        return NO_FILE
    empty = types.is_fixed_size_list(kind) and kind.list_size == 0
    return max([NO_COLUMN if empty else FINE, *(trouble(kind.field(i).type) for i in range(kind.num_fields))])


# Without asking Polars, which loads pyarrow.compute to answer: a tenth of a second that most tables need not wait for.
_PLAIN: dict[Any, pl.DataType] = {
    pa.int8(): pl.Int8(), pa.int16(): pl.Int16(), pa.int32(): pl.Int32(), pa.int64(): pl.Int64(),
    pa.uint8(): pl.UInt8(), pa.uint16(): pl.UInt16(), pa.uint32(): pl.UInt32(), pa.uint64(): pl.UInt64(),
    pa.float32(): pl.Float32(), pa.float64(): pl.Float64(), pa.bool_(): pl.Boolean(), pa.string(): pl.String(),
    pa.large_string(): pl.String(), pa.date32(): pl.Date(),
}  # fmt: skip


def polars_types(schema: pa.Schema) -> dict[str, pl.DataType]:
    """The Polars types of a file's columns. Raises `DtypeError` for one that keeps Polars from reading any of them."""
    found: dict[str, pl.DataType] = {}
    for field in schema:
        kind = field.type
        if kind in _PLAIN:
            found[field.name] = _PLAIN[kind]
            continue
        found_trouble = trouble(kind)
        if found_trouble <= FILES_ONLY:
            try:
                found[field.name] = _series(field.name, pa.chunked_array([], kind)).dtype
            except _FAILURES as error:
                raise refusal(field.name, kind) from error
        elif found_trouble == NO_FILE:
            raise refusal(field.name, kind)
        else:
            found[field.name] = Unreadable(str(kind))
    return found


def as_polars(table: pa.Table) -> pl.DataFrame:
    """A table in memory as a frame with the same names and values. Raises `DtypeError` where that cannot be."""
    names = table.column_names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentError(f"two columns are named {twice!r}; names must be unique; rename one")
    if not names:
        return pl.DataFrame(height=table.num_rows)
    return pl.DataFrame({name: _column(name, column) for name, column in zip(names, table.columns, strict=True)})


def _column(name: str, values: pa.ChunkedArray) -> pl.Series:
    try:
        return _series(name, _converted(values))
    except DtypeError as error:
        raise refusal(name, values.type) from error
    except _FAILURES as error:
        raise refusal(name, values.type) from error


def _converted(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of an Arrow column in a type that Polars reads; raises an Arrow error if one does not fit."""
    types: Any = pa.types
    kind = values.type
    if types.is_run_end_encoded(kind):
        import pyarrow.compute as pc  # slow to load

        chunks = [pc.run_end_decode(chunk) for chunk in values.chunks]
        return _converted(pa.chunked_array(chunks, kind.value_type))
    if types.is_decimal(kind) and not types.is_decimal256(kind) and kind.scale >= 0:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    if types.is_timestamp(kind):
        zone = kind.tz if _knows_zone(kind.tz) else "UTC"  # another name for the same moments
        return values.cast(pa.timestamp("ms" if kind.unit == "s" else kind.unit, zone))
    if types.is_duration(kind) and kind.unit == "s":
        return values.cast(pa.duration("ms"))  # as Polars does, but a value that is too large is an error
    if trouble(kind) != FINE:
        raise DtypeError(str(kind))
    return values


def _series(name: str, values: pa.ChunkedArray) -> pl.Series:
    made = pl.from_arrow(values)
    assert isinstance(made, pl.Series)
    return made.alias(name)


def _knows_zone(zone: str | None) -> bool:
    if zone is None:
        return True
    try:
        pl.Series([], dtype=pl.Datetime("us", zone)).dt.convert_time_zone(zone)
    except _FAILURES:
        return False
    return True
