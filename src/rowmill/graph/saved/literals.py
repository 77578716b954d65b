"""Typed leaves of saved expressions: data types and constants, as JSON data of our own and back.

Saving reads them from what Polars writes of an expression of this process. Loading checks each of them and builds it
through Polars' public API. Every number and text has a bound.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta
from io import BytesIO
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from rowmill.errors import WorkflowFileError
from rowmill.sources.types import type_name

MAX_TEXT = 65_536
MAX_ITEMS = 100_000
MAX_WIDTH = 32_768  # items of a fixed-size list
SIMPLE: dict[str, pl.DataType] = {
    "int8": pl.Int8(), "int16": pl.Int16(), "int32": pl.Int32(), "int64": pl.Int64(), "int128": pl.Int128(),
    "uint8": pl.UInt8(), "uint16": pl.UInt16(), "uint32": pl.UInt32(), "uint64": pl.UInt64(),
    "float32": pl.Float32(), "float64": pl.Float64(), "bool": pl.Boolean(), "string": pl.String(),
    "binary": pl.Binary(), "date": pl.Date(), "time": pl.Time(), "null": pl.Null(), "categorical": pl.Categorical(),
}  # fmt: skip
_POLARS_NAMES = {str(dtype): name for name, dtype in SIMPLE.items() if name != "categorical"}
_UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms"}
_PER_MICROSECOND = {"us": 1, "ms": 1_000}
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+\-/]{0,63}")
_EPOCH = datetime(1970, 1, 1)


def refused(what: str) -> WorkflowFileError:
    """The error for a part of an expression that has no form in a saved workflow."""
    return WorkflowFileError(
        f"an expression holds {what[:200]}, which a saved workflow cannot hold; use LambdaOp with a named function, "
        f"and give that function again at loading: Workflow.load(path, functions={{...}})"
    )


def integer(value: Any, low: int, high: int, what: str) -> int:
    """A whole number within bounds."""
    if type(value) is not int or not low <= value <= high:
        raise refused(f"{str(value)[:40]!r} as {what} (allowed: {low} to {high})")
    return value


def text(value: Any, what: str, most: int = MAX_TEXT) -> str:
    """A text of bounded length that can be written as UTF-8."""
    if not isinstance(value, str) or len(value) > most or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise refused(f"{str(value)[:40]!r} as {what} (allowed: a text of at most {most} characters)")
    return value


def dtype_from_polars(data: Any) -> str:
    """Our name of a data type as Polars writes it."""
    if isinstance(data, str):
        if data not in _POLARS_NAMES:
            raise refused(f"the data type {data!r}")
        return _POLARS_NAMES[data]
    if isinstance(data, dict) and len(data) == 1:
        ((kind, held),) = data.items()
        if kind == "Datetime":
            zone = held[1]["inner"] if held[1] else None
            return f"datetime[{_UNITS[held[0]]}, {zone}]" if zone else f"datetime[{_UNITS[held[0]]}]"
        if kind == "Duration":
            return f"duration[{_UNITS[held]}]"
        if kind == "Decimal":
            return f"decimal[{held[0]},{held[1]}]"
        if kind == "List":
            return f"list[{dtype_from_polars(held)}]"
        if kind == "Array":
            return f"array[{dtype_from_polars(held[0])}, {held[1]}]"
        if kind == "Categorical" and held == {"name": "", "namespace": "", "physical": "U32"}:
            return "categorical"
    raise refused(f"the data type {str(data)[:80]}")


def dtype(name: Any, depth: int = 0) -> pl.DataType:
    """The data type of this name, from a closed list."""
    name = text(name, "a data type", 200)
    if name in SIMPLE:
        return SIMPLE[name]
    if match := re.fullmatch(r"datetime\[(ns|us|ms)(?:, (.+))?\]", name):
        if match[2] is None or _ZONE.fullmatch(match[2]):
            return pl.Datetime(match[1], match[2])  # type: ignore[arg-type]
    elif match := re.fullmatch(r"duration\[(ns|us|ms)\]", name):
        return pl.Duration(match[1])  # type: ignore[arg-type]
    elif match := re.fullmatch(r"decimal\[(\d{1,2}),(\d{1,2})\]", name):
        precision = integer(int(match[1]), 1, 38, "a decimal's precision")
        return pl.Decimal(precision, integer(int(match[2]), 0, precision, "a decimal's scale"))
    elif depth < 4 and (match := re.fullmatch(r"list\[(.+)\]", name)):
        return pl.List(dtype(match[1], depth + 1))
    elif depth < 1 and (match := re.fullmatch(r"array\[(.+), (\d{1,6})\]", name)):
        return pl.Array(dtype(match[1], depth + 1), integer(int(match[2]), 1, MAX_WIDTH, "the width of a list"))
    raise refused(f"the data type {name!r}")


def literal_from_polars(data: Any) -> dict[str, Any]:
    """A constant as Polars writes it, in our form. A float that JSON has no form for is `None` here (see `floats`)."""
    if isinstance(data, dict) and len(data) == 1:
        ((kind, held),) = data.items()
        if kind == "Dyn" and isinstance(held, dict) and len(held) == 1:
            ((sort, value),) = held.items()
            if sort in ("Int", "Float"):
                return {"literal": value, "dtype": sort.lower()}
        if kind == "Scalar" and isinstance(held, dict) and len(held) == 1:
            ((sort, value),) = held.items()
            return _scalar(sort, value)
        if kind == "Series":
            return {"series": _items(held)[0], "dtype": _items(held)[1]}
    raise refused(f"the constant {str(data)[:80]}")


def _scalar(sort: str, value: Any) -> dict[str, Any]:
    if sort == "Null":
        return {"literal": None, "dtype": dtype_from_polars(value)}
    if sort == "List":
        items, inner = _items(value)
        return {"list": items, "dtype": inner}
    if sort == "Binary":
        return {"literal": bytes(value).hex(), "dtype": "binary"}
    if sort == "Datetime":
        return {"literal": value[0], "dtype": dtype_from_polars({"Datetime": value[1:]})}
    if sort == "Duration":
        return {"literal": value[0], "dtype": dtype_from_polars({"Duration": value[1]})}
    return {"literal": value, "dtype": dtype_from_polars(sort)}


def _items(content: Any) -> tuple[list[Any], str]:
    """The items and their type of a list constant, which Polars writes as the bytes of an Arrow stream."""
    series = pl.read_ipc_stream(BytesIO(bytes(content))).to_series()
    name = type_name(series.dtype)
    if series.dtype.is_temporal():
        return series.to_physical().to_list(), name
    if series.dtype == pl.Binary:
        return [None if item is None else item.hex() for item in series.to_list()], name
    if series.dtype.is_nested() or name not in SIMPLE:
        raise refused(f"a list of {series.dtype}")
    return [written_float(item) if isinstance(item, float) else item for item in series.to_list()], name


def written_float(value: float) -> float | str:
    """A float as JSON data: NaN and infinities as texts."""
    return value if math.isfinite(value) else repr(value)


def literal(data: dict[str, Any]) -> pl.Expr:
    """The constant in our form as an expression."""
    kind = "list" if "list" in data else "series" if "series" in data else "literal"
    if set(data) != {kind, "dtype"}:
        raise refused(f"a constant with the keys {sorted(map(str, data))[:5]}")
    if kind == "literal":
        if data["dtype"] in ("int", "float"):
            wanted = "int128" if data["dtype"] == "int" else "float64"
            return pl.lit(_value(data["literal"], wanted, SIMPLE[wanted], optional=False))
        made = dtype(data["dtype"])
        return pl.lit(_value(data["literal"], data["dtype"], made), dtype=made)
    items, inner = data[kind], dtype(data["dtype"])
    if not isinstance(items, list) or len(items) > MAX_ITEMS or inner.is_nested() or inner == pl.Categorical:
        raise refused(f"a list of {inner!s} with more than {MAX_ITEMS} items, or of items that are no plain values")
    values = [_value(item, data["dtype"], inner) for item in items]
    series = pl.Series(values, dtype=inner)
    return pl.lit(series) if kind == "series" else pl.lit(series.to_list(), dtype=pl.List(inner))


def _value(value: Any, name: str, made: pl.DataType, *, optional: bool = True) -> Any:
    """A Python value of a type, checked."""
    if value is None and optional:
        return None
    if made.is_integer():
        bits, signed = int(re.sub(r"\D", "", name)), not name.startswith("u")
        low = -(1 << bits - 1) if signed else 0
        return integer(value, low, (1 << (bits - 1 if signed else bits)) - 1, f"a constant of type {name}")
    if made.is_float():
        if isinstance(value, str) and value in ("nan", "inf", "-inf"):
            return float(value)
        if type(value) in (int, float) and abs(value) <= 1.8e308:
            return float(value)
    elif made == pl.Boolean and isinstance(value, bool):
        return value
    elif made == pl.String:
        return text(value, "a constant")
    elif made == pl.Binary and re.fullmatch(r"(?:[0-9a-f]{2}){0,65536}", text(value, "a constant", 2 * MAX_TEXT)):
        return bytes.fromhex(value)
    elif made.is_temporal():
        return _moment(value, made)
    raise refused(f"{str(value)[:40]!r} as a constant of type {name}")


def _moment(value: Any, made: pl.DataType) -> Any:
    """A date, time, datetime or duration from the number that Polars keeps of it."""
    try:
        if made == pl.Date:
            return _EPOCH.date() + timedelta(days=integer(value, -719_162, 2_932_896, "a date"))
        if made == pl.Time:
            micros, rest = divmod(integer(value, 0, 86_400_000_000_000 - 1, "a time"), 1_000)
            if not rest:
                return (datetime.combine(date(2000, 1, 1), time()) + timedelta(microseconds=micros)).time()
        if isinstance(made, pl.Datetime | pl.Duration):
            number = integer(value, -(1 << 63), (1 << 63) - 1, "a moment")
            micros, rest = divmod(number, 1_000) if made.time_unit == "ns" else (number, 0)
            span = timedelta(microseconds=micros * _PER_MICROSECOND.get(made.time_unit, 1))
            if not rest and isinstance(made, pl.Duration):
                return span
            if not rest and isinstance(made, pl.Datetime):
                zone = made.time_zone
                return _EPOCH + span if zone is None else (_EPOCH + span).replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    except (OverflowError, ZoneInfoNotFoundError) as error:
        raise refused(f"{value!r} as a constant of type {made}") from error
    raise refused(f"{value!r} as a constant of type {made}")
