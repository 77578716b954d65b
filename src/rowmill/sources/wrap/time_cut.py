"""Cuts of a table in time: what a dataset remembers of `split(time=, at=)`, for workflows to be checked against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

Moment = int | float | str

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class TimeCut:
    """A cut of a table at a moment of one of its columns."""

    column: str
    at: Any
    before: bool  # whether these are the rows before the moment
    later_statistics: bool  # whether a workflow may have learnt from rows at or after it
    table: str  # the fingerprint of the rows of the whole table

    @property
    def moment(self) -> Moment | None:
        """The moment as it is compared with others."""
        return comparable(self.at)

    @property
    def latest(self) -> Moment | None:
        """The latest moment before the cut."""
        moment = self.moment
        return math.nextafter(moment, -math.inf) if isinstance(moment, float) else _less_one(moment)


def _less_one(moment: Moment | None) -> Moment | None:
    return moment - 1 if isinstance(moment, int) else None


def comparable(value: Any) -> Moment | None:
    """A moment in a form that can be compared and saved: a date or time as nanoseconds since 1970, in UTC if it has a
    time zone; numbers and text as they are; None for anything else."""
    if isinstance(value, datetime):
        plain = value if value.tzinfo is None else (value - (value.utcoffset() or timedelta())).replace(tzinfo=None)
        return (plain - _EPOCH) // timedelta(microseconds=1) * 1_000
    if isinstance(value, date):
        return comparable(datetime.combine(value, time()))
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else None


def are_alike(left: Moment | None, right: Moment | None) -> bool:
    """Whether two moments can be compared: both are text, or neither is."""
    return left is not None and right is not None and isinstance(left, str) == isinstance(right, str)
