"""Settings of operators as JSON and back. Only plain data has a form here: nothing that is read can name code.

A value that JSON has no form for becomes a dict with one key that starts with `$`. Functions are written by name and
looked up among those that the caller gives at loading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError, UnknownFunctionError, WorkflowFileError
from rowmill.graph.saved.expressions import load_expression, save_expression
from rowmill.graph.selector import ColumnSelector
from rowmill.sources.types import polars_type, type_name

MAX_DEPTH = 64


@dataclass
class Tables:
    """The frames that settings and states hold, each in a file of its own, named by number."""

    frames: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame) -> int:
        """The number of a frame, which is written once however often it is added."""
        known = next((number for number, held in enumerate(self.frames) if held is frame), None)
        if known is None:
            self.frames.append(frame)
        return len(self.frames) - 1 if known is None else known


def _saved(expr: pl.Expr) -> dict[str, Any]:
    return {"$expression": save_expression(expr)}


def encode(
    value: Any,
    tables: Tables,
    *,
    name: Callable[[Any], str],
    expression: Callable[[pl.Expr], dict[str, Any]] = _saved,
) -> Any:
    """A setting as JSON data. `name` gives the name that a function is saved under, `expression` what is written of an
    expression."""

    def inner(item: Any) -> Any:
        return encode(item, tables, name=name, expression=expression)

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, tuple):
        return {"$tuple": [inner(item) for item in value]}
    if isinstance(value, list | set | frozenset):
        return [inner(item) for item in (value if isinstance(value, list) else sorted(value))]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {str(key): inner(item) for key, item in value.items()}
        return {"$dict": [[inner(key), inner(item)] for key, item in value.items()]}
    if isinstance(value, ColumnSelector):
        return {"$columns": [inner(list(value.plain)), inner(list(value.groups)), [str(tag) for tag in value.tags]]}
    if isinstance(value, timedelta):
        return {"$duration": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, date):
        return {"$moment": value.isoformat()}
    if isinstance(value, pl.Series):
        return {"$series": tables.add(value.alias("values").to_frame())}
    if isinstance(value, pl.DataFrame):
        return {"$frame": tables.add(value)}
    if isinstance(value, np.ndarray):
        return {"$array": tables.add(pl.DataFrame({"values": value.ravel()})), "shape": list(value.shape)}
    if isinstance(value, pl.Expr):
        return expression(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, pl.DataType) or (isinstance(value, type) and not callable(getattr(value, "outputs", None))):
        return {"$dtype": type_name(polars_type(value))}
    if isinstance(value, np.dtype):
        return {"$dtype": value.name}
    if callable(value):
        return {"$function": name(value)}
    raise ArgumentError(f"cannot save a setting of type {type(value).__name__}: {value!r}; use plain values")


def decode(value: Any, read: Callable[[int], pl.DataFrame], functions: Mapping[str, Any], depth: int = 0) -> Any:
    """The setting that `encode` wrote. `read` gives a table by its number."""

    def inner(item: Any) -> Any:
        return decode(item, read, functions, depth + 1)

    if depth > MAX_DEPTH:
        raise WorkflowFileError(f"settings are nested more than {MAX_DEPTH} deep; save the workflow again")
    if isinstance(value, list):
        return [inner(item) for item in value]
    if not isinstance(value, dict):
        return value
    special = [key for key in value if key.startswith("$")]
    if not special:
        return {key: inner(item) for key, item in value.items()}
    kind = special[0]
    held = value[kind]
    if kind == "$expr":
        raise WorkflowFileError(
            "the workflow holds an expression in the format of Rowmill 0.1.0, which could run code and is not read any "
            "more; build the workflow again from its source, fit it, and save it with this version"
        )
    if kind not in _KINDS or set(value) - {kind} != ({"shape"} if kind == "$array" else set()):
        raise WorkflowFileError(f"unknown kind of value {kind[:40]!r}; save the workflow again")
    if kind == "$int":
        return int(_text(held, 400))
    if kind == "$float":
        return float(_text(held, 8))
    if kind == "$tuple":
        return tuple(inner(_list(held)))
    if kind == "$dict":
        return {inner(key): inner(item) for key, item in _pairs(held)}
    if kind == "$columns":
        plain, groups, tags = _list(held)
        return ColumnSelector([*inner(plain), *map(tuple, inner(groups))], tags=inner(tags))
    if kind == "$duration":
        return _duration(held)
    if kind == "$moment":
        return _moment(_text(held, 40))
    if kind == "$series":
        return read(held).get_column("values")
    if kind == "$frame":
        return read(held)
    if kind == "$array":
        return read(held).get_column("values").to_numpy().reshape(_shape(value["shape"]))
    if kind == "$dtype":
        return _text(held, 200)
    if kind == "$expression":
        return load_expression(held)
    return _function(_text(held, 1000), functions)


_KINDS = {
    "$int", "$float", "$tuple", "$dict", "$columns", "$series", "$frame", "$array", "$dtype", "$expression",
    "$function", "$duration", "$moment",
}  # fmt: skip


def _function(name: str, functions: Mapping[str, Any]) -> Any:
    if name not in functions or not callable(functions[name]):
        raise UnknownFunctionError(
            f"the workflow uses a function saved as {name!r}, which was not given; pass it: "
            f"Workflow.load(path, functions={{{name!r}: ...}})"
        )
    return functions[name]


def _duration(given: Any) -> timedelta:
    parts = _list(given)
    if len(parts) != 3 or any(type(part) is not int or abs(part) >= 10**9 for part in parts):
        raise WorkflowFileError(f"found {str(given)[:40]!r} where a duration was wanted")
    return timedelta(*parts)


def _moment(text: str) -> date:
    """A date, or a date and time."""
    try:
        return date.fromisoformat(text) if len(text) == len("2024-01-31") else datetime.fromisoformat(text)
    except ValueError as error:
        raise WorkflowFileError(f"found {text!r} where a date or time was wanted") from error


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise WorkflowFileError(f"found {str(value)[:40]!r} where a short text was wanted")
    return value


def _shape(value: Any) -> list[int]:
    if len(_list(value)) > 8 or any(type(size) is not int or size < 0 for size in value):
        raise WorkflowFileError(f"found {str(value)[:40]!r} where the shape of an array was wanted")
    return _list(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WorkflowFileError(f"found {type(value).__name__} where a list was wanted")
    return value


def _pairs(value: Any) -> list[Any]:
    if any(not isinstance(pair, list) or len(pair) != 2 for pair in _list(value)):
        raise WorkflowFileError("found something else where pairs of key and value were wanted")
    return _list(value)
