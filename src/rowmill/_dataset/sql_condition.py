"""Conditions in SQL, as commands are given them: a text in, an expression out that can be saved and compared.

Polars parses the text. What it makes of SQL's own operators has no public form, so these are written with those of
expressions: decimals become floats, `in` looks values up, and `%` has the sign of its left side, as in SQL.
"""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError, RowmillError
from rowmill.graph.saved.expressions import load_expression, translate

_OPERATORS = {
    "Gt": "Gt", "GtEq": "GtEq", "Lt": "Lt", "LtEq": "LtEq", "Eq": "Eq", "NotEq": "NotEq", "Plus": "Plus",
    "Minus": "Minus", "Mul": "Multiply", "Div": "TrueDivide",
}  # fmt: skip


def sql_condition(condition: str) -> pl.Expr:
    """The condition that a text says in SQL, such as `day >= '2024-01-31' and price > 3`."""
    try:
        parsed = pl.sql_expr(condition)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ArgumentError(f"cannot read the condition {condition!r}: {str(error).splitlines()[0]}") from error
    try:
        return load_expression(translate(_plain(json.loads(parsed.meta.serialize(format="json")))))
    except (RowmillError, LookupError, TypeError, ValueError) as error:
        reason = str(error).partition(", which a saved workflow")[0]
        raise ArgumentError(
            f"cannot use the condition {condition!r}: {reason}; use comparisons of columns and constants, and, or, "
            f"not, in, between, like, is null"
        ) from error


def _plain(node: Any) -> Any:
    """What Polars writes of an expression, without SQL's own operators."""
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    function = node.get("Function", {}).get("function") if isinstance(node.get("Function"), dict) else None
    if isinstance(function, dict) and isinstance(function.get("Sql"), dict):
        return _of_sql(function["Sql"], node["Function"]["input"])
    if set(node) == {"Decimal"}:
        value, _, scale = node["Decimal"]
        return {"Float64": float(Decimal(value).scaleb(-scale))}
    return {name: _plain(part) for name, part in node.items()}


def _of_sql(function: dict[str, Any], inputs: list[Any]) -> Any:
    (kind, how), parts = next(iter(function.items())), inputs
    if kind == "IsIn":
        values = pl.read_ipc_stream(BytesIO(bytes(parts[1]["Literal"]["Series"]))).to_series()
        values = values.explode() if isinstance(values.dtype, pl.List) else values
        values = values.cast(pl.Float64) if values.dtype.is_decimal() else values
        written = json.loads(pl.element().is_in(values.to_list()).meta.serialize(format="json"))["Function"]
        return {"Function": {"input": [_plain(parts[0]), written["input"][1]], "function": written["function"]}}
    left, right = map(_plain, parts)
    if kind == "Binary" and how == "Rem":
        sizes = [{"Function": {"input": [part], "function": "Abs"}} for part in (left, right)]
        rest = {"BinaryExpr": {"left": sizes[0], "op": "Modulus", "right": sizes[1]}}
        sign = {"Function": {"input": [left], "function": "Sign"}}
        return {"BinaryExpr": {"left": rest, "op": "Multiply", "right": sign}}
    if kind == "Binary" and how in _OPERATORS:
        return {"BinaryExpr": {"left": left, "op": _OPERATORS[how], "right": right}}
    raise ValueError(f"it has the operator {how!r}")
