"""The smallest and largest value of a column, or of the lengths of its lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from rowmill.statistics.moments import leaves

Range = tuple[Any, Any]  # smallest and largest, or (None, None) where there is no value


@dataclass(frozen=True)
class Extremes:
    """The range of a column's values, nulls and NaN left out. `lengths`: of the lengths of strings or lists."""

    column: str
    lengths: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def start(self) -> Range:
        return None, None

    def update(self, seen: Range, frame: pl.DataFrame) -> Range:
        values = frame.get_column(self.column)
        if self.lengths:
            values = lengths(values)
        else:
            values = leaves(values)
            values = values.fill_nan(None) if values.dtype.is_float() else values
        return self.merge(seen, (values.min(), values.max()))

    def merge(self, left: Range, right: Range) -> Range:
        low = [value for value in (left[0], right[0]) if value is not None]
        high = [value for value in (left[1], right[1]) if value is not None]
        return min(low, default=None), max(high, default=None)

    def finish(self, seen: Range) -> Range:
        return seen

    def kept(self, result: Range) -> Range:
        return result

    def resume(self, kept: Range) -> Range:
        return kept


def lengths(values: pl.Series) -> pl.Series:
    """How many items each list has, or how many letters each string."""
    values = values.alias("values")
    if isinstance(values.dtype, pl.Array):
        return pl.repeat(values.dtype.size, len(values), dtype=pl.UInt32, eager=True)
    return values.list.len() if isinstance(values.dtype, pl.List) else values.str.len_chars()
