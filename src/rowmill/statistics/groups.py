"""Sums, counts, extremes of numbers for each value of a key: what TargetEncoding and JoinGroupby learn.

Sums are exact, or the order of fragments would show in them: a float is a whole multiple of a power of two, so its
group gets a whole number (128 bits) for each range of 32 exponents that occurs, mostly one. Integers are added as such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import ColumnError
from rowmill.sources.names import frame_of, safe
from rowmill.statistics.statistic import KEEP
from rowmill.statistics.values import without_nan

Floats = NDArray[np.float64]
_STEP = 32  # exponents to a range
_BIN, _PART = "__bin__", "__part__"
_MADE = ("count", "sum", "scaled", "mean", "m2", "min", "max")
_HUGE_SUM, _HUGE_SQUARES = 28, 27  # ranges from which on a sum could be too large for a float: some 1e285 and 1e276
_SHRINK = 768  # numbers from 2^400 on are divided by 2^768 before they are squared
SCALE = -64


@dataclass
class Grouped:
    """Frames still to be added up: plain counts and extremes by key, and exact parts of sums by key and range."""

    plain: list[pl.DataFrame] = field(default_factory=list)
    parts: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    held: int = 0


@dataclass(frozen=True)
class GroupTable:
    """The groups, ordered by their keys (None where no row was seen), and what they were made of, where it is kept."""

    groups: pl.DataFrame | None
    seen: Grouped | None


@dataclass(frozen=True)
class GroupSums:
    """For each combination of `keys`: rows, and of each of `values` its count, sum, squares, min and max as asked.

    The result is a `GroupTable` with a frame: keys, `rows`, and `{value}.count`, `{value}.sum`, `{value}.scaled` (the
    sum times 2^-64, which no sum is too large for), `{value}.mean` (null without values), `{value}.m2` (the sum of
    squared differences from the mean), `{value}.min`, `{value}.max`. What is larger than the largest float is infinite.
    `keep`: how many groups may be kept to go on with more rows (None: any number).
    """

    keys: tuple[str, ...]
    values: tuple[str, ...] = ()
    squares: bool = False
    extremes: bool = False
    keep: int | None = KEEP

    def __post_init__(self) -> None:
        made = {"rows", *(f"{value}.{name}" for value in self.values for name in _MADE)}
        for key in self.keys:
            if key in made:
                raise ColumnError(f"a key column is named {key!r}, which is needed for a result; rename the column")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.keys, *self.values)))

    @property
    def _keys(self) -> tuple[str, ...]:
        """The keys under names that Polars does not read as patterns."""
        return tuple(safe(name) for name in self.keys)

    def start(self) -> Grouped:
        return Grouped()

    def update(self, seen: Grouped, frame: pl.DataFrame) -> Grouped:
        frame = frame_of(without_nan(frame.get_column(name)).alias(safe(name)) for name in self.columns)
        seen.plain.append(frame.group_by(self._keys).agg(self._plain()))
        for value in self.values:
            column = frame.get_column(safe(value))
            numbers = column.cast(pl.Float64).to_numpy()
            self._add(seen, f"{value}.sum", frame, [numbers])
            if self.squares:
                huge = np.isfinite(numbers) & (np.abs(numbers) >= 2.0**400)
                shrunk = np.where(huge, np.ldexp(numbers, -_SHRINK), numbers) if huge.any() else numbers
                self._add(seen, f"{value}.squares", frame, list(_square(shrunk)), huge * (2 * _SHRINK // _STEP))
        seen.held += seen.plain[-1].height
        return self._compacted(seen) if seen.held > 2_000_000 else seen

    def _plain(self) -> list[pl.Expr]:
        wanted = [pl.len().cast(pl.Int64).alias("rows")]
        for value in self.values:
            wanted.append(pl.col(safe(value)).count().cast(pl.Int64).alias(f"{value}.count"))
            if self.extremes:
                wanted.append(pl.col(safe(value)).min().alias(f"{value}.min"))
                wanted.append(pl.col(safe(value)).max().alias(f"{value}.max"))
        return wanted

    def _added(self) -> list[pl.Expr]:
        wanted = [pl.col("rows").sum()]
        for value in self.values:
            wanted.append(pl.col(f"{value}.count").sum())
            if self.extremes:
                wanted.append(pl.col(f"{value}.min").min())
                wanted.append(pl.col(f"{value}.max").max())
        return wanted

    def _add(self, seen: Grouped, name: str, frame: pl.DataFrame, terms: list[Floats], above: Any = 0) -> None:
        """Add numbers to the sums of their groups, as whole numbers of their range of exponents, or of one `above`."""
        keys = frame.select(self._keys)
        for term in terms:
            bins, parts = _whole_parts(term, above)
            rows = keys.with_columns(bins, parts).filter(pl.col(_PART).is_not_null())
            summed = rows.group_by([*self._keys, _BIN]).agg(pl.col(_PART).sum())
            seen.parts.setdefault(name, []).append(summed)

    def _compacted(self, seen: Grouped) -> Grouped:
        if len(seen.plain) > 1:
            seen.plain = [pl.concat(seen.plain, how="vertical_relaxed").group_by(self._keys).agg(self._added())]
        for name, frames in seen.parts.items():
            if len(frames) > 1:
                joined = pl.concat(frames, how="vertical_relaxed")
                seen.parts[name] = [joined.group_by([*self._keys, _BIN]).agg(pl.col(_PART).sum())]
        seen.held = seen.plain[0].height if seen.plain else 0
        return seen

    def merge(self, left: Grouped, right: Grouped) -> Grouped:
        left.plain += right.plain
        for name, frames in right.parts.items():
            left.parts.setdefault(name, []).extend(frames)
        left.held += right.held
        return self._compacted(left) if left.held > 2_000_000 else left

    def finish(self, seen: Grouped) -> GroupTable:
        seen = self._compacted(seen)
        if not seen.plain:
            return GroupTable(None, seen)
        return GroupTable(self._groups(seen), seen if self.keep is None or seen.held <= self.keep else None)

    def kept(self, result: GroupTable) -> Grouped | None:
        return result.seen

    def resume(self, kept: Grouped) -> Grouped:
        expected = self.update(Grouped(), pl.DataFrame(schema=dict.fromkeys(self.columns, pl.Float64)))
        pairs = [(kept.plain, expected.plain), *((kept.parts.get(n, []), f) for n, f in expected.parts.items())]
        strange = any(frame.columns != known[0].columns for frames, known in pairs for frame in frames)
        if strange or not kept.parts.keys() <= expected.parts.keys():
            raise ValueError(f"kept sums of other columns than {self.columns}")
        return Grouped(list(kept.plain), {name: list(frames) for name, frames in kept.parts.items()}, kept.held)

    def _groups(self, seen: Grouped) -> pl.DataFrame:
        table = seen.plain[0]
        with np.errstate(over="ignore", invalid="ignore"):  # huge sums are made good below
            sums = {name: _summed(frames[0], self._keys) for name, frames in seen.parts.items()}
        for name, summed in sums.items():
            named = summed.rename({"high": f"{name}.high", "low": f"{name}.low"})
            table = table.join(named, on=list(self._keys), how="left", nulls_equal=True)
        table = table.sort(self._keys, nulls_last=False)
        table = self._finished(table, {value: self._huge(table, seen, value) for value in self.values})
        return table.rename(dict(zip(self._keys, self.keys, strict=True)))

    def _huge(self, table: pl.DataFrame, seen: Grouped, value: str) -> dict[int, tuple[Fraction, Fraction]]:
        """For each row of the table whose sums could be too large for floats, both of them as they are."""
        names = [(f"{value}.sum", _HUGE_SUM), *([(f"{value}.squares", _HUGE_SQUARES)] if self.squares else [])]
        found = [seen.parts[name][0].filter(pl.col(_BIN) >= limit).select(self._keys) for name, limit in names]
        keys = pl.concat(found).unique()
        if not keys.height:
            return {}
        on = list(self._keys)
        rows = table.select(on).with_row_index("__row__").join(keys, on=on, nulls_equal=True)
        totals = []
        for name, _ in names:
            parts = rows.join(seen.parts[name][0], on=on, nulls_equal=True).select("__row__", _BIN, _PART)
            exact: dict[int, Fraction] = {}
            for row, place, part in parts.iter_rows():
                exact[row] = exact.get(row, Fraction(0)) + Fraction(part) * Fraction(2) ** (_STEP * place)
            totals.append(exact)
        return {row: (totals[0].get(row, Fraction(0)), totals[-1].get(row, Fraction(0))) for row in rows["__row__"]}

    def _finished(self, table: pl.DataFrame, huge: dict[str, dict[int, tuple[Fraction, Fraction]]]) -> pl.DataFrame:
        made: list[pl.Series] = []
        for value in self.values:
            count = table[f"{value}.count"].to_numpy().astype(np.float64)
            high, low = (table[f"{value}.sum.{part}"].fill_null(0.0).to_numpy() for part in ("high", "low"))
            with np.errstate(all="ignore"):
                total = high + low
                columns = {"sum": total, "scaled": np.ldexp(total, SCALE), "mean": total / count}
                if self.squares:
                    squares = [table[f"{value}.squares.{part}"].fill_null(0.0).to_numpy() for part in ("high", "low")]
                    columns["m2"] = _spread(count, (high, low), (squares[0], squares[1]))
            for row, (exact, exact_squares) in huge[value].items():
                columns["sum"][row], columns["scaled"][row] = _float(exact), _float(exact * Fraction(2) ** SCALE)
                columns["mean"][row] = _float(exact / int(count[row]))
                if self.squares:
                    columns["m2"][row] = _float(exact_squares - exact * exact / int(count[row]))
            series = {name: pl.Series(f"{value}.{name}", column) for name, column in columns.items()}
            series["mean"] = series["mean"].set(pl.Series(count == 0), None)
            made += series.values()
        hidden = [name for name in table.columns if name.endswith((".high", ".low"))]
        return table.drop(hidden).with_columns(made)


def _float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _whole_parts(numbers: Floats, above: Any) -> tuple[pl.Series, pl.Series]:
    """Each finite number as (range of exponents, whole number of 128 bits); null for others."""
    finite = np.isfinite(numbers)
    _, exponents = np.frexp(np.where(finite, numbers, 0.0))
    bins = (exponents - 53) // _STEP
    parts = pl.Series(_PART, np.ldexp(np.where(finite, numbers, 0.0), -_STEP * bins)).cast(pl.Int128)
    if not finite.all():
        parts = pl.select(pl.when(pl.Series(finite)).then(parts)).to_series().alias(_PART)
    return pl.Series(_BIN, (bins + above).astype(np.int16)), parts


def _summed(parts: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """For each key its exact sum as two floats, `high` and what is left of it, `low`."""
    high = parts[_PART].cast(pl.Float64)
    low = (parts[_PART] - high.cast(pl.Int128)).cast(pl.Float64)
    scale = parts[_BIN].to_numpy().astype(np.int32) * _STEP
    scaled = parts.select(*keys, _BIN).with_columns(
        pl.Series("high", np.ldexp(high.to_numpy(), scale)), pl.Series("low", np.ldexp(low.to_numpy(), scale))
    )
    if parts.select(keys).is_unique().all():  # numbers of one size: nothing to add
        return scaled.drop(_BIN)
    ranges = [group.drop(_BIN) for _, group in sorted(scaled.group_by(_BIN), key=lambda pair: pair[0], reverse=True)]
    return reduce(lambda total, part: _joined(total, part, keys), ranges)


def _joined(total: pl.DataFrame, part: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Sums of larger numbers and of smaller ones, added with what rounding would lose kept in `low`."""
    both = total.join(part, on=list(keys), how="full", coalesce=True, nulls_equal=True, suffix=".next")
    columns = {name: both[name].fill_null(0.0).to_numpy() for name in ("high", "low", "high.next", "low.next")}
    high, rest = _two_sum(columns["high"], columns["high.next"])
    low = rest + (columns["low"] + columns["low.next"])
    high, low = _two_sum(high, low)
    return both.select(keys).with_columns(pl.Series("high", high), pl.Series("low", low))


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b, and exactly what was lost in rounding it."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _square(numbers: Floats) -> tuple[Floats, Floats]:
    """numbers * numbers, and exactly what was lost in rounding it."""
    return _product(numbers, numbers)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(numbers: Floats) -> tuple[Floats, Floats]:
    """Each number as the sum of two with 26 digits, whose products are exact."""
    shifted = numbers * 134_217_729.0  # 2^27 + 1
    high = shifted - (shifted - numbers)
    return high, numbers - high


def _spread(count: Floats, total: tuple[Floats, Floats], squares: tuple[Floats, Floats]) -> Floats:
    """squares - total^2 / count, in twice the precision of a float, for most of both to cancel without harm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total[0] / count
        # total^2 / count = total * mean, with what mean lacks made good
        product, lost = _product(mean, count)
        rest = ((total[0] - product) - lost + total[1]) / count
        high, low = _product(total[0], mean)
        low = low + total[0] * rest + total[1] * mean
        difference, lost = _two_sum(squares[0], -high)
        return np.maximum(difference + (lost + (squares[1] - low)), 0.0)
