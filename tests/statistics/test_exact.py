"""Sums without rounding, against fractions of Python; medians and ranks against plain sorting."""

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from rowmill.statistics.counts import COUNT, Counts, Ranked, rank
from rowmill.statistics.groups import GroupSums
from rowmill.statistics.median import Median
from rowmill.statistics.moments import SCALE, sums

DRAW = np.random.default_rng(5)
COLUMNS = {
    "large mean": DRAW.normal(1e9, 1, 3000),
    "all sizes": DRAW.normal(0, 1, 3000) * 10.0 ** DRAW.integers(-300, 150, 3000),
    "float32": DRAW.normal(0, 1, 3000).astype(np.float32),
    "int64": DRAW.integers(-(2**63), 2**63 - 1, 500),
    "uint64": DRAW.integers(0, 2**64 - 1, 500, dtype=np.uint64),
    "int8": DRAW.integers(-128, 127, 3000).astype(np.int8),
    "tiny": np.array([5e-324, 1e-310, -2.2e-308, 0.0, -0.0]),
    "huge": np.array([1.7e308, -1.7e308, 1e300]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_sums_are_exact(name):
    values = COLUMNS[name]
    found = sums(pl.Series(values))
    exact = [Fraction(value) for value in values.tolist()]
    assert Fraction(found.total, 1 << SCALE) == sum(exact)
    assert Fraction(found.squares, 1 << 2 * SCALE) == sum(value * value for value in exact)
    assert found.count == len(values)


def test_what_is_not_a_finite_number_is_counted_apart():
    found = sums(pl.Series([1.0, None, math.nan, math.inf, -math.inf, 2.0]))
    assert (found.count, found.missing, found.infinite) == (2, 2, 2)
    assert found.mean == 1.5


@pytest.mark.parametrize("name", ["large mean", "all sizes", "float32", "int8"])
def test_sums_of_groups_do_not_round_on_the_way(name):
    values = COLUMNS[name]
    keys = DRAW.integers(0, 20, len(values))
    frame = pl.DataFrame({"k": keys, "x": values}).with_columns(pl.col("k").replace({0: None}))
    statistic = GroupSums(("k",), ("x",), squares=name != "all sizes", extremes=True)
    whole = statistic.finish(statistic.update(statistic.start(), frame)).groups
    parts = statistic.start()
    for part in frame.sample(fraction=1, shuffle=True, seed=1).iter_slices(97):
        parts = statistic.merge(parts, statistic.update(statistic.start(), part))
    assert statistic.finish(parts).groups.equals(whole)
    for row in whole.iter_rows(named=True):
        group = frame.filter(pl.col("k").eq_missing(pl.lit(row["k"], pl.Int64)))["x"].to_list()
        total = sum(map(Fraction, group))
        assert row["rows"] == row["x.count"] == len(group)
        assert (row["x.min"], row["x.max"]) == (min(group), max(group))
        assert abs(Fraction(row["x.sum"]) - total) <= abs(total) * Fraction(1, 2**52)
        if statistic.squares:
            spread = sum(Fraction(x) ** 2 for x in group) - total * total / len(group)
            assert abs(Fraction(row["x.m2"]) - spread) <= spread * Fraction(1, 2**40)


def test_medians_are_exact_or_within_their_bound():
    values = DRAW.normal(size=5001)
    frame = pl.DataFrame({"x": values})
    exact = Median("x")
    assert exact.finish(exact.update(exact.start(), frame)).middle == np.median(values)
    rough = Median("x", exact=1000)
    found = {
        rough.merge(rough.update(rough.start(), frame[:cut]), rough.update(rough.start(), frame[cut:])).middle
        for cut in (10, 999, 1001, 4000)
    }
    assert len(found) == 1
    assert abs(found.pop() - np.median(values)) <= abs(np.median(values)) / 65_536


@pytest.mark.parametrize("dtype", [pl.Int32, pl.Int64, pl.UInt64, pl.String])
def test_ranks_are_by_count_then_value(dtype):
    values = pl.Series("v", DRAW.integers(0, 500, 4000)).cast(dtype)
    counted = Counts((("v",),))
    frame = counted.finish(counted.update(counted.start(), values.to_frame())).frame
    ranked = rank(frame, ["v"])
    wanted = sorted(frame.rows(), key=lambda row: (-row[1], row[0]))
    assert ranked.rows() == wanted
    some = Ranked((("v",),), least=5, most=10)
    kept = some.finish(some.update(some.start(), values.to_frame()))
    assert kept.frame.rows() == [row for row in wanted if row[1] >= 5][:10]
    assert kept.kept == kept.frame[COUNT].sum() < kept.seen == 4000
