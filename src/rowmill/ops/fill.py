"""Nulls to values: FillMissing, FillMedian."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.operator import Fitted, Inputs, Operator, Output, StatOperator, by_leaf, numeric
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.types import frame_type
from rowmill.statistics.median import Median, Sketch


@dataclass(frozen=True)
class FillMissing(Operator):
    """Nulls and NaN become `fill_val`. `add_binary_cols`: a column `{name}_filled` says where."""

    fill_val: Any = 0
    add_binary_cols: bool = False

    @property
    def growth(self) -> float:
        return max(1.0, len(self.fill_val) / 16) if isinstance(self.fill_val, str | bytes) else 1.0

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        fills: dict[tuple[str, bool], pl.Expr] = {}  # one for each type: a table may have very many columns
        for column in inputs.schema:
            kind = (column.dtype, column.is_list)
            if kind not in fills:
                fills[kind] = _fitting(self.fill_val, column)
            yield Output(column, _filled(column, inputs[column.name], fills[kind]))
        if self.add_binary_cols:
            yield from _flags(inputs)


@dataclass(frozen=True)
class FillMedian(StatOperator):
    """Nulls and NaN become the column's median: exact for up to a million different values, else to 1 in 65,536."""

    add_binary_cols: bool = False

    def statistics(self, inputs: Inputs) -> Mapping[str, Median]:
        return {numeric(column, self).name: Median(column.name) for column in inputs.schema}

    def learn(self, results: Mapping[str, Sketch], inputs: Inputs) -> Fitted:
        found = {name: sketch.middle for name, sketch in results.items()}
        return Fitted({"medians": {name: 0.0 if median is None else median for name, median in found.items()}})

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        for column in inputs.schema:
            value, made = inputs[column.name], numeric(column, self)
            if fitted is not None:
                median = fitted.values["medians"][column.name]
                whole = column.dtype.startswith(("int", "uint")) or column.dtype == "bool"
                value = _filled(column, value, _fitting(round(median) if whole else median, column))
            yield Output(made, value)
        if self.add_binary_cols:
            yield from _flags(inputs)

    @property
    def medians(self) -> dict[str, float]:
        return dict(self.learnt.values["medians"])


def _fitting(fill: Any, column: ColumnSchema) -> pl.Expr:
    """The value in the column's own type, so that filling never changes it."""
    leaf = frame_type(column if not column.is_list else ColumnSchema(column.name, column.dtype))
    if column.dtype == "unknown":
        return pl.lit(fill)
    try:
        if leaf.is_integer() and isinstance(fill, float) and not fill.is_integer():
            raise ArgumentError("not whole")
        if not leaf.is_numeric() and leaf != pl.Boolean and isinstance(fill, bool | int | float):
            raise ArgumentError("a number is no text, and no time")
        return pl.lit(pl.Series([fill]).cast(leaf, strict=True).item(), dtype=leaf)
    except (ArgumentError, pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise ArgumentError(
            f"cannot fill column {column.name!r}, which is {column.dtype}, with {fill!r}; give a value of that type"
        ) from error


def _filled(column: ColumnSchema, value: pl.Expr, fill: pl.Expr) -> pl.Expr:
    def change(x: pl.Expr) -> pl.Expr:
        return (x.fill_nan(None) if column.dtype.startswith("float") else x).fill_null(fill)

    return by_leaf(column, value, change)


def _flags(inputs: Inputs) -> Iterable[Output]:
    for column in inputs.schema:
        made = ColumnSchema(f"{column.name}_filled", "bool", frozenset({Tags.CATEGORICAL}))
        value = inputs[column.name]
        nulls = value.is_null()
        if column.dtype.startswith("float") and not column.is_list:
            nulls = nulls | value.is_nan().fill_null(value=False)
        yield Output(made, nulls)
