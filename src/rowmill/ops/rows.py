"""Operators that choose rows or look at neighbours: Filter, Dropna, Groupby, DifferenceLag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from rowmill.errors import ArgumentError, ColumnError, closest
from rowmill.graph.operator import Change, Fitted, Inputs, Operator, Output, numeric, one_per_column
from rowmill.graph.saved.expressions import growth, save_expression
from rowmill.ops._parts.columns import retagged
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.frames.frame_source import as_pandas, from_pandas
from rowmill.sources.names import column, columns

_MAX_SHIFTS = 1_000


@dataclass(frozen=True, eq=False)
class Filter(Operator):
    """Keeps the rows for which `f` is true: a function of a pandas frame that gives a boolean Series or the frame
    that is left (with its index), or a Polars expression. Other columns of the workflow lose the same rows."""

    f: Callable[[Any], Any] | pl.Expr

    def __post_init__(self) -> None:
        if not callable(self.f) and not isinstance(self.f, pl.Expr):
            raise ArgumentError(f"Filter was given {self.f!r}; wanted a function of a frame, or a Polars expression")

    @property
    def changes_rows(self) -> bool:
        return True

    @property
    def users(self) -> bool:
        return not isinstance(self.f, pl.Expr)

    @property
    def growth(self) -> float:
        return growth(save_expression(self.f)) if isinstance(self.f, pl.Expr) else 1.0

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, lambda each, value: (each, value))

    def change(self, frame: pl.DataFrame, inputs: Inputs) -> Change:
        return Change(self._kept(frame), pl.DataFrame())

    def _kept(self, frame: pl.DataFrame) -> pl.Series:
        if isinstance(self.f, pl.Expr):
            flags = frame.select(self.f.alias("kept")).to_series()
            if flags.dtype != pl.Boolean or len(flags) != frame.height:
                raise ArgumentError(
                    f"the expression of Filter gave {len(flags)} values of {flags.dtype} for {frame.height} rows; "
                    f"wanted a boolean for each row"
                )
            return flags.fill_null(value=False).arg_true()
        import pandas as pd

        result = self.f(as_pandas(frame))
        if isinstance(result, pd.DataFrame):
            return pl.Series(result.index.to_numpy()).cast(pl.UInt32)
        kept = result if isinstance(result, pl.Series) else from_pandas(pd.Series(result))
        if kept.dtype != pl.Boolean or len(kept) != frame.height:
            raise ArgumentError(
                f"the function of Filter gave {len(kept)} values of {kept.dtype} for {frame.height} rows; wanted a "
                f"boolean for each row, or the frame that is left"
            )
        return kept.fill_null(value=False).arg_true()


@dataclass(frozen=True)
class Dropna(Operator):
    """Leaves out rows with a null or NaN in one of the selected columns; the rest of the workflow loses them too."""

    @property
    def changes_rows(self) -> bool:
        return True

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, lambda each, value: (each, value))

    def change(self, frame: pl.DataFrame, inputs: Inputs) -> Change:
        floats = [c.name for c in inputs.schema if c.dtype.startswith("float") and not c.is_list]
        kept = frame.with_columns(column(name).fill_nan(None) for name in floats) if floats else frame
        full = kept.select(pl.all_horizontal(pl.all().is_not_null()).alias("full")).to_series()
        return Change(full.arg_true(), pl.DataFrame())


@dataclass(frozen=True, eq=False)
class Groupby(Operator):
    """One row for each value of `groupby_cols` in the table.

    `sort_cols`: the order within a group; `ascending=False` turns the lists around, and first and last stay those of
    the ascending order. `aggs`: a name or a list for all columns, or a dict by column: list, first, last, count,
    nunique, sum, mean, median, min, max, std, var. Columns are named `{column}{name_sep}{agg}`. Keys and sort columns
    that are not selected are read from the table; keys come out where they are selected.
    A table of several partitions is grouped as a whole. One that is too large for that is grouped partition by
    partition, with a warning: bring equal keys together with `Dataset.shuffle_by_keys` first.
    """

    groupby_cols: str | Sequence[str] | None = None
    sort_cols: str | Sequence[str] | None = None
    aggs: Any = "list"
    name_sep: str = "_"
    ascending: bool = True

    def __post_init__(self) -> None:
        if self.groupby_cols is None or not len(self.groupby_cols):
            raise ArgumentError("Groupby was given no groupby_cols; name the columns whose values make a group")
        for agg in self._aggs_given():
            if agg not in _AGGREGATIONS:
                raise ArgumentError(f"Groupby does not know {agg!r}; wanted some of {sorted(_AGGREGATIONS)}")

    def _aggs_given(self) -> list[str]:
        given = self.aggs.values() if isinstance(self.aggs, Mapping) else [self.aggs]
        return [agg for some in given for agg in _many(some)]

    @property
    def changes_rows(self) -> bool:
        return True

    @property
    def rowwise(self) -> bool:
        return False

    @property
    def _keys(self) -> list[str]:
        return _many(self.groupby_cols)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns whose values make a group."""
        return tuple(self._keys)

    def completing(self, selected: Sequence[str]) -> Sequence[str]:
        named = [*self._keys, *_many(self.sort_cols), *(self.aggs if isinstance(self.aggs, Mapping) else ())]
        return [name for name in dict.fromkeys(named) if name not in selected]

    def _pairs(self, inputs: Inputs) -> list[tuple[ColumnSchema, str]]:
        columns = [column for column in inputs.schema if column.name not in self._keys]
        if not isinstance(self.aggs, Mapping):
            return [(column, agg) for column in columns for agg in _many(self.aggs)]
        return [(inputs.column(name), agg) for name, some in self.aggs.items() for agg in _many(some)]

    def _check(self, inputs: Inputs) -> None:
        """Refuse keys, sort columns and columns to aggregate that are not there."""
        there = [*inputs.schema.column_names, *inputs.needed.column_names]
        aggregated = list(self.aggs) if isinstance(self.aggs, Mapping) else []
        for what, names in (("groupby_cols", self._keys), ("sort_cols", _many(self.sort_cols)), ("aggs", aggregated)):
            for name in names:
                if name not in there:
                    raise ColumnError(
                        f"{what} of Groupby names {name!r}, which is not among its columns "
                        f"{there}{closest(name, there)}; select it too"
                    )

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        self._check(inputs)
        for key in self._keys:
            yield Output(inputs.column(key), None)
        for each, agg in self._pairs(inputs):
            yield Output(_aggregated(each, agg, self.name_sep), None)

    def change(self, frame: pl.DataFrame, inputs: Inputs) -> Change:
        if self.sort_cols:
            by = _many(self.sort_cols)
            frame = frame.sort(columns(by), descending=not self.ascending, maintain_order=True, nulls_last=False)
        made = [
            _AGGREGATIONS[self._taken(agg)][0](column(each.name)).alias(f"{each.name}{self.name_sep}{agg}")
            for each, agg in self._pairs(inputs)
        ]
        casts = {f"{c.name}{self.name_sep}{a}": dtype for c, a in self._pairs(inputs) if (dtype := _AGGREGATIONS[a][1])}
        keys = columns(self._keys)
        grouped = frame.group_by(keys, maintain_order=True).agg(made).sort(keys)
        grouped = grouped.with_columns(column(name).cast(getattr(pl, dtype)) for name, dtype in casts.items())
        return Change(None, grouped)

    def _taken(self, agg: str) -> str:
        """The aggregation of the sorted rows: in descending order the first row is the last one of ascending order."""
        return {"first": "last", "last": "first"}.get(agg, agg) if self.sort_cols and not self.ascending else agg


# The aggregation, and the type of its result where it is not that of the column.
_AGGREGATIONS: dict[str, tuple[Callable[[pl.Expr], pl.Expr], str | None]] = {
    "list": (lambda x: x, None),
    "first": (lambda x: x.first(), None),
    "last": (lambda x: x.last(), None),
    "min": (lambda x: x.min(), None),
    "max": (lambda x: x.max(), None),
    "count": (lambda x: x.count(), "Int32"),
    "nunique": (lambda x: x.drop_nulls().n_unique(), "Int32"),
    "sum": (lambda x: (x.cast(pl.Float64) * 2.0**-64).sum() * 2.0**64, "Float32"),  # no sum on the way is infinite
    "mean": (lambda x: (x.cast(pl.Float64) * 2.0**-64).mean() * 2.0**64, "Float32"),
    "median": (lambda x: x.cast(pl.Float64).median(), "Float32"),
    "std": (lambda x: _shrunk(x).std() / _shrink(x), "Float32"),
    "var": (lambda x: _shrunk(x).var() / _shrink(x) / _shrink(x), "Float32"),
}


def _shrink(x: pl.Expr) -> pl.Expr:
    """The power of two by which the values of a group are multiplied, so that their squares are finite: mostly 1."""
    return pl.when(x.cast(pl.Float64).abs().max() > 2.0**400).then(2.0**-600).otherwise(1.0)


def _shrunk(x: pl.Expr) -> pl.Expr:
    """The values of a group, shrunk. Huge ones are taken from the least of them: equal values then have no spread."""
    values = x.cast(pl.Float64) * _shrink(x)
    return values - pl.when(_shrink(x) < 1).then(values.min()).otherwise(0.0)


def _aggregated(column: ColumnSchema, agg: str, sep: str) -> ColumnSchema:
    name, dtype = f"{column.name}{sep}{agg}", _AGGREGATIONS[agg][1]
    if agg == "list":
        if column.is_list or column.dtype in ("string", "binary"):
            inner = f"list[{column.dtype}]"
            return ColumnSchema(name, f"list[{inner}]" if column.is_list else inner, column.tags)
        return ColumnSchema(name, column.dtype, column.tags | {Tags.LIST}, column.properties, is_list=True)
    if dtype is not None:
        return ColumnSchema(name, dtype.lower(), column.tags)
    return column.with_name(name)


@dataclass(frozen=True)
class DifferenceLag(Operator):
    """The difference to the row `shift` rows before: `{column}_difference_lag_{shift}`.

    Null where one of `partition_cols` differs between the two rows. A negative shift looks ahead.
    """

    needs: ClassVar[str] = "partition_cols"

    partition_cols: str | Sequence[str]
    shift: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.shift, int) and len(self.shift) > _MAX_SHIFTS:
            raise ArgumentError(f"shift has {len(self.shift):,} numbers; wanted at most {_MAX_SHIFTS:,}")
        for shift in [self.shift] if isinstance(self.shift, int) else self.shift:
            if isinstance(shift, bool) or not isinstance(shift, int) or abs(shift) >= 1 << 31:
                raise ArgumentError(f"shift is {shift!r}; wanted a whole number of less than 2**31, or a list of them")

    @property
    def rowwise(self) -> bool:
        return False

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that two rows must share."""
        return tuple(key for key in _many(self.partition_cols) if isinstance(key, str))

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        for shift in [self.shift] if isinstance(self.shift, int) else self.shift:
            for each in inputs.schema:
                x = inputs[numeric(each, self).name].cast(pl.Float64)
                keys = [inputs[key] for key in inputs.needed.column_names]
                same = pl.all_horizontal([key.eq_missing(key.shift(shift)) for key in keys])
                value = pl.when(same).then(x - x.shift(shift)).cast(pl.Float32)
                made = retagged(each.with_name(f"{each.name}_difference_lag_{shift}"), Tags.CONTINUOUS)
                yield Output(made.with_dtype("float32"), value)


def _many(given: Any) -> list[Any]:
    return [given] if isinstance(given, str) else list(given or ())
