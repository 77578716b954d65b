"""Polars expressions as JSON data of our own and back. What is loaded is built through Polars' public API only.

Polars' own format can hold pickled functions, so a file's content is never handed to `Expr.deserialize`. To save an
expression, what Polars writes of it is translated node by node through a closed table; the result is built again and
compared with the original, so that an expression is saved exactly or refused. To load one, every node is looked up in
the same table, and every constant has a type and a bound.
"""

from __future__ import annotations

import json
from itertools import product
from operator import attrgetter
from typing import Any

import polars as pl
from polars import selectors

from rowmill.errors import WorkflowFileError
from rowmill.graph.saved.expression_table import AGGREGATES, BY_OPERATOR, BY_PATH, TABLE, Function
from rowmill.graph.saved.literals import dtype_from_polars, literal, literal_from_polars, refused, text
from rowmill.sources.names import column, is_pattern

MAX_DEPTH = 100
MAX_NODES = 10_000
MAX_EVALUATIONS = 8  # of list.eval and its kin, one inside or after another
_PER_ELEMENT = ("list.eval", "list.agg", "arr.eval", "arr.agg")
MAX_COLUMNS = 1_000
NOMINAL = 16  # bytes of a value that comes in
MAX_GROWTH = 16_384  # how many times as large as a nominal value one may become: 256 KB
_UNKNOWN_FLOATS = 4  # NaN and infinities in one expression: JSON has one form for all three, so each is tried


def save_expression(expr: pl.Expr) -> dict[str, Any]:
    """The expression as JSON data, once it is certain that exactly this expression is built from it."""
    try:
        written = json.loads(expr.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError, RecursionError) as error:
        raise refused(f"something that Polars cannot write ({str(error)[:80]})") from error
    unknown: list[dict[str, Any]] = []
    try:
        data = _translated(written, unknown, 0)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, WorkflowFileError):
            raise
        raise refused(f"a part of unknown form ({str(error)[:80]})") from error
    if len(unknown) > _UNKNOWN_FLOATS:
        raise refused(f"more than {_UNKNOWN_FLOATS} constants that are NaN or infinite")
    for values in product(("nan", "inf", "-inf"), repeat=len(unknown)):
        for entry, value in zip(unknown, values, strict=True):
            entry["literal"] = value
        made = load_expression(data)
        same = _comparable(json.loads(made.meta.serialize(format="json"))) == _comparable(written)
        if same and (not unknown or made.meta.serialize() == expr.meta.serialize()):
            return data
    raise refused(f"{str(expr)[:80]}, which cannot be built again exactly")


def translate(written: Any) -> dict[str, Any]:
    """Our data for an expression as Polars writes it in JSON, in this process."""
    return _translated(written, [], 0)


def load_expression(data: Any) -> pl.Expr:
    """The expression that `save_expression` wrote, from data that may come from anybody."""
    return _Builder().built(data, 0)[0]


def growth(data: Any) -> float:
    """How many times as large as what goes in a value of the expression may become."""
    return max(1.0, _Builder().built(data, 0)[1] / NOMINAL)


class _Builder:
    """Builds one expression, and counts its nodes and the bytes that a value of it may take."""

    def __init__(self) -> None:
        self._nodes = 0
        self._evaluations = 0

    def built(self, data: Any, depth: int) -> tuple[pl.Expr, float]:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise refused(f"more than {MAX_DEPTH} levels or {MAX_NODES} parts")
        if not isinstance(data, dict):
            raise refused(f"{str(data)[:40]!r} in the place of an expression")
        if "call" in data:
            expr, size = self._called(data, depth)
        elif set(data) == {"column"}:
            expr, size = column(text(data["column"], "the name of a column")), NOMINAL
        elif set(data) == {"columns"} and isinstance(data["columns"], list) and 0 < len(data["columns"]) <= MAX_COLUMNS:
            names = [text(name, "the name of a column") for name in data["columns"]]
            expr, size = selectors.by_name(*names).as_expr(), NOMINAL
        elif set(data) == {"element"} and data["element"] is True:
            expr, size = pl.element(), NOMINAL
        else:
            expr, size = literal(data), len(str(next(iter(data.values()))))
        if size > NOMINAL * MAX_GROWTH:
            raise refused(f"a part whose values may take more than {NOMINAL * MAX_GROWTH} bytes each")
        return expr, size

    def _called(self, data: dict[str, Any], depth: int) -> tuple[pl.Expr, float]:
        name, parts = data["call"], data.get("of")
        if not isinstance(name, str) or name not in TABLE:
            raise refused(f"a call of {str(name)[:40]!r}")
        function = TABLE[name]
        self._evaluations += name in _PER_ELEMENT
        if self._evaluations > MAX_EVALUATIONS:
            raise refused(f"more than {MAX_EVALUATIONS} evaluations of lists")
        ours = {key for key, _ in function.options.values()}
        if set(data) - {"call", "of"} != ours:
            raise refused(f"{name} with the options {sorted(map(str, set(data) - {'call', 'of'}))[:8]}")
        if not isinstance(parts, list) or not function.inputs[0] <= len(parts) <= function.inputs[1]:
            raise refused(f"{name} with other inputs than it takes")
        options = {key: check(data[key]) for key, check in function.options.values()}
        constants = [self._constant(part, function, place) for place, part in enumerate(parts)]
        inputs, size = [], 0.0
        for place, part in enumerate(parts):
            made, bytes_of = self.built(part, depth + 1)
            inputs.append(made)
            listed = name == "is_in" and place == 1  # looked up, not repeated in every row
            inner = name in _PER_ELEMENT and place == 1
            size = size * bytes_of / NOMINAL if inner else size + (0 if listed else bytes_of)
        texts = sum(len(each.encode()) for each in options.values() if isinstance(each, str))  # a separator, a format
        size += texts * len(parts)
        size = max(size, NOMINAL) * (1.0 if function.grows is None else function.grows(constants, options))
        return _call(name, function, inputs, options), size

    def _constant(self, part: Any, function: Function, place: int) -> Any:
        """The value of an input that must be a constant, checked; None for any other input."""
        if place not in function.constants:
            return None
        if not isinstance(part, dict) or set(part) != {"literal", "dtype"}:
            raise refused("an expression where a constant is needed")
        return function.constants[place](part["literal"])


def _call(name: str, function: Function, inputs: list[pl.Expr], options: dict[str, Any]) -> pl.Expr:
    if function.build is not None:
        return function.build(*inputs, **options)
    made: pl.Expr = attrgetter(name)(inputs[0])(*inputs[1:], **options)  # a name of our own table
    return made


def _translated(node: Any, unknown: list[dict[str, Any]], depth: int) -> dict[str, Any]:
    """A node as Polars writes it, in our form. Floats that JSON has no form for are added to `unknown`."""
    if depth > MAX_DEPTH:
        raise refused(f"more than {MAX_DEPTH} levels")
    if node == "Element":
        return {"element": True}
    if not isinstance(node, dict) or len(node) != 1:
        raise refused(str(node)[:80])
    ((kind, held),) = node.items()
    if kind == "Column":
        return {"column": held}
    if kind == "Selector" and list(held) == ["ByName"] and held["ByName"]["strict"] is True:
        names = held["ByName"]["names"]
        return {"column": names[0]} if len(names) == 1 and is_pattern(names[0]) else {"columns": names}
    if kind == "Literal":
        made = literal_from_polars(held)
        if made.get("literal", 0) is None and "Null" not in str(held)[:30]:
            unknown.append(made)
        return made
    name, parts, options = _node(kind, held)
    return {"call": name, "of": [_translated(part, unknown, depth + 1) for part in parts], **options}


def _node(kind: str, held: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """Our name of a node, its inputs, and its options."""
    if kind == "Function":
        name, given = _function(held["function"])
        options = TABLE[name].options
        if set(given) != set(options):
            raise refused(f"{name} with the options {sorted(given)}")
        return name, held["input"], {options[key][0]: value for key, value in given.items()}
    if kind == "BinaryExpr" and held["op"] in BY_OPERATOR:
        return BY_OPERATOR[held["op"]], [held["left"], held["right"]], {}
    if kind == "Cast" and list(held["dtype"]) == ["Literal"]:
        return "cast", [held["expr"]], {"dtype": dtype_from_polars(held["dtype"]["Literal"]), "mode": held["options"]}
    if kind == "Alias":
        return "alias", held[:1], {"name": held[1]}
    if kind == "KeepName":
        return "name.keep", [held], {}
    if kind == "Ternary":
        return "when", [held["predicate"], held["truthy"], held["falsy"]], {}
    if kind == "Eval" and json.dumps(held["variant"]) in _EVALUATIONS:
        return _EVALUATIONS[json.dumps(held["variant"])], [held["expr"], held["evaluation"]], {}
    if kind == "Filter":
        return "filter", [held["input"], held["by"]], {}
    if kind == "Slice":
        return "slice", [held["input"], held["offset"], held["length"]], {}
    if kind == "Sort":
        return "sort", [held["expr"]], {key: held["options"][key] for key in ("descending", "nulls_last")}
    if kind == "Agg" and len(held) == 1 and set(held) <= AGGREGATES:
        return f"aggregate.{next(iter(held))}", list(held.values()), {}
    raise refused(repr(kind))


_EVALUATIONS = {
    '"List"': "list.eval",
    '"ListAgg"': "list.agg",
    '{"Array": {"as_list": false}}': "arr.eval",
    '"ArrayAgg"': "arr.agg",
}


def _function(held: Any) -> tuple[str, dict[str, Any]]:
    """Our name of a function as Polars writes it (`"Abs"`, `{"StringExpr": {"Contains": {...}}}`), and its options."""
    path: list[str] = []
    while isinstance(held, dict) and len(held) == 1 and ".".join(path) not in BY_PATH:
        ((part, held),) = held.items()
        path.append(part)
    if isinstance(held, str) and ".".join((*path, held)) in BY_PATH:
        path, held = [*path, held], {}
    name = ".".join(path)
    if name not in BY_PATH:
        raise refused(repr(name or str(held)[:80]))
    options = TABLE[BY_PATH[name]].options
    if "" in options:
        return BY_PATH[name], {"": held}
    if isinstance(held, list) and "0" in options:  # a pair; of Strptime: a type, and how to parse
        first = dtype_from_polars(held[0]["Literal"]) if name == "StringExpr.Strptime" else held[0]
        return BY_PATH[name], {"0": first, "1": held[1]}
    return BY_PATH[name], held if isinstance(held, dict) else {"?": held}


def _comparable(node: Any) -> Any:
    """What Polars writes, with list constants by their values: their bytes also say whether the list is sorted."""
    if isinstance(node, list):
        return [_comparable(item) for item in node]
    if not isinstance(node, dict):
        return node
    for key in ("List", "Series"):
        if list(node) == [key] and isinstance(node[key], list):
            return literal_from_polars({"Scalar": node} if key == "List" else node)
    return {key: _comparable(item) for key, item in node.items()}
