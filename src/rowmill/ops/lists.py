"""List columns: ListSlice, ValueCount."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.operator import Fitted, Inputs, Operator, Output, StatOperator, one_per_column
from rowmill.schema import ColumnSchema
from rowmill.sources.types import frame_type
from rowmill.statistics.extremes import Extremes


@dataclass(frozen=True)
class ListSlice(Operator):
    """Items `start` to `end` of each list, as Python slices: `ListSlice(10)` the first ten, `ListSlice(-10)` the last.

    `pad`: lists that are shorter are filled up with `pad_value`, so that all have the same length.
    """

    start: int
    end: int | None = None
    pad: bool = False
    pad_value: float = 0.0

    def __post_init__(self) -> None:
        for name, place in (("start", self.start), ("end", 0 if self.end is None else self.end)):
            if isinstance(place, bool) or not isinstance(place, int) or abs(place) >= 1 << 31:
                raise ArgumentError(f"{name} is {place!r}; wanted a whole number of less than 2**31")
        if isinstance(self.pad_value, bool) or not isinstance(self.pad_value, int | float):
            raise ArgumentError(f"pad_value is {self.pad_value!r}; wanted a number")
        if self.pad and self._length is None:
            raise ArgumentError(
                f"cannot pad items {self.start} to {self.end}: how many they are differs; give both ends"
            )

    @property
    def _ends(self) -> tuple[int, int | None]:
        return (0, self.start) if self.end is None and self.start >= 0 else (self.start, self.end)

    @property
    def _length(self) -> int | None:
        """How many items a long enough list is left with, where that is the same for all."""
        start, end = self._ends
        if end is None:
            return -start
        return max(0, end - start) if (start >= 0) == (end >= 0) else None

    @property
    def growth(self) -> float:
        return max(1.0, (self._length or 0) / 2) if self.pad else 1.0

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, self._sliced)

    def _sliced(self, column: ColumnSchema, value: pl.Expr) -> tuple[ColumnSchema, pl.Expr]:
        kept, column = column, column.as_list()
        if column.dtype == "unknown":
            column = column.with_width(None)
        if not column.is_list:
            raise ArgumentError(f"ListSlice wants lists, and column {column.name!r} is {column.dtype}; leave it out")
        items = value if column.width is None else value.arr.to_list()
        start, end = self._ends
        length = items.list.len().cast(pl.Int64)
        first = pl.lit(start) if start >= 0 else pl.max_horizontal(length + start, pl.lit(0))
        last = length if end is None else pl.lit(end) if end >= 0 else length + end
        sliced = items.list.slice(first, pl.max_horizontal(last - first, pl.lit(0)).cast(pl.Int64))
        counted = {"value_count": {"min": 0, "max": self._length}}
        made = column.with_width(None).with_properties(counted if self._length is not None else {})
        if not self.pad:
            if not kept.is_list:  # lists of strings, which a frame has and a tensor has not
                made = made.with_dtype(f"list[{column.dtype}]", is_list=False)
                made = made.with_properties(counted if self._length is not None else {})
            return made, sliced
        width = self._length or 0
        dtype = frame_type(column.with_width(None))
        fill = int(self.pad_value) if not column.dtype.startswith("float") else self.pad_value
        padding = pl.lit([fill] * width, dtype=dtype)
        padded = pl.concat_list(sliced.fill_null(pl.lit([], dtype=dtype)), padding).list.head(width)
        return made.with_width(width), padded.list.to_array(width)


@dataclass(frozen=True)
class ValueCount(StatOperator):
    """Leaves the data as they are, and notes the shortest and longest list in the schema, as `value_count`."""

    def statistics(self, inputs: Inputs) -> Mapping[str, Extremes]:
        lists = [column.name for column in inputs.schema if column.as_list().is_list]
        return {name: Extremes(name, lengths=True) for name in lists}

    def moves_old_rows(self, before: Fitted, after: Fitted) -> bool:
        return False

    def learn(self, results: Mapping[str, Any], inputs: Inputs) -> Fitted:
        return Fitted({"stats": {name: {"min": ends[0] or 0, "max": ends[1] or 0} for name, ends in results.items()}})

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        found = {} if fitted is None else fitted.values["stats"]
        for column in inputs.schema:
            noted = column.with_properties({"value_count": found[column.name]}) if column.name in found else column
            yield Output(noted, inputs[column.name])

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """For each column the lengths of its shortest and longest list, as `min`, `max` and as `value_count`."""
        return {name: {**ends, "value_count": dict(ends)} for name, ends in self.learnt.values["stats"].items()}
