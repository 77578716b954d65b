"""Which rows of a table are chosen: by a condition on their values, by a hash of their number or keys, or by number.

Conditions, shares and seeds come in; `RowChoice`s go out, for `sources.wrap.filtered`. A choice depends on a row's own
values and on its number in the table only, so it is the same for every row grouping, on every machine. Called by
`choose_rows`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill._dataset.moments import with_moments
from rowmill.errors import ArgumentError, NullError, RowmillError, missing_column
from rowmill.graph.saved.expressions import load_expression, save_expression
from rowmill.schema import Schema
from rowmill.sources.bounds import bounds_of
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.names import column, is_pattern
from rowmill.sources.source import Fragment, Source
from rowmill.statistics.values import hashes

# Functions whose result for a row depends on other rows, and one that depends on the version of Polars.
_OTHER_ROWS = frozenset({
    "all", "any", "cum_count", "cum_max", "cum_min", "cum_prod", "cum_sum", "diff", "drop_nans", "drop_nulls",
    "fill_null_by", "filter", "is_duplicated", "is_first_distinct", "is_last_distinct", "is_unique", "reverse", "shift",
    "slice", "sort", "unique", "hash",
})  # fmt: skip
_WITHIN_A_VALUE = ("list.eval", "list.agg", "arr.eval", "arr.agg")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "in": lambda a, b: a.is_in(list(b)), "not in": lambda a, b: ~a.is_in(list(b)),
}  # fmt: skip
_MOST_VALUES = 256  # of `is_in` that are compared with statistics
_TWO_64 = float(2**64)

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Condition:
    """Rows for which an expression is true. A null is not true."""

    data: Any  # the expression as `save_expression` writes it
    columns: tuple[str, ...]
    never_null: str | None = None  # a column that must not have nulls
    by_value = True

    def chosen(self, frame: pl.DataFrame, first: int) -> Mask:
        if self.never_null is not None and (nulls := frame.get_column(self.never_null).null_count()):
            name = self.never_null
            raise NullError(
                f"column {name!r} has {nulls} nulls in the {frame.height} rows from row {first} on, which are neither "
                f"before nor after; leave them out: dataset.filter(pl.col({name!r}).is_not_null())"
            )
        try:
            found = frame.lazy().select(load_expression(self.data).alias("chosen")).collect()["chosen"]
        except pl.exceptions.PolarsError as error:
            raise ArgumentError(f"cannot filter by this condition: {str(error).splitlines()[0]}") from error
        if found.dtype != pl.Boolean:
            raise ArgumentError(f"a condition gives {found.dtype}; wanted true or false, such as pl.col('x') > 3")
        found = found.fill_null(False)
        return np.asarray(found.new_from_index(0, frame.height) if len(found) != frame.height else found)

    def excluded(self, source: Source, fragments: Sequence[Fragment]) -> Mask:
        """By the bounds of row groups: where even the nearest value is on the wrong side."""
        known = bounds_of(source, fragments, self.columns) if fragments and self.never_null is None else {}
        test = _possible(self.data, {name: low.dtype for name, (low, _) in known.items()}) if known else None
        if test is None:
            return np.zeros(len(fragments), np.bool_)
        held = {f"{end}:{name}": series for name, pair in known.items() for end, series in zip("<>", pair, strict=True)}
        try:
            found = pl.DataFrame(held).lazy().select(test.alias("possible")).collect()["possible"]
        except pl.exceptions.PolarsError:  # what cannot be compared is said when rows are read
            return np.zeros(len(fragments), np.bool_)
        return ~np.asarray(found.fill_null(True), np.bool_)

    def fingerprint(self) -> str:
        return of_values("condition", self.data, self.never_null)


@dataclass(frozen=True)
class HashShare:
    """Rows whose hash lies in a share of all hashes: of their number in the table, or of their values in `columns`."""

    columns: tuple[str, ...]
    seed: int
    low: float
    high: float

    @property
    def by_value(self) -> bool:
        return bool(self.columns)

    def chosen(self, frame: pl.DataFrame, first: int) -> Mask:
        if self.columns:
            keys = [frame.get_column(name) for name in self.columns]
        else:
            keys = [pl.Series("row", np.arange(first, first + frame.height, dtype=np.int64))]
        found = hashes(keys, self.seed) if frame.height else np.empty(0, np.uint64)
        chosen = np.full(frame.height, self.low < 1)
        if 0 < self.low < 1:
            chosen &= found >= np.uint64(self.low * _TWO_64)
        if self.high < 1:
            chosen &= found < np.uint64(self.high * _TWO_64)
        return chosen

    def excluded(self, source: Source, fragments: Sequence[Fragment]) -> Mask:
        return np.zeros(len(fragments), np.bool_)

    def fingerprint(self) -> str:
        return of_values("hash", self.columns, self.seed, self.low, self.high)


@dataclass(frozen=True)
class Outside:
    """The rows that several other choices leave out."""

    others: tuple[HashShare, ...]

    @property
    def by_value(self) -> bool:
        return all(other.by_value for other in self.others)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for other in self.others for name in other.columns))

    def chosen(self, frame: pl.DataFrame, first: int) -> Mask:
        return ~reduce(operator.or_, (other.chosen(frame, first) for other in self.others))

    def excluded(self, source: Source, fragments: Sequence[Fragment]) -> Mask:
        return np.zeros(len(fragments), np.bool_)

    def fingerprint(self) -> str:
        return of_values("outside", [other.fingerprint() for other in self.others])


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """Rows by their number in the table, in ascending order."""

    rows: NDArray[np.int64]
    columns: tuple[str, ...] = ()
    by_value = False

    def chosen(self, frame: pl.DataFrame, first: int) -> Mask:
        chosen = np.zeros(frame.height, np.bool_)
        low, high = np.searchsorted(self.rows, (first, first + frame.height))
        chosen[self.rows[low:high] - first] = True
        return chosen

    def excluded(self, source: Source, fragments: Sequence[Fragment]) -> Mask:
        return np.zeros(len(fragments), np.bool_)

    def fingerprint(self) -> str:
        return of_values("rows", len(self.rows), hash_of(self.rows))


def hash_of(rows: NDArray[np.int64]) -> int:
    """One number that changes with any of these."""
    return int(hashes([pl.Series("row", rows)]).sum(dtype=np.uint64)) if len(rows) else 0


def condition(given: Any, schema: Schema) -> Condition:
    """A choice by an expression, several of them, or PyArrow's tuples."""
    expression = reduce(operator.and_, [_expression(one) for one in _listed(given)])
    if not isinstance(expression, pl.Expr):
        raise ArgumentError(f"a condition is {type(expression).__name__}; wanted an expression such as pl.col('x') > 3")
    try:
        data = save_expression(expression)
    except RowmillError as error:
        reason = str(error).partition(", which a saved workflow")[0]
        raise ArgumentError(
            f"cannot filter by this condition: {reason}, which cannot be told from another one in a later run; use "
            f"expressions of Polars without Python functions"
        ) from error
    return checked(with_moments(data, schema), schema)


def checked(data: Any, schema: Schema, never_null: str | None = None) -> Condition:
    """A condition that looks at columns of the table, and at one row at a time."""
    names = tuple(dict.fromkeys(_columns(data)))
    for name in names:
        if name not in schema:
            raise missing_column(name, "to filter by", schema.column_names)
    if other := next(_other_rows(data), None):
        raise ArgumentError(
            f"a condition uses {other!r}, which looks at other rows too, so it would depend on how the table is cut; "
            f"compute that first, and compare with the result"
        )
    return Condition(data, names, never_null)


def _listed(given: Any) -> list[Any]:
    """Conditions that all have to hold. PyArrow: a list of tuples, or a list of lists of them, one of which holds."""
    if not isinstance(given, list | tuple) or (
        isinstance(given, tuple) and len(given) == 3 and isinstance(given[0], str)
    ):
        return [given]
    if not given:
        raise ArgumentError("found no condition; wanted an expression such as pl.col('x') > 3")
    if isinstance(given, list) and all(isinstance(one, list) for one in given):
        return [reduce(operator.or_, [reduce(operator.and_, [_expression(one) for one in _listed(g)]) for g in given])]
    return list(given)


def _expression(given: Any) -> Any:
    if not (isinstance(given, tuple) and len(given) == 3 and isinstance(given[0], str)):
        return given
    name, sign, value = given
    if sign not in _OPERATORS:
        raise ArgumentError(f"unknown operator {sign!r} in {given!r}; wanted one of {', '.join(_OPERATORS)}")
    made: pl.Expr = _OPERATORS[sign](column(name), value)
    return made


def _columns(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        if "column" in data:
            yield data["column"]
        for value in data.values():
            yield from _columns(value)
    elif isinstance(data, list):
        for value in data:
            yield from _columns(value)


def _other_rows(data: Any) -> Iterator[str]:
    """The functions in an expression that look at other rows."""
    if isinstance(data, dict):
        name = data.get("call")
        if name in _OTHER_ROWS or str(name).startswith("aggregate."):
            yield str(name).removeprefix("aggregate.").lower()
        for key, value in data.items():
            if not (name in _WITHIN_A_VALUE and key != "of"):
                yield from _other_rows(value)
    elif isinstance(data, list):
        for value in data:
            yield from _other_rows(value)


def _possible(data: Any, known: dict[str, Any]) -> pl.Expr | None:
    """Whether a condition can hold for values between bounds, which stand in columns `<:name` and `>:name`; None: not
    known. NaN lies outside of the bounds of floats and is greater than all numbers."""
    name, of = data.get("call"), data.get("of", [])
    if name in ("&", "|"):
        found = [_possible(one, known) for one in of]
        if name == "|" and any(one is None for one in found):
            return None
        some = [one for one in found if one is not None]
        return reduce(operator.and_ if name == "&" else operator.or_, some) if some else None
    if name not in ("<", "<=", ">", ">=", "==", "is_between", "is_in") or len(of) < 2:
        return None
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    if "column" in of[1] and len(of) == 2:
        name, of = mirrored.get(name, name), [of[1], of[0]]
    if "column" not in of[0] or of[0]["column"] not in known or any("call" in one or "column" in one for one in of[1:]):
        return None
    held = of[0]["column"]
    if is_pattern(f"<:{held}") or (known[held].is_float() and name not in ("<", "<=")):
        return None
    low, high = pl.col(f"<:{held}"), pl.col(f">:{held}")
    if name == "is_in":
        values = of[1].get("list")
        if not isinstance(values, list) or len(values) > _MOST_VALUES or any(value is None for value in values):
            return None
        ones = [load_expression({"literal": value, "dtype": of[1]["dtype"]}) for value in values]
        return reduce(operator.or_, [(low <= one) & (high >= one) for one in ones]) if ones else pl.lit(False)
    least, greatest = load_expression(of[1]), load_expression(of[-1])
    tests = {"<": low < least, "<=": low <= least, ">": high > least, ">=": high >= least}
    return tests.get(name, (low <= greatest) & (high >= least))
