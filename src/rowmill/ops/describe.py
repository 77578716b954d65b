"""Operators that change descriptions, names or sizes, not values: tags, Rename, ReduceDtypeSize, DataStats and kin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.operator import Fitted, Inputs, Operator, Output, StatOperator, by_leaf, one_per_column
from rowmill.ops._parts.columns import retagged
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.types import polars_type
from rowmill.statistics.counts import Counts
from rowmill.statistics.extremes import Extremes
from rowmill.statistics.moments import Moments


@dataclass(frozen=True, eq=False)
class AddMetadata(Operator):
    """Leaves the data as they are, and adds `tags` and `properties` to the columns."""

    tags: str | Sequence[str] | None = None
    properties: Mapping[str, Any] | None = None

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, lambda column, value: (self._noted(column), value))

    def _noted(self, column: ColumnSchema) -> ColumnSchema:
        for tag in [self.tags] if isinstance(self.tags, str) else self.tags or ():
            column = retagged(column, tag)
        return column.with_properties(self.properties or {})


@dataclass(frozen=True, eq=False)
class AddTags(AddMetadata):
    """Adds tags to the columns."""


@dataclass(frozen=True, eq=False)
class AddProperties(AddMetadata):
    """Adds properties to the columns."""

    def __init__(self, properties: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "tags", None)
        object.__setattr__(self, "properties", properties)

    def settings(self) -> dict[str, Any]:
        return {"properties": self.properties}


class _Tagging(AddMetadata):
    """A fixed set of tags."""

    FIXED: tuple[str, ...] = ()

    def __init__(self, tags: Any = None) -> None:
        object.__setattr__(self, "tags", self.FIXED)
        object.__setattr__(self, "properties", None)

    def settings(self) -> dict[str, Any]:
        return {}


class TagAsUserID(_Tagging):
    """Tags the columns as the user's id."""

    FIXED = (Tags.USER_ID, Tags.USER, Tags.ID)


class TagAsItemID(_Tagging):
    """Tags the columns as the item's id."""

    FIXED = (Tags.ITEM_ID, Tags.ITEM, Tags.ID)


class TagAsUserFeatures(_Tagging):
    """Tags the columns as describing the user."""

    FIXED = (Tags.USER,)


class TagAsItemFeatures(_Tagging):
    """Tags the columns as describing the item."""

    FIXED = (Tags.ITEM,)


@dataclass(frozen=True, eq=False)
class Rename(Operator):
    """Other names for the columns: by a function `f` of the name, with a `postfix`, or `name` for a single column."""

    f: Callable[[str], str] | None = None
    postfix: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.f is None and self.postfix is None and self.name is None:
            raise ArgumentError("Rename was given no f, postfix or name; give one")

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        if self.name is not None and len(inputs.schema) != 1:
            raise ArgumentError(
                f"Rename(name={self.name!r}) got {len(inputs.schema)} columns; wanted one, or a postfix"
            )
        return one_per_column(inputs, lambda column, value: (column.with_name(self._renamed(column.name)), value))

    def _renamed(self, name: str) -> str:
        if self.f is not None:
            return self.f(name)
        return name + self.postfix if self.postfix is not None else str(self.name)


@dataclass(frozen=True)
class DropLowCardinality(Operator):
    """Leaves out categorical columns that are known to have fewer than `min_cardinality` different codes."""

    min_cardinality: int = 4

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return [Output(column, inputs[column.name]) for column in inputs.schema if not self._is_low(column)]

    def _is_low(self, column: ColumnSchema) -> bool:
        highest = column.properties.get("domain", {}).get("max")
        return Tags.CATEGORICAL in column.tags and highest is not None and highest < self.min_cardinality


@dataclass(frozen=True)
class ReduceDtypeSize(StatOperator):
    """Whole numbers in the smallest type that held all values when fitting; floats in `float_dtype`.

    A later value that does not fit is an error.
    """

    float_dtype: Any = "float32"

    def statistics(self, inputs: Inputs) -> Mapping[str, Extremes]:
        return {c.name: Extremes(c.name) for c in inputs.schema if c.dtype.startswith(("int", "uint"))}

    def learn(self, results: Mapping[str, Any], inputs: Inputs) -> Fitted:
        return Fitted({"dtypes": {name: _smallest(*ends) for name, ends in results.items()}})

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        smaller = {} if fitted is None else fitted.values["dtypes"]

        def made(column: ColumnSchema, value: pl.Expr) -> tuple[ColumnSchema, pl.Expr]:
            dtype = self.float_dtype if column.dtype.startswith("float") else smaller.get(column.name)
            if dtype is None:
                return column, value
            return column.with_dtype(dtype), by_leaf(column, value, lambda x: x.cast(polars_type(dtype)))

        return one_per_column(inputs, made)


def _smallest(low: int | None, high: int | None) -> str:
    for dtype in ("int8", "int16", "int32", "int64"):
        limits = np.iinfo(dtype)
        if limits.min <= (low or 0) and (high or 0) <= limits.max:
            return dtype
    return "uint64"


@dataclass(frozen=True)
class DataStats(StatOperator):
    """Leaves the data as they are, and measures them.

    `output[column]` has dtype, cardinality (not of floats), min, max, mean and std (of strings: of their lengths), and
    `per_nan`, the share of missing values in percent.
    """

    def statistics(self, inputs: Inputs) -> Mapping[str, Any]:
        wanted: dict[str, Any] = {}
        for column in inputs.schema:
            name, text = column.name, column.dtype == "string"
            wanted[f"nulls {name}"] = Counts(((f"null {name}",),))
            if not column.dtype.startswith("float"):
                wanted[f"counts {name}"] = Counts(((name,),))
            if _measurable(column):
                wanted[f"moments {name}"] = Moments(f"length {name}" if text else name)
                wanted[f"range {name}"] = Extremes(f"length {name}" if text else name)
        return wanted

    def measured(self, inputs: Inputs) -> Mapping[str, pl.Expr]:
        made = {f"null {column.name}": _missing(column, inputs[column.name]) for column in inputs.schema}
        texts = [column.name for column in inputs.schema if column.dtype == "string"]
        return {**made, **{f"length {name}": inputs[name].str.len_chars() for name in texts}}

    def moves_old_rows(self, before: Fitted, after: Fitted) -> bool:
        return False

    def learn(self, results: Mapping[str, Any], inputs: Inputs) -> Fitted:
        output = {}
        for column in inputs.schema:
            flags = results[f"nulls {column.name}"].frame
            rows = {} if flags is None else dict(flags.iter_rows())
            found: dict[str, Any] = {"dtype": column.dtype}
            if f"counts {column.name}" in results:
                counted = results[f"counts {column.name}"].frame
                found["cardinality"] = 0 if counted is None else counted.height
            if _measurable(column):
                sums, ends = results[f"moments {column.name}"], results[f"range {column.name}"]
                low, high = (None if end is None else float(end) for end in ends)
                std = sums.std() if sums.count > 1 else 0.0
                found |= {"min": low, "max": high, "mean": sums.mean if sums.count else None, "std": std}
            found["per_nan"] = 100.0 * rows.get(True, 0) / max(1, sum(rows.values()))
            output[column.name] = found
        return Fitted({"output": output})

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, lambda column, value: (column, value))

    @property
    def output(self) -> dict[str, dict[str, Any]]:
        return dict(self.learnt.values["output"])


def _measurable(column: ColumnSchema) -> bool:
    return column.dtype in ("string", "bool") or column.dtype.startswith(("int", "uint", "float", "decimal"))


def _missing(column: ColumnSchema, value: pl.Expr) -> pl.Expr:
    if column.dtype.startswith("float") and not column.is_list:
        return value.is_null() | value.is_nan().fill_null(value=False)
    return value.is_null()
