"""Settings of operators as JSON and back. Only plain data has a form here: nothing that is read can name code.

A value that JSON has no form for becomes a dict with one key that starts with `$`. Functions are written by name and
looked up among those that the caller gives at loading.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError, UnknownFunctionError, WorkflowFileError
from rowmill.graph.selector import ColumnSelector
from rowmill.sources.types import polars_type, type_name

MAX_DEPTH = 64

# Of the expressions that Polars can write, those that only compute. Python functions, plug-ins and plans are not here.
_NODES = {
    "Column", "Columns", "Literal", "BinaryExpr", "Function", "Cast", "Alias", "Ternary", "Eval", "Filter", "Slice",
    "Gather", "SortBy", "Sort", "KeepName", "Field", "Element",
}  # fmt: skip
_FUNCTIONS = {
    "Boolean", "StringExpr", "ListExpr", "ArrayExpr", "TemporalExpr", "StructExpr", "Bitwise", "Trigonometry", "Pow",
    "Clip", "Round", "RoundSF", "FillNullWithStrategy", "Hash", "CategoricalExpr", "Range",
}  # fmt: skip


_INNER = {"expr", "left", "right", "predicate", "truthy", "falsy", "evaluation", "offset", "length", "idx", 0}
_SCALARS = {
    "Null", "Boolean", "String", "Binary", "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32",
    "UInt64", "Float32", "Float64", "Decimal", "Date", "Datetime", "Duration", "Time", "List",
}  # fmt: skip


@dataclass
class Tables:
    """The frames that settings and states hold, each in a file of its own, named by number."""

    frames: list[pl.DataFrame] = field(default_factory=list)

    def add(self, frame: pl.DataFrame) -> int:
        self.frames.append(frame)
        return len(self.frames) - 1


def encode(value: Any, tables: Tables, *, name: Callable[[Any], str]) -> Any:
    """A setting as JSON data; `name` gives the name that a function is saved under."""

    def inner(item: Any) -> Any:
        return encode(item, tables, name=name)

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
        return {"$columns": [inner(list(value.plain)), inner(list(value.subgroups)), list(value.tags)]}
    if isinstance(value, pl.Series):
        return {"$series": tables.add(value.alias("values").to_frame())}
    if isinstance(value, pl.DataFrame):
        return {"$frame": tables.add(value)}
    if isinstance(value, np.ndarray):
        return {"$array": tables.add(pl.DataFrame({"values": value.ravel()})), "shape": list(value.shape)}
    if isinstance(value, pl.Expr):
        return {"$expr": checked_expression(_written(value))}
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
        raise WorkflowFileError("settings are nested too deeply; this is no workflow that Rowmill wrote")
    if isinstance(value, list):
        return [inner(item) for item in value]
    if not isinstance(value, dict):
        return value
    special = [key for key in value if key.startswith("$")]
    if not special:
        return {key: inner(item) for key, item in value.items()}
    kind = special[0]
    held = value[kind]
    if kind not in _KINDS or set(value) - {kind, "shape"}:
        raise WorkflowFileError(f"unknown kind of value {kind!r}; this is no workflow that Rowmill wrote")
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
    if kind == "$series":
        return read(held).get_column("values")
    if kind == "$frame":
        return read(held)
    if kind == "$array":
        return read(held).get_column("values").to_numpy().reshape(value["shape"])
    if kind == "$dtype":
        return _text(held, 200)
    if kind == "$expr":
        return _expression(held)
    return _function(_text(held, 1000), functions)


_KINDS = {
    "$int", "$float", "$tuple", "$dict", "$columns", "$series", "$frame", "$array", "$dtype", "$expr", "$function",
}  # fmt: skip


def _function(name: str, functions: Mapping[str, Any]) -> Any:
    if name not in functions or not callable(functions[name]):
        raise UnknownFunctionError(
            f"the workflow uses a function saved as {name!r}, which was not given; pass it: "
            f"Workflow.load(path, functions={{{name!r}: ...}})"
        )
    return functions[name]


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise WorkflowFileError(f"found {str(value)[:40]!r} where a short text was wanted")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WorkflowFileError(f"found {type(value).__name__} where a list was wanted")
    return value


def _pairs(value: Any) -> list[Any]:
    if any(not isinstance(pair, list) or len(pair) != 2 for pair in _list(value)):
        raise WorkflowFileError("found something else where pairs of key and value were wanted")
    return _list(value)


def _written(expr: pl.Expr) -> Any:
    return json.loads(expr.meta.serialize(format="json"))


def _expression(data: Any) -> pl.Expr:
    """An expression, once it is clear that it only computes."""
    checked_expression(data)
    return pl.Expr.deserialize(StringIO(json.dumps(data)), format="json")


def checked_expression(data: Any) -> Any:
    """The JSON of an expression, refused unless each of its parts is known to be harmless."""
    _check_expression(data, 0)
    return data


def _check_expression(data: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise WorkflowFileError("an expression is nested too deeply")
    if isinstance(data, str):
        if data not in _NODES:
            raise _refused(data)
        return
    if not isinstance(data, dict) or len(data) != 1:
        raise _refused(type(data).__name__)
    ((node, parts),) = data.items()
    if node not in _NODES:
        raise _refused(node)
    if node in ("Column", "Columns", "Field", "Element"):
        return
    if node == "Literal":
        if not _is_plain(parts):
            raise _refused("a literal that is no plain value")
        return
    if node == "Function":
        name = parts.get("function") if isinstance(parts, dict) else None
        if isinstance(name, dict) and set(name) - _FUNCTIONS:
            raise _refused(str(sorted(set(name) - _FUNCTIONS)[0]))
        if not isinstance(name, str | dict):
            raise _refused("a function without a name")
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
        if key in ("input", "by") and isinstance(part, list):
            for item in part:
                _check_expression(item, depth + 1)
        elif key in _INNER:
            _check_expression(part, depth + 1)
        elif not _is_data(part):
            raise _refused(str(key))


def _is_plain(literal: Any) -> bool:
    """Whether it is a number, a text, a time or a list of them; no Python object, no table."""
    if not isinstance(literal, dict) or len(literal) != 1:
        return False
    ((kind, value),) = literal.items()
    return kind == "Dyn" or (kind == "Scalar" and isinstance(value, dict) and set(value) <= _SCALARS)


def _is_data(part: Any, depth: int = 0) -> bool:
    """Whether it holds options only: no list of bytes, which is how Polars writes a Python function."""
    if depth > 8:
        return False
    if isinstance(part, dict):
        return not set(part) & _CODE and all(_is_data(item, depth + 1) for item in part.values())
    if isinstance(part, list):
        return len(part) < 100 and all(_is_data(item, depth + 1) for item in part)
    return part is None or isinstance(part, str | bool | int | float)


_CODE = {
    "AnonymousFunction", "FfiPlugin", "PluginExpr", "SubPlan", "AnonymousAgg", "Python", "PythonUdf", "lib", "symbol",
}  # fmt: skip


def _refused(what: str) -> WorkflowFileError:
    return WorkflowFileError(
        f"an expression holds {what!r}, which a workflow can neither compare, save nor load safely; use LambdaOp with "
        f"a function that is given again at loading"
    )
