"""Finding the row of a table that was the latest at some moment: built once, asked for every fragment.

Rows of the table are sorted by key and time. A key and a time become one number, so that the place of each asked row is
found by binary search over all keys at once. Called by `JoinAsOf`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import ColumnError
from rowmill.statistics.lookup import Lookup
from rowmill.statistics.values import without_nan

STRATEGIES = ("backward", "forward", "nearest")
_UNITS = ("ms", "us", "ns")
_PER_MICROSECOND = {"ns": 1_000, "us": 1}
Places = NDArray[np.int64]


def common_type(name: str, ours: pl.DataType, theirs: pl.DataType) -> pl.DataType:
    """The type in which times of both types can be compared."""
    if all(isinstance(dtype, pl.Datetime | pl.Date) for dtype in (ours, theirs)):
        if ours == theirs:
            return ours
        units = [dtype.time_unit if isinstance(dtype, pl.Datetime) else "us" for dtype in (ours, theirs)]
        zones = [dtype.time_zone for dtype in (ours, theirs) if isinstance(dtype, pl.Datetime)]
        return pl.Datetime(max(units, key=_UNITS.index), zones[0])
    if all(dtype.is_integer() or dtype.is_float() for dtype in (ours, theirs)):
        floats = ours.is_float() or theirs.is_float()
        return pl.Float64() if floats else pl.Int64()
    if ours == pl.Null:
        return theirs
    raise ColumnError(
        f"JoinAsOf compares {name!r}, which is {ours} here and {theirs} in the features; wanted dates, times or "
        f"numbers on both sides"
    )


class AsOfIndex:
    """The rows of a table by key and time. `dtype`: the type that times are compared in."""

    def __init__(self, times: pl.Series, keys: pl.DataFrame | None, dtype: pl.DataType) -> None:
        self._dtype = dtype
        self._lookup = None
        numbers, there = self._numbers(times)
        groups: Places = np.zeros(len(times), np.int64)
        if keys is not None:
            named = pl.DataFrame([without_nan(c).alias(str(n)) for n, c in enumerate(keys.get_columns())])
            self._lookup = Lookup(named.unique(maintain_order=True))
            groups = self._lookup.find(named.get_columns()).astype(np.int64)
        rows = np.flatnonzero(there)
        self._known = np.unique(numbers[rows])
        ranks = np.searchsorted(self._known, numbers[rows])
        placed = groups[rows] * (len(self._known) + 1) + ranks
        order = np.argsort(placed, kind="stable")
        self._rows, self._placed, self._times, self._groups = (
            given[order] for given in (rows, placed, numbers[rows], groups[rows])
        )

    def find(
        self,
        times: pl.Series,
        keys: Sequence[pl.Series],
        strategy: str,
        tolerance: timedelta | float | None,
        *,
        exact: bool,
    ) -> Places:
        """For each time the number of the row of the table that belongs to it; -1 where there is none."""
        numbers, there = self._numbers(times)
        groups: Places = np.zeros(len(times), np.int64)
        if self._lookup is not None:
            groups = self._lookup.find(list(keys)).astype(np.int64)
        there &= groups >= 0
        before = self._before(numbers, groups, exact=exact) if strategy != "forward" else None
        after = self._after(numbers, groups, exact=exact) if strategy != "backward" else None
        if before is None or after is None:
            place = after if before is None else before
            assert place is not None
        else:
            nearer = self._distance(numbers, before) <= self._distance(numbers, after)
            place = np.where((before >= 0) & ((after < 0) | nearer), before, after)
        there &= place >= 0
        if tolerance is not None and len(self._rows):
            there &= self._distance(numbers, place) <= self._in_units(tolerance)
        return np.where(there, self._rows[np.maximum(place, 0)], -1) if len(self._rows) else np.full(len(times), -1)

    def _before(self, numbers: Any, groups: Places, *, exact: bool) -> Places:
        """The last place that is not later, or not as late."""
        ranks = np.searchsorted(self._known, numbers, "right" if exact else "left")
        place = np.searchsorted(self._placed, groups * (len(self._known) + 1) + ranks, "left") - 1
        return self._of_group(place, groups)

    def _after(self, numbers: Any, groups: Places, *, exact: bool) -> Places:
        """The first place that is not earlier, or not as early."""
        ranks = np.searchsorted(self._known, numbers, "left" if exact else "right")
        place = np.searchsorted(self._placed, groups * (len(self._known) + 1) + ranks, "left")
        return self._of_group(place, groups)

    def _of_group(self, place: Places, groups: Places) -> Places:
        inside = (place >= 0) & (place < len(self._groups))
        inside[inside] = self._groups[place[inside]] == groups[inside]
        return np.where(inside, place, -1)

    def _distance(self, numbers: Any, place: Places) -> Any:
        if not len(self._times):
            return np.zeros(len(numbers))
        found = self._times[np.maximum(place, 0)]
        if self._dtype.is_float():
            return np.abs(numbers - found)
        high, low = np.maximum(numbers, found), np.minimum(numbers, found)
        return high.view(np.uint64) - low.view(np.uint64)  # no difference is too large for that

    def _numbers(self, times: pl.Series) -> tuple[Any, NDArray[np.bool_]]:
        """Times as numbers that can be sorted, and which of them are there."""
        cast = without_nan(times.alias("time")).cast(self._dtype)
        there = cast.is_not_null().to_numpy().copy()
        physical = cast.to_physical() if self._dtype.is_temporal() else cast
        filled = physical.fill_null(0)
        return (filled if self._dtype.is_float() else filled.cast(pl.Int64)).to_numpy(), there

    def _in_units(self, tolerance: timedelta | float) -> float:
        if not isinstance(tolerance, timedelta):
            return tolerance
        if isinstance(self._dtype, pl.Date):
            return tolerance / timedelta(days=1)
        assert isinstance(self._dtype, pl.Datetime)
        micros = tolerance // timedelta(microseconds=1)
        return micros / 1_000 if self._dtype.time_unit == "ms" else micros * _PER_MICROSECOND[self._dtype.time_unit]
