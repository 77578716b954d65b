"""Times to features: JoinAsOf, DateParts, TimeDifference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError, ColumnError, closest, missing_column
from rowmill.graph.operator import Call, Fitted, Inputs, Operator, Output, Value
from rowmill.ops._parts.as_of import STRATEGIES, AsOfIndex, common_type
from rowmill.ops._parts.columns import retagged
from rowmill.ops.embedding import embedding_size
from rowmill.ops.join import check_zones, external_table, taken
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.names import columns
from rowmill.sources.types import column_schema, polars_type

_PLACE = "\0as of"  # the place of the row of features that belongs to a row


@dataclass(frozen=True, eq=False)
class JoinAsOf(Operator):
    """Columns of a table of features as they were at the time of each row: of the latest row that is not later.

    `on`: the time column here, `on_ext` there, if named otherwise: dates, times or numbers. `by`: key columns that have
    to be equal, `by_ext` there. `tolerance`: how much older the features may be, as a timedelta, or a number where
    times are numbers. `allow_exact_matches=False`: features of the same moment do not count. `strategy`: "backward";
    "forward" and "nearest" take later rows too. `features`: a frame of any kind, in any order, a `Dataset`, or files;
    it has to fit in memory. `columns_ext`: which of its columns to take. Nulls where nothing is found. As in pandas'
    `merge_asof`, of rows of the same moment the last one counts (with "forward" the first).
    """

    tables: ClassVar[tuple[str, ...]] = ("features",)

    features: Any
    on: str
    by: str | Sequence[str] | None = None
    tolerance: Any = None
    strategy: str = "backward"
    on_ext: str | None = None
    by_ext: str | Sequence[str] | None = None
    columns_ext: Sequence[str] | None = None
    allow_exact_matches: bool = True

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ArgumentError(f"strategy is {self.strategy!r}; wanted one of {list(STRATEGIES)}")
        object.__setattr__(self, "features", external_table(self.features))
        for name in (self._time, *self._theirs, *(self.columns_ext or ())):
            if name not in self.features.columns:
                raise missing_column(name, "in the table of features", self.features.columns)
        if len(self._keys) != len(self._theirs):
            raise ArgumentError(f"by names {len(self._keys)} columns and by_ext {len(self._theirs)}; wanted as many")
        self._check_tolerance()

    def _check_tolerance(self) -> None:
        given = self.tolerance
        if given is None:
            return
        temporal = self.features.schema[self._time].is_temporal()
        fits = isinstance(given, timedelta) if temporal else isinstance(given, int | float)
        zero = timedelta(0) if temporal else 0
        if not fits or isinstance(given, bool) or not given >= zero:
            kind = "a timedelta" if temporal else "a number"
            raise ArgumentError(
                f"tolerance is {given!r}, and {self._time!r} is {self.features.schema[self._time]}; wanted {kind} of 0 "
                f"or more"
            )

    @property
    def _time(self) -> str:
        return self.on if self.on_ext is None else self.on_ext

    @property
    def _keys(self) -> list[str]:
        return _names(self.by)

    @property
    def _theirs(self) -> list[str]:
        return _names(self.by if self.by_ext is None else self.by_ext)

    @cached_property
    def _new(self) -> pl.DataFrame:
        """The columns that come out besides those that went in."""
        used = {self._time, *self._theirs}
        found: pl.DataFrame = self.features.select(
            columns([name for name in self.columns_ext or self.features.columns if name not in used])
        )
        return found

    @cached_property
    def _indexes(self) -> dict[str, AsOfIndex]:
        return {}

    def _index(self, dtype: pl.DataType) -> AsOfIndex:
        """The index of the features' times, in a type that holds times of this type too."""
        target = common_type(self.on, dtype, self.features.schema[self._time])
        if str(target) not in self._indexes:
            keys = self.features.select(columns(self._theirs)) if self._keys else None
            self._indexes[str(target)] = AsOfIndex(self.features.get_column(self._time), keys, target)
        return self._indexes[str(target)]

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        for key in (self.on, *self._keys):
            if key not in inputs.schema:
                raise ColumnError(f"JoinAsOf wants {key!r}{closest(key, inputs.schema.column_names)}; select it too")
        for key, theirs in zip((self.on, *self._keys), (self._time, *self._theirs), strict=True):
            there = column_schema(theirs, self.features.schema[theirs]).dtype
            check_zones(key, inputs.schema[key].dtype, there)
            if "unknown" not in (there, inputs.schema[key].dtype):
                if (there == "string") != (inputs.schema[key].dtype == "string"):
                    ours = inputs.schema[key].dtype
                    raise ColumnError(f"{key!r} is {ours} here and {there} in the features; cast one of them")
                if key == self.on:
                    common_type(key, polars_type(inputs.schema[key].dtype), self.features.schema[theirs])
        both = [name for name in self._new.columns if name in inputs.schema]
        if both:
            raise ColumnError(f"columns {both} are on both sides; leave them out of columns_ext, or rename them")
        for column in inputs.schema:
            yield Output(column, inputs[column.name])
        for values in self._new.get_columns():
            yield Output(column_schema(values.name, values.dtype), taken(inputs[_PLACE], values))

    def shared(self, inputs: Inputs, fitted: Fitted | None) -> Mapping[str, Value]:
        given = {name: inputs[name] for name in (self.on, *self._keys)}

        def place(found: list[pl.Series]) -> pl.Series:
            index = self._index(found[0].dtype)
            places = index.find(found[0], found[1:], self.strategy, self.tolerance, exact=self.allow_exact_matches)
            made = pl.Series(_PLACE, np.maximum(places, 0).astype(np.uint32))
            return made.set(pl.Series(places < 0), None) if (places < 0).any() else made

        return {_PLACE: Call(place, given, self.label)}


def _names(given: str | Sequence[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


# What each part is, and its smallest and largest value, where it has them: such parts are categories.
_PARTS: dict[str, tuple[Callable[[pl.Expr], pl.Expr], tuple[int, int] | None]] = {
    "year": (lambda x: x.dt.year(), None),
    "quarter": (lambda x: x.dt.quarter(), (1, 4)),
    "month": (lambda x: x.dt.month(), (1, 12)),
    "week": (lambda x: x.dt.week(), (1, 53)),
    "day": (lambda x: x.dt.day(), (1, 31)),
    "weekday": (lambda x: x.dt.weekday() - 1, (0, 6)),
    "dayofyear": (lambda x: x.dt.ordinal_day(), (1, 366)),
    "is_weekend": (lambda x: x.dt.weekday() > 5, (0, 1)),
    "hour": (lambda x: x.dt.hour(), (0, 23)),
    "minute": (lambda x: x.dt.minute(), (0, 59)),
    "second": (lambda x: x.dt.second(), (0, 59)),
}
_OF_DAYS = ("hour", "minute", "second")  # parts that a date has not


@dataclass(frozen=True, eq=False)
class DateParts(Operator):
    """Parts of dates and times as whole numbers: `{column}_year`, `{column}_weekday` and so on, in int32.

    `parts`: some of year, quarter, month, week (ISO), day, weekday (Monday is 0), dayofyear, is_weekend, hour, minute,
    second; by default year, month, day and weekday, and the hour of times. Parts with a fixed range are categorical,
    with the range as their domain. `time_zone`: the zone that people live in, for times that have one.
    """

    parts: str | Sequence[str] | None = None
    time_zone: str | None = None

    def __post_init__(self) -> None:
        for part in self._parts:
            if part not in _PARTS:
                raise ArgumentError(f"DateParts does not know {part!r}; wanted some of {list(_PARTS)}")
        if self.parts is not None and not self._parts:
            raise ArgumentError("DateParts was given no parts; leave parts out for the usual ones")
        if self.time_zone is not None:
            try:
                pl.Series([datetime(2024, 1, 1)]).dt.replace_time_zone("UTC").dt.convert_time_zone(self.time_zone)
            except pl.exceptions.PolarsError as error:
                raise ArgumentError(f"time_zone is {self.time_zone!r}; wanted one such as 'Europe/Berlin'") from error

    @property
    def _parts(self) -> tuple[str, ...]:
        if self.parts is None:
            return ("year", "month", "day", "weekday", "hour")
        return (self.parts,) if isinstance(self.parts, str) else tuple(self.parts)

    @property
    def growth(self) -> float:
        return float(max(1, len(self._parts)))

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        for column in inputs.schema:
            timed = _moment(column, self)
            value = inputs[column.name]
            if self.time_zone is not None and column.dtype != "unknown":
                if "," not in column.dtype:
                    raise ColumnError(
                        f"column {column.name!r} is {column.dtype}, without a time zone, so it cannot be converted to "
                        f"{self.time_zone}; give it its own with dt.replace_time_zone, or leave time_zone out"
                    )
                value = value.dt.convert_time_zone(self.time_zone)
            wanted = self._parts if timed or self.parts is not None else self._parts[:-1]
            for part in wanted:
                if part in _OF_DAYS and not timed:
                    raise ColumnError(f"column {column.name!r} holds dates, which have no {part}; leave it out")
                compute, ends = _PARTS[part]
                yield Output(_described(f"{column.name}_{part}", ends), compute(value).cast(pl.Int32))


def _described(name: str, ends: tuple[int, int] | None) -> ColumnSchema:
    column = ColumnSchema(name, "int32")
    if ends is None:
        return retagged(column, Tags.CONTINUOUS)
    sizes = {"cardinality": ends[1] + 1, "dimension": embedding_size(ends[1] + 1)}
    domain = {"min": ends[0], "max": ends[1], "name": name}
    return retagged(column, Tags.CATEGORICAL).with_properties({"domain": domain, "embedding_sizes": sizes})


def _moment(column: ColumnSchema, operator: Operator) -> bool:
    """Whether a column holds times of the day too. Raises for what holds no dates."""
    if column.dtype == "unknown":
        return True
    if column.is_list or not column.dtype.startswith("date"):
        raise ArgumentError(
            f"{operator.label} wants dates or times, and column {column.name!r} is {column.dtype}; leave it out, or "
            f"read it as a time: Dataset(..., dtypes={{{column.name!r}: 'datetime[us]'}})"
        )
    return str(column.dtype) != "date"


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}  # in seconds


@dataclass(frozen=True, eq=False)
class TimeDifference(Operator):
    """How much later times are than others, as numbers: `{column}_since_{since}`, in float32.

    `since`: a column, or a moment (a date or datetime). `unit`: "s", "m", "h" or "d". `name`: another name for the
    result, where one column is selected. Negative where the time is earlier; null where one of the two is.
    """

    needs: ClassVar[str] = "since"

    since: Any
    unit: str = "s"
    name: str | None = None
    out_dtype: Any = None

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise ArgumentError(f"unit is {self.unit!r}; wanted one of {list(_UNITS)}")

    def dependencies(self) -> Sequence[Any]:
        return () if isinstance(self.since, date) else (self.since,)

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        if self.name is not None and len(inputs.schema) != 1:
            raise ArgumentError(f"TimeDifference(name={self.name!r}) got {len(inputs.schema)} columns; wanted one")
        others = [None] if isinstance(self.since, date) else list(inputs.needed)
        if len(others) != 1:
            raise ArgumentError(f"since names {len(others)} columns; wanted one column, or a moment")
        for column in inputs.schema:
            made = ColumnSchema(self._made_name(column, others[0]), self.out_dtype or "float32")
            yield Output(retagged(made, Tags.CONTINUOUS), self._difference(inputs, column, others[0]))

    def _made_name(self, column: ColumnSchema, other: ColumnSchema | None) -> str:
        end = self.since.isoformat() if other is None else other.name
        return self.name or f"{column.name}_since_{end}"

    def _difference(self, inputs: Inputs, column: ColumnSchema, other: ColumnSchema | None) -> pl.Expr:
        _moment(column, self)
        if other is None:
            midnight = datetime.min.time()
            moment = self.since if isinstance(self.since, datetime) else datetime.combine(self.since, midnight)
            zones = (column.dtype, "datetime[us, UTC]" if moment.tzinfo is not None else "datetime[us]")
            start = pl.lit(moment)
        else:
            _moment(other, self)
            zones, start = (column.dtype, other.dtype), inputs[other.name]
        if "unknown" not in zones and ("," in zones[0]) != ("," in zones[1]) and "date" not in zones:
            raise ColumnError(
                f"column {column.name!r} is {zones[0]}, and since is {zones[1]}: one has a time zone, the other has "
                f"none; give both the same, for example with dt.replace_time_zone('UTC')"
            )
        micros = (inputs[column.name] - start).dt.total_microseconds()
        per = _UNITS[self.unit] * 1_000_000  # by whole units and a rest, or a row would differ from its batch by a bit
        whole, rest = (micros // per).cast(pl.Float64), (micros % per).cast(pl.Float64)
        return (whole + rest * (1 / per)).cast(polars_type(self.out_dtype or "float32"))
