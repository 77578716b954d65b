"""Numbers to numbers: Clip, LogOp, Normalize, NormalizeMinMax."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import ArgumentError, warn
from rowmill.graph.operator import (
    Call,
    Fitted,
    Inputs,
    Operator,
    Output,
    StatOperator,
    Value,
    by_leaf,
    numeric,
    one_per_column,
)
from rowmill.ops._parts.columns import retagged
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.types import polars_type
from rowmill.statistics.extremes import Extremes
from rowmill.statistics.moments import Moments, Sums
from rowmill.statistics.values import over_leaves


@dataclass(frozen=True)
class Clip(Operator):
    """Values below `min_value` become it, values above `max_value` become that; nulls stay null."""

    min_value: float | None = None
    max_value: float | None = None

    def __post_init__(self) -> None:
        for name, bound in (("min_value", self.min_value), ("max_value", self.max_value)):
            if bound is not None and (isinstance(bound, bool | str) or not hasattr(bound, "__float__")):
                raise ArgumentError(f"{name} is {bound!r}; wanted a number")
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
    """The logarithm of one more than the value, in float32.

    A value below -1 becomes NaN and -1 becomes minus infinity. A warning says how many there were so far, once they are
    found and again whenever there are ten times as many. Use Clip before.
    """

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        def made(column: ColumnSchema, value: pl.Expr) -> tuple[ColumnSchema, Value]:
            made = retagged(numeric(column, self), Tags.CONTINUOUS).with_dtype("float32")
            log = partial(_log, without_logarithm=_WithoutLogarithm(column.name))
            return made, Call(lambda given: over_leaves(given[0], log), {column.name: value}, self.label)

        return one_per_column(inputs, made)


@dataclass
class _WithoutLogarithm:
    """Counts the values of a column that have no logarithm, over all pieces of a table, and warns of them.

    Pieces come from several threads without a lock: a count may miss a piece, and nothing but the text of the warning
    depends on it.
    """

    column: str
    values: int = 0
    below: int = 0
    at_minus_one: int = 0
    next_warning: int = 1

    def count(self, numbers: NDArray[Any]) -> None:
        some = len(numbers) > 0 and not numbers.min() > -1
        below, at_minus_one = (int((numbers < -1).sum()), int((numbers == -1).sum())) if some else (0, 0)
        self.values += len(numbers)
        self.below += below
        self.at_minus_one += at_minus_one
        if not below and not at_minus_one:
            return
        found = self.below + self.at_minus_one
        if found >= self.next_warning:
            self.next_warning = 10 * found
            texts = [f"{self.below:,} below -1, which became NaN"] if self.below else []
            texts += [f"{self.at_minus_one:,} of -1, which became minus infinity"] if self.at_minus_one else []
            warn(
                f"LogOp: of {self.values:,} values of column {self.column!r} so far, {' and '.join(texts)}; use "
                f"Clip(min_value=0) before LogOp"
            )


def _log(values: pl.Series, without_logarithm: _WithoutLogarithm) -> pl.Series:
    """log(x + 1) in float32, of values too that only float64 can hold; warns of values that have no logarithm."""
    if values.dtype == pl.Null or values.dtype == pl.Boolean or values.dtype.is_decimal():
        values = values.cast(pl.Float64)
    null = values.is_null() if values.null_count() else None
    numbers = (values if null is None else values.fill_null(0)).to_numpy()
    with np.errstate(all="ignore"):
        made = np.log(numbers.astype(np.float32) + np.float32(1))
        if numbers.dtype == np.float64 and (large := np.isfinite(numbers) & (numbers > 3e38)).any():
            made[large] = np.log(numbers[large]).astype(np.float32)
        without_logarithm.count(numbers)
    logs = pl.Series("log", made)
    return logs if null is None else logs.set(null, None)


@dataclass(frozen=True)
class Normalize(StatOperator):
    """Less the mean, divided by the standard deviation (of a sample: ddof 1). A constant column becomes 0.

    Statistics are exact sums in any order; nulls, NaN and infinite values take no part in them. A standard deviation
    that is too large for a float64 (of values near 1.8e308) counts as the largest float64.
    """

    out_dtype: Any = None

    def statistics(self, inputs: Inputs) -> Mapping[str, Moments]:
        return {numeric(column, self).name: Moments(column.name) for column in inputs.schema}

    def learn(self, results: Mapping[str, Sums], inputs: Inputs) -> Fitted:
        for name, sums in results.items():
            if sums.infinite:
                warn(f"column {name!r} has {sums.infinite} infinite values; left out of its mean")
        return Fitted(
            {
                "means": {name: sums.mean for name, sums in results.items()},
                "stds": {name: sums.std() if sums.count > 1 else 0.0 for name, sums in results.items()},
            }
        )

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, lambda column, value: self._scaled(column, value, fitted))

    def _scaled(self, column: ColumnSchema, value: pl.Expr, fitted: Fitted | None) -> tuple[ColumnSchema, pl.Expr]:
        made, dtype = _as_continuous(column, self, self.out_dtype)
        if fitted is None:
            return made, value
        mean, std = fitted.values["means"][column.name], fitted.values["stds"][column.name]
        return made, by_leaf(column, value, lambda x: _shifted(x, mean, std=std or 1.0).cast(dtype))

    @property
    def means(self) -> dict[str, float]:
        return dict(self.learnt.values["means"])

    @property
    def stds(self) -> dict[str, float]:
        return dict(self.learnt.values["stds"])


def _as_continuous(column: ColumnSchema, operator: Operator, out_dtype: Any) -> tuple[ColumnSchema, pl.DataType]:
    """The column that an operator makes of numbers: continuous, of the dtype asked for or float32."""
    name = out_dtype or "float32"
    return retagged(numeric(column, operator), Tags.CONTINUOUS).with_dtype(name), polars_type(name)


_HUGE, _TINY = 2.0**960, 2.0**-960  # beyond them a difference, a product or 1 / x may leave float64's range
_DOWN, _UP = 2.0**-64, 2.0**200


def _shifted(value: pl.Expr, start: float, *, std: float | None = None, stop: float = 0.0) -> pl.Expr:
    """(value - start) / unit, where the unit is `std`, or `stop - start`.

    By a product: Polars divides a column and a single row differently in the last bit. Extreme numbers are scaled by a
    power of two first, which is exact, so that nothing in between leaves the range of a float64.
    """
    value = value.cast(pl.Float64)
    if max(abs(start), abs(stop), std or 0.0) > _HUGE:
        unit = stop * _DOWN - start * _DOWN if std is None else std * _DOWN
        return (value * _DOWN - start * _DOWN) * (1.0 / unit)
    unit = stop - start if std is None else std
    if unit < _TINY:
        return (value - start) * _UP * (1.0 / (unit * _UP))
    return (value - start) * (1.0 / unit)


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
        made, dtype = _as_continuous(column, self, self.out_dtype)
        if fitted is None:
            return made, value
        low, high = fitted.values["mins"][column.name], fitted.values["maxs"][column.name]
        if high > low:
            return made, by_leaf(column, value, lambda x: _shifted(x, low, stop=high).cast(dtype))
        return made, by_leaf(column, value, lambda x: pl.when(x.is_not_null()).then(pl.lit(0.5, dtype)))

    @property
    def mins(self) -> dict[str, float]:
        return dict(self.learnt.values["mins"])

    @property
    def maxs(self) -> dict[str, float]:
        return dict(self.learnt.values["maxs"])
