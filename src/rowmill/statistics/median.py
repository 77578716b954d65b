"""The median of a column: exact while there are at most a million different values, else to one part in 65,536.

Beyond that many, values are counted after cutting their mantissa to 16 bits. Whether that happens depends on the values
alone, not on the order in which they come, and so does the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from rowmill.statistics.moments import leaves
from rowmill.statistics.statistic import KEEP

EXACT = 1 << 20
_CUT = ~np.uint64((1 << (52 - 16)) - 1)  # the bits of a float64 that stay


@dataclass
class Sketch:
    """Values in ascending order with their counts; `cut` when they have been shortened."""

    values: np.ndarray[tuple[int], np.dtype[np.float64]]
    counts: np.ndarray[tuple[int], np.dtype[np.int64]]
    cut: bool = False

    @property
    def middle(self) -> float | None:
        """The middle value, or the mean of the two middle ones; None where there is no value."""
        if not len(self.values):
            return None
        rows = int(self.counts.sum())
        below = np.cumsum(self.counts)
        low, high = (self.values[np.searchsorted(below, place, side="right")] for place in ((rows - 1) // 2, rows // 2))
        return float(low) if low == high else float(low / 2 + high / 2)


@dataclass(frozen=True)
class Median:
    """The values of a column of numbers with their counts, as a `Sketch` that has a `middle`.

    `keep`: how many values may be kept to go on with more rows (None: any number).
    """

    column: str
    exact: int = EXACT
    keep: int | None = KEEP

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def start(self) -> Sketch:
        return Sketch(np.empty(0), np.empty(0, np.int64))

    def update(self, seen: Sketch, frame: pl.DataFrame) -> Sketch:
        values = leaves(frame.get_column(self.column)).cast(pl.Float64).drop_nulls().drop_nans() + 0.0
        counted = values.alias("value").value_counts(name="count")
        new = Sketch(counted["value"].to_numpy(), counted["count"].cast(pl.Int64).to_numpy())
        return self.merge(seen, new)

    def merge(self, left: Sketch, right: Sketch) -> Sketch:
        cut = left.cut or right.cut
        values = np.concatenate([left.values, right.values])
        merged = _counted(values, np.concatenate([left.counts, right.counts]), cut)
        return _counted(merged.values, merged.counts, True) if len(merged.values) > self.exact else merged

    def finish(self, seen: Sketch) -> Sketch:
        return seen

    def kept(self, result: Sketch) -> Sketch | None:
        return result if self.keep is None or len(result.values) <= self.keep else None

    def resume(self, kept: Sketch) -> Sketch:
        return kept


def _counted(values: np.ndarray, counts: np.ndarray, cut: bool) -> Sketch:
    if cut:
        values = (values.view(np.uint64) & _CUT).view(np.float64)
    distinct, inverse = np.unique(values, return_inverse=True)
    totals = np.zeros(len(distinct), np.int64)
    np.add.at(totals, inverse, counts)
    return Sketch(distinct, totals, cut)
