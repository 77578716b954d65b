"""Count, mean and standard deviation of a column, exactly: sums of values and of squares as whole numbers.

Every finite float is a whole multiple of 2^-1074, and its square of 2^-2148. Sums of those are kept without rounding,
so they do not depend on the order of rows, and nothing cancels: a mean of 1e9 with a deviation of 1 comes out right.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import polars as pl

from rowmill import _native

SCALE = 1074  # the smallest float is 2^-1074


@dataclass(frozen=True)
class Sums:
    """Of the finite values: how many, their sum in units of 2^-1074, that of their squares in units of 2^-2148."""

    count: int = 0
    total: int = 0
    squares: int = 0
    missing: int = 0  # nulls and NaN
    infinite: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            self.missing + other.missing,
            self.infinite + other.infinite,
        )

    @property
    def mean(self) -> float:
        """Rounded once; 0 where there is no value."""
        return self.total / (self.count << SCALE) if self.count else 0.0

    def variance(self, ddof: int = 1) -> float:
        """Rounded once; NaN where there are too few values, infinite where it is larger than the largest float."""
        if self.count <= ddof:
            return math.nan
        numerator = self.count * self.squares - self.total * self.total
        try:
            return numerator / ((self.count * (self.count - ddof)) << (2 * SCALE))
        except OverflowError:
            return math.inf

    def std(self, ddof: int = 1) -> float:
        """The root of the variance; the largest float where it is larger than that."""
        if self.count <= ddof:
            return math.nan
        numerator = self.count * self.squares - self.total * self.total
        parts = self.count * (self.count - ddof)
        size = numerator.bit_length() - parts.bit_length() - 2 * SCALE
        if -900 < size < 900 or not numerator:
            return math.sqrt(self.variance(ddof))
        shift = 2 * ((120 - numerator.bit_length() + parts.bit_length()) // 2)  # even: its half is the root's
        scaled = (numerator << shift) // parts if shift >= 0 else (numerator >> -shift) // parts
        try:
            return math.ldexp(math.sqrt(scaled), -shift // 2 - SCALE)
        except OverflowError:
            return sys.float_info.max


@dataclass(frozen=True)
class Moments:
    """The `Sums` of a column of numbers, or of the leaves of a list column."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def start(self) -> Sums:
        return Sums()

    def update(self, seen: Sums, frame: pl.DataFrame) -> Sums:
        return seen + sums(leaves(frame.get_column(self.column)))

    def merge(self, left: Sums, right: Sums) -> Sums:
        return left + right

    def finish(self, seen: Sums) -> Sums:
        return seen

    def kept(self, result: Sums) -> Sums:
        return result

    def resume(self, kept: Sums) -> Sums:
        return kept


def leaves(series: pl.Series) -> pl.Series:
    """The values of a column, without its name: of a list column, those inside its lists."""
    series = series.alias("values")
    if isinstance(series.dtype, pl.List | pl.Array):
        return series.explode(empty_as_null=False, keep_nulls=False)
    return series


def sums(values: pl.Series) -> Sums:
    """The sums of a column's values."""
    whole = values.dtype == pl.Boolean or (values.dtype.is_integer() and values.dtype not in (pl.UInt64, pl.Int128))
    wanted = pl.Int64 if whole else values.dtype if values.dtype == pl.UInt64 else pl.Float64
    present = values.drop_nulls().cast(wanted)
    low = np.zeros(72, np.int64)
    high = np.zeros(138, np.int64)
    finite, infinite = _native.add_powers(present.to_numpy(), low, high)
    missing = len(values) - finite - infinite
    return Sums(finite, _whole(low), _whole(high), missing, infinite)


def _whole(limbs: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """The number whose digits to the base 2^32 these are; a digit may be negative or too large."""
    total = 0
    for position, limb in enumerate(limbs.tolist()):
        if limb:
            total += limb << (32 * position)
    return total
