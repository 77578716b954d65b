"""Numbers to numbers: Clip, LogOp, Normalize, NormalizeMinMax."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.operator import Fitted, Inputs, Operator, Output, StatOperator, by_leaf, numeric, one_per_column
from rowmill.ops.columns import retagged
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.types import polars_type
from rowmill.statistics.extremes import Extremes
from rowmill.statistics.moments import Moments, Sums


@dataclass(frozen=True)
class Clip(Operator):
    """Values below `min_value` become it, values above `max_value` become that; nulls stay null."""

    min_value: float | None = None
    max_value: float | None = None

    def __post_init__(self) -> None:
        if self.min_value is None and self.max_value is None:
            raise ArgumentError("Clip was given neither min_value nor max_value; give at least one")
        if self.min_value is not None and self.max_value is not None and self.min_value > self.max_value:
            raise ArgumentError(f"Clip from {self.min_value} to {self.max_value}; wanted min_value <= max_value")

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, self._clipped)

    def _clipped(self, column: ColumnSchema, value: pl.Expr) -> tuple[ColumnSchema, pl.Expr]:
        dtype = polars_type(numeric(column, self).dtype)
        low, high = (_bound(bound, dtype, up) for bound, up in ((self.min_value, True), (self.max_value, False)))
        return retagged(column, Tags.CONTINUOUS), by_leaf(column, value, lambda x: x.clip(low, high))


def _bound(bound: float | None, dtype: pl.DataType, up: bool) -> Any:
    """A bound in the column's own type: for whole numbers, the nearest whole number inside the bounds."""
    if bound is None or not dtype.is_integer():
        return bound
    limits = np.iinfo(str(dtype).lower())
    whole = limits.max if bound == math.inf else limits.min if bound == -math.inf else bound
    return min(max(math.ceil(whole) if up else math.floor(whole), limits.min), limits.max)


@dataclass(frozen=True)
class LogOp(Operator):
    """The logarithm of one more than the value, in float32."""

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        def made(column: ColumnSchema, value: pl.Expr) -> tuple[ColumnSchema, pl.Expr]:
            made = retagged(numeric(column, self), Tags.CONTINUOUS).with_dtype("float32")
            return made, by_leaf(column, value, lambda x: (x.cast(pl.Float32) + 1).log())

        return one_per_column(inputs, made)


@dataclass(frozen=True)
class Normalize(StatOperator):
    """Less the mean, divided by the standard deviation (of a sample: ddof 1). A constant column becomes 0.

    Statistics are exact sums in any order; nulls, NaN and infinite values take no part in them.
    """

    out_dtype: Any = None

    def statistics(self, inputs: Inputs) -> Mapping[str, Moments]:
        return {numeric(column, self).name: Moments(column.name) for column in inputs.schema}

    def learn(self, results: Mapping[str, Sums], inputs: Inputs) -> Fitted:
        for name, sums in results.items():
            if sums.infinite:
                warnings.warn(
                    f"column {name!r} has {sums.infinite} infinite values; left out of its mean", stacklevel=2
                )
        return Fitted(
            {
                "means": {name: sums.mean for name, sums in results.items()},
                "stds": {name: sums.std() if sums.count > 1 else 0.0 for name, sums in results.items()},
            }
        )

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, lambda column, value: self._scaled(column, value, fitted))

    def _scaled(self, column: ColumnSchema, value: pl.Expr, fitted: Fitted | None) -> tuple[ColumnSchema, pl.Expr]:
        dtype = polars_type(self.out_dtype or "float32")
        made = retagged(numeric(column, self), Tags.CONTINUOUS).with_dtype(self.out_dtype or "float32")
        if fitted is None:
            return made, value
        mean, std = fitted.values["means"][column.name], fitted.values["stds"][column.name]
        return made, by_leaf(column, value, lambda x: _shifted(x, mean, std or 1.0).cast(dtype))

    @property
    def means(self) -> dict[str, float]:
        return dict(self.learnt.values["means"])

    @property
    def stds(self) -> dict[str, float]:
        return dict(self.learnt.values["stds"])


def _shifted(value: pl.Expr, start: float, unit: float) -> pl.Expr:
    """(value - start) / unit, by a product: Polars divides a column and a single row differently in the last bit."""
    return (value.cast(pl.Float64) - start) * (1.0 / unit)


@dataclass(frozen=True)
class NormalizeMinMax(StatOperator):
    """Less the smallest value, divided by the range. A constant column becomes 0.5. Nothing is clipped."""

    out_dtype: Any = None

    def statistics(self, inputs: Inputs) -> Mapping[str, Extremes]:
        return {numeric(column, self).name: Extremes(column.name) for column in inputs.schema}

    def learn(self, results: Mapping[str, Any], inputs: Inputs) -> Fitted:
        ends = {name: [0.0 if end is None else float(end) for end in found] for name, found in results.items()}
        return Fitted({"mins": {n: e[0] for n, e in ends.items()}, "maxs": {n: e[1] for n, e in ends.items()}})

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, lambda column, value: self._scaled(column, value, fitted))

    def _scaled(self, column: ColumnSchema, value: pl.Expr, fitted: Fitted | None) -> tuple[ColumnSchema, pl.Expr]:
        dtype = polars_type(self.out_dtype or "float32")
        made = retagged(numeric(column, self), Tags.CONTINUOUS).with_dtype(self.out_dtype or "float32")
        if fitted is None:
            return made, value
        low, high = fitted.values["mins"][column.name], fitted.values["maxs"][column.name]
        if high > low:
            return made, by_leaf(column, value, lambda x: _shifted(x, low, high - low).cast(dtype))
        return made, by_leaf(column, value, lambda x: pl.when(x.is_not_null()).then(pl.lit(0.5, dtype)))

    @property
    def mins(self) -> dict[str, float]:
        return dict(self.learnt.values["mins"])

    @property
    def maxs(self) -> dict[str, float]:
        return dict(self.learnt.values["maxs"])
