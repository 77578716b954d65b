"""What operators compute of the largest and smallest floats."""

from fractions import Fraction
from functools import reduce
from math import inf

import numpy as np
import polars as pl
import pytest

from rowmill import Workflow, ops
from rowmill.statistics.groups import GroupSums
from tests.ops.run import run

BIG, LARGEST, SMALLEST = 1.7e308, 1.7976931348623157e308, 5e-324


@pytest.mark.parametrize(
    "values, wanted",
    [
        ([BIG, -BIG, BIG, -BIG, 0.0], [1.0, -1.0, 1.0, -1.0, 0.0]),
        ([LARGEST, LARGEST], [0.0, 0.0]),
        ([LARGEST, -LARGEST], [1.0, -1.0]),  # the deviation is beyond float64: the largest float64 stands for it
        ([BIG, 1.0, -1.0], [2 / 3**0.5, -1 / 3**0.5, -1 / 3**0.5]),
        ([SMALLEST, 0.0, 2 * SMALLEST], [0.0, -1.0, 1.0]),
        ([1e-310, 3e-310, 2e-310], [-1.0, 1.0, 0.0]),
        ([1e200, -1e200, 3e200], [0.0, -1.0, 1.0]),
        ([1e-200, 2e-200, 3e-200], [-1.0, 0.0, 1.0]),
    ],
)
def test_normalize_of_extreme_values(values, wanted):
    for dtype, digits in (("float64", 1e-14), ("float32", 1e-6)):
        made = run(["x"] >> ops.Normalize(out_dtype=dtype), {"x": values})["x"].to_list()
        assert made == pytest.approx(wanted, rel=digits, abs=digits)


def test_other_operators_on_extreme_values():
    values = [BIG, -BIG, 0.0]
    assert run(["x"] >> ops.NormalizeMinMax(), {"x": values})["x"].to_list() == [1.0, 0.0, 0.5]
    assert run(["x"] >> ops.NormalizeMinMax(), {"x": [SMALLEST, 0.0, 2 * SMALLEST]})["x"].to_list() == [0.5, 0.0, 1.0]
    assert run(["x"] >> ops.FillMedian(), {"x": [BIG, BIG, None]})["x"].to_list() == [BIG] * 3
    assert run(["x"] >> ops.LogOp(), {"x": [BIG, 1.0]})["x"].to_list() == pytest.approx([709.72680, 0.6931472])
    stats = ops.DataStats()
    run(["x"] >> stats, {"x": [BIG, -BIG]})
    assert stats.output["x"]["std"] == LARGEST and stats.output["x"]["mean"] == 0.0


GROUPS = {
    "balanced": ([BIG, -BIG, BIG, -BIG], 0.0, inf),
    "equal": ([BIG, BIG, BIG], BIG, 0.0),
    "largest": ([LARGEST] * 5, LARGEST, 0.0),
    "opposite": ([LARGEST, -LARGEST], 0.0, inf),
    "large": ([1e200, 3e200], 2e200, inf),
    "one huge": ([BIG, 0.0, 0.0], BIG / 3, inf),
    "usual": ([1.0, 2.0, 3.0], 2.0, 1.0),
    "tiny": ([1e-310, 3e-310], 2e-310, 0.0),
}


def grouped():
    rows = [(name, value) for name, (values, _, _) in GROUPS.items() for value in values]
    return pl.DataFrame({"key": [name for name, _ in rows], "x": [value for _, value in rows]})


def float32(value):
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def test_statistics_of_groups_of_extreme_values():
    """JoinGroupby and Groupby: what a float32 cannot hold is infinite; nothing is NaN, or 0 by accident."""
    frame, stats = grouped(), ["mean", "std", "var", "sum"]
    joined = run(["key"] >> ops.JoinGroupby(cont_cols=["x"], stats=stats), frame).with_columns(frame["key"])
    made = run(["key", "x"] >> ops.Groupby(["key"], aggs={"x": stats}), frame)
    for name, (values, mean, std) in GROUPS.items():
        total = float(sum(map(Fraction, values))) if name not in ("equal", "largest") else inf
        wanted = [float32(mean), std, std * std, float32(total)]
        for table, prefix in ((joined, "key_x_"), (made, "x_")):
            row = table.filter(key=name).row(0, named=True)
            assert [row[prefix + stat] for stat in stats] == pytest.approx(wanted), (prefix, name)


def test_sums_of_groups_are_exact_where_floats_overflow():
    found = GroupSums(("key",), ("x",), squares=True)
    frame = pl.DataFrame({"key": ["a"] * 4 + ["b"] * 3, "x": [LARGEST, LARGEST, -LARGEST, 1e292, BIG, 1.0, -BIG]})
    for size in (1, 3, 7):
        parts = [found.update(found.start(), part) for part in frame.iter_slices(size)]
        table = found.finish(reduce(found.merge, parts)).groups
        assert table["x.sum"].to_list() == [inf, 1.0]
        assert table["x.scaled"].to_list() == [pytest.approx(LARGEST * 2.0**-64), 2.0**-64]
        assert table["x.mean"].to_list() == [pytest.approx(LARGEST / 4), 1 / 3]
        assert table["x.m2"].to_list() == [inf, inf]


def test_target_encoding_of_extreme_values():
    frame = grouped()
    for smooth in (0, 20):
        for folds in (1, 3):
            node = ["key"] >> ops.TargetEncoding("x", p_smooth=smooth, kfold=folds, fold_seed=None, out_dtype="float64")
            workflow = Workflow(node).fit(frame)
            made = workflow.transform(frame, folds=True)["TE_key_x"]
            assert made.is_finite().all(), (smooth, folds)
            if smooth == 0:
                found = workflow.transform(pl.DataFrame({"key": list(GROUPS)}))["TE_key_x"].to_list()
                assert found == pytest.approx([mean for _, mean, _ in GROUPS.values()], rel=1e-12, abs=1e-300)
    small = frame.filter(pl.col("key").is_in(["usual"]))
    node = ["key"] >> ops.TargetEncoding("x", p_smooth=0, kfold=3, fold_seed=None, out_dtype="float64")
    assert run(node, small, folds=True)["TE_key_x"].to_list() == [2.5, 2.0, 1.5]
