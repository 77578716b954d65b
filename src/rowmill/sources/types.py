"""Supported column types: Arrow and Polars types in, the short dtype names of `rowmill.schema` out, and back.

Every source describes its columns through `column_schema`; a dtype given by a user (`dtypes=`) comes back
through
`polars_type`. Dictionary encoding is storage, not meaning: a column is described by the type of its
values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.schema import ColumnSchema, Schema, dtype_name
from rowmill.sources.arrow_types import polars_types
from rowmill.sources.names import column

if TYPE_CHECKING:
    import pyarrow as pa

_SIMPLE: dict[str, pl.DataType] = {
    "int8": pl.Int8(),
    "int16": pl.Int16(),
    "int32": pl.Int32(),
    "int64": pl.Int64(),
    "int128": pl.Int128(),
    "uint8": pl.UInt8(),
    "uint16": pl.UInt16(),
    "uint32": pl.UInt32(),
    "uint64": pl.UInt64(),
    "float16": pl.Float16(),
    "float32": pl.Float32(),
    "float64": pl.Float64(),
    "bool": pl.Boolean(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "time": pl.Time(),
    "null": pl.Null(),
}
_NAMES = {dtype: name for name, dtype in _SIMPLE.items()}
_WIDTHS = {"bool": 1, "date": 4, "time": 8, "null": 1, "string": 32, "binary": 32}


def plain(dtype: pl.DataType) -> pl.DataType:
    """The type of a column's values: dictionary encodings (`Categorical`, `Enum`) are strings, inside lists too."""
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return pl.String()
    if isinstance(dtype, pl.List):
        return pl.List(plain(leaf_type(dtype)))
    if isinstance(dtype, pl.Array):
        return pl.Array(plain(leaf_type(dtype)), dtype.size)
    return dtype


def leaf_type(dtype: pl.List | pl.Array) -> pl.DataType:
    """The type of the items of a list."""
    inner = dtype.inner
    return inner if isinstance(inner, pl.DataType) else inner()


def type_name(dtype: pl.DataType) -> str:
    """The short name of a Polars type. Nested types are spelled out: `struct[a: int64]`, `list[list[int8]]`."""
    if dtype in _NAMES:
        return _NAMES[dtype]
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return "string"
    if isinstance(dtype, pl.Datetime):
        return f"datetime[{dtype.time_unit}, {dtype.time_zone}]" if dtype.time_zone else f"datetime[{dtype.time_unit}]"
    if isinstance(dtype, pl.Duration):
        return f"duration[{dtype.time_unit}]"
    if isinstance(dtype, pl.Decimal):
        return f"decimal[{dtype.precision},{dtype.scale}]"
    if isinstance(dtype, pl.List):
        return f"list[{type_name(leaf_type(dtype))}]"
    if isinstance(dtype, pl.Array):
        return f"list[{type_name(leaf_type(dtype))}, {dtype.size}]"
    if isinstance(dtype, pl.Struct):
        return "struct[" + ", ".join(f"{f.name}: {type_name(_instance(f.dtype))}" for f in dtype.fields) + "]"
    return str(dtype).lower()


def _instance(dtype: Any) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def column_schema(name: str, dtype: pl.DataType) -> ColumnSchema:
    """A column as the schema describes it: lists of numbers, flags and times by their leaves, the rest by name."""
    if isinstance(dtype, pl.List | pl.Array):
        leaf = leaf_type(dtype)
        if not leaf.is_nested() and leaf not in (pl.String, pl.Binary, pl.Categorical, pl.Enum):
            width = dtype.size if isinstance(dtype, pl.Array) else None
            return ColumnSchema(name, type_name(leaf), is_list=True, width=width)
    return ColumnSchema(name, type_name(dtype))


def schema_of(dtypes: dict[str, pl.DataType]) -> Schema:
    """The schema of columns with these Polars types."""
    return Schema(column_schema(name, dtype) for name, dtype in dtypes.items())


def polars_type(dtype: Any) -> pl.DataType:
    """The Polars type meant by a name (`"int32"`, `"datetime[us, UTC]"`, `"list[int64]"`), NumPy or Python type."""
    if isinstance(dtype, pl.DataType):
        return dtype
    if isinstance(dtype, type) and issubclass(dtype, pl.DataType):
        return dtype()
    name = dtype_name(dtype).strip()
    if name == "unknown":  # of a schema that has only names
        return pl.Null()
    name = {"category": "string", "datetime64[ns]": "datetime[ns]", "datetime64[us]": "datetime[us]"}.get(name, name)
    if name in _SIMPLE or name.lower() in _SIMPLE:  # pandas spells its nullable integers with a capital letter
        return _SIMPLE.get(name) or _SIMPLE[name.lower()]
    if match := re.fullmatch(r"datetime\[(ns|us|ms)(?:, *(.+))?\]", name):
        return pl.Datetime(match[1], match[2])  # type: ignore[arg-type]
    if match := re.fullmatch(r"duration\[(ns|us|ms)\]", name):
        return pl.Duration(match[1])  # type: ignore[arg-type]
    if match := re.fullmatch(r"decimal\[(\d+), *(\d+)\]", name):
        return pl.Decimal(int(match[1]), int(match[2]))
    if match := re.fullmatch(r"list\[(.+)\]", name):
        return pl.List(polars_type(match[1]))
    raise ArgumentError(f"unknown dtype {dtype!r}; wanted a name such as 'int32', 'float64', 'string', 'list[int64]'")


def frame_type(column: ColumnSchema) -> pl.DataType:
    """The Polars type of a column as a frame holds it, lists included."""
    leaf = polars_type(column.dtype)
    if not column.is_list:
        return leaf
    return pl.List(leaf) if column.width is None else pl.Array(leaf, column.width)


def arrow_types(schema: pa.Schema) -> dict[str, pl.DataType]:
    """The Polars types of an Arrow schema's columns, dictionaries decoded. No row is touched."""
    return {name: plain(dtype) for name, dtype in polars_types(schema).items()}


def value_bytes(dtype: pl.DataType) -> float:
    """About how many bytes one value takes in memory, when nothing but its type is known."""
    if isinstance(dtype, pl.Array):
        return dtype.size * value_bytes(leaf_type(dtype))
    if isinstance(dtype, pl.List):
        return 8 + 8 * value_bytes(leaf_type(dtype))
    if isinstance(dtype, pl.Struct):
        return sum(value_bytes(_instance(f.dtype)) for f in dtype.fields)
    if dtype.is_decimal():
        return 16
    name = type_name(dtype)
    bits = re.search(r"(8|16|32|64|128)$", name)
    return int(bits[1]) / 8 if bits else _WIDTHS.get(name, 8)


def conform(frame: pl.DataFrame, dtypes: dict[str, pl.DataType]) -> pl.DataFrame:
    """The frame with every column in the promised type; columns that have it already are not touched."""
    found = zip(frame.columns, frame.dtypes, strict=True)
    casts = [column(name).cast(dtypes[name]) for name, dtype in found if dtype != dtypes[name]]
    return frame.with_columns(casts) if casts else frame
