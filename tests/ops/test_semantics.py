"""What each operator computes, against figures worked out by hand or by a plain program."""

import math
from fractions import Fraction
from functools import reduce
from math import inf

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rowmill import ColumnSelector, Dataset, Schema, Tags, Workflow, ops
from rowmill.errors import (
    ArgumentError,
    ColumnError,
    DtypeError,
    NotFittedError,
    UnseenValueError,
)
from rowmill.ops import get_embedding_sizes
from rowmill.statistics.groups import GroupSums

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
        table = found.finish(reduce(found.merge, parts))
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


def run(node, data, **options):
    frame = pl.DataFrame(data) if not isinstance(data, pl.DataFrame) else data
    return Workflow(node).fit(frame).transform(frame, **options)


# Categorify


def test_codes_go_by_frequency_then_by_value():
    data = {"x": ["B", "A", "C", "A", "C", "E", None, "C"]}
    assert run(["x"] >> ops.Categorify(), data)["x"].to_list() == [5, 4, 3, 4, 3, 6, 1, 3]


def test_unseen_values_and_nulls():
    workflow = Workflow(["x"] >> ops.Categorify()).fit(pl.DataFrame({"x": [10, 20, 20]}))
    made = workflow.transform({"x": np.array([20, 10, 99, 2**40])})
    assert made["x"].tolist() == [3, 4, 2, 2]
    assert workflow.transform({"x": None}) == {"x": 1}


def test_a_threshold_a_limit_and_buckets():
    data = {"x": [1] * 5 + [2] * 4 + [3] * 3 + [4] * 2 + [5]}
    assert run(["x"] >> ops.Categorify(freq_threshold=3), data)["x"].to_list() == [3] * 5 + [4] * 4 + [5] * 3 + [2] * 3
    limited = Workflow(["x"] >> ops.Categorify(max_size=5)).fit(pl.DataFrame(data))
    assert limited.transform(pl.DataFrame(data))["x"].to_list() == [3] * 5 + [4] * 4 + [2] * 6
    assert get_embedding_sizes(limited) == {"x": (5, 16)}
    hashed = Workflow(["x"] >> ops.Categorify(freq_threshold=3, num_buckets=4)).fit(pl.DataFrame(data))
    codes = hashed.transform(pl.DataFrame(data))["x"].to_list()
    assert codes[:12] == [6] * 5 + [7] * 4 + [8] * 3
    assert set(codes[12:]) <= {2, 3, 4, 5}
    assert codes[12] == codes[13]
    assert get_embedding_sizes(hashed) == {"x": (9, 16)}


def test_a_saturated_vocabulary_has_exactly_the_size_asked_for():
    workflow = Workflow(["x"] >> ops.Categorify(max_size=1000)).fit(pl.DataFrame({"x": range(5000)}))
    assert get_embedding_sizes(workflow) == {"x": (1000, 77)}
    assert workflow.transform(pl.DataFrame({"x": range(5000)}))["x"].max() == 999


def test_joint_and_combined_columns():
    data = {"a": ["x", "y", "x", None], "b": ["y", "y", "z", None]}
    joint = run([["a", "b"]] >> ops.Categorify(encode_type="joint"), data)
    assert joint.to_dict(as_series=False) == {"a": [4, 3, 4, 1], "b": [3, 3, 5, 1]}
    combo = run([["a", "b"]] >> ops.Categorify(encode_type="combo"), data)
    assert combo.to_dict(as_series=False) == {"a_b": [3, 5, 4, 1]}  # (x, y), (x, z), (y, y): once each, in order
    with pytest.raises(ArgumentError, match="two groups"):
        Workflow([["a", "b"], ["a"]] >> ops.Categorify()).fit(pl.DataFrame(data))


def test_one_table_for_all_columns():
    data = {"a": [1, 1, 2], "b": [7, 8, 8]}
    workflow = Workflow(["a", "b"] >> ops.Categorify(single_table=True)).fit(pl.DataFrame(data))
    made = workflow.transform(pl.DataFrame(data))
    assert made["a"].to_list() == [3, 3, 4]
    assert made["b"].to_list() == [5 + 4, 5 + 3, 5 + 3]
    assert get_embedding_sizes(workflow) == {"a": (10, 16), "b": (10, 16)}


def test_lists_keep_their_structure():
    data = pl.DataFrame({"x": [[3, 1], None, [], [1, None, 9]]})
    assert run(["x"] >> ops.Categorify(), data)["x"].to_list() == [[4, 3], None, [], [3, 1, 5]]
    sizes = get_embedding_sizes(Workflow(["x"] >> ops.Categorify()).fit(data))
    assert sizes == ({}, {"x": (6, 16)})


def test_lists_of_strings():
    data = pl.DataFrame({"g": [["a", "b"], None, [], ["b", None, "c"]]})
    workflow = Workflow(["g"] >> ops.Categorify()).fit(data)
    assert workflow.transform(data)["g"].to_list() == [[4, 3], None, [], [3, 1, 5]]
    assert workflow.output_schema["g"].is_list
    assert get_embedding_sizes(workflow) == ({}, {"g": (6, 16)})
    assert run(["g"] >> ops.HashBucket(5), data)["g"].list.len().to_list() == [2, None, 0, 3]
    assert run(["g"] >> ops.ListSlice(1), data)["g"].to_list() == [["a"], None, [], ["b"]]
    assert workflow.transform({"g": ["b", "x"]}) == {"g": [3, 2]}


def test_lists_of_strings_are_encoded_like_any_list(tmp_path):
    data = pl.DataFrame({"x": [["c", "a"], None, [], ["a", None, "z"]]})
    made = run(["x"] >> ops.Categorify(), data)
    assert made["x"].to_list() == [[4, 3], None, [], [3, 1, 5]] and made["x"].dtype == pl.List(pl.Int64)
    workflow = Workflow(["x"] >> ops.Categorify()).fit(data)
    workflow.save(tmp_path / "saved")
    loaded = Workflow.load(tmp_path / "saved")
    for one in (workflow, loaded):
        assert get_embedding_sizes(one) == ({}, {"x": (6, 16)}) and one.output_schema["x"].is_list
        assert one.transform(Dataset(data)).to_polars().equals(made)
        assert one.transform(data.head(0))["x"].dtype == pl.List(pl.Int64)


def test_integers_and_strings_are_exact_at_any_size():
    near = [2**62, 2**62 + 1, 2**62 + 2, -(2**62), 2**63 - 1, -(2**63)]
    made = run(["x"] >> ops.Categorify(), {"x": pl.Series(near, dtype=pl.Int64)})
    assert sorted(made["x"].to_list()) == [3, 4, 5, 6, 7, 8]
    unsigned = pl.Series([2**64 - 1, 2**63, 0, 2**64 - 1], dtype=pl.UInt64)
    assert run(["x"] >> ops.Categorify(), {"x": unsigned})["x"].to_list() == [3, 5, 4, 3]
    texts = ["a" * 1000, "a" * 1001, "", "ä", "a\0b", "a\0c"]
    assert len(set(run(["x"] >> ops.Categorify(), {"x": texts})["x"].to_list())) == 6


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True, None],
        [1.5, float("nan"), -0.0, 0.0],
        pl.Series(["2020-01-01", "2021-01-01", None, "2020-01-01"]).str.to_date(),
        pl.Series([1, 2, None, 1]).cast(pl.Datetime("us")),
        pl.Series([b"a", b"b", None, b"a"]),
        pl.Series(["1.10", "2.20", None, "1.10"]).cast(pl.Decimal(10, 2)),
    ],
)
def test_every_type_can_be_encoded(values):
    made = run(["x"] >> ops.Categorify(), {"x": values})["x"].to_list()
    series = pl.Series(values)
    missing = series.is_null() | (series.is_nan() if series.dtype.is_float() else False)
    assert [code == 1 for code in made] == missing.to_list()
    assert min(made) == 1
    assert max(made) == 4


def test_values_of_the_same_hash_are_not_taken_for_one(monkeypatch):
    """With a hash of six bits only, keys and other values collide all the time."""
    from rowmill.statistics import lookup

    weak = lookup.hashes
    monkeypatch.setattr(lookup, "hashes", lambda columns, seed=0: weak(columns, seed) % np.uint64(64))
    keys = [f"key {i}" for i in range(12)]
    found = lookup.Lookup(pl.DataFrame({"k": keys})).find(
        [pl.Series("k", [*keys, *(f"other {i}" for i in range(500))])]
    )
    assert found.tolist() == [*range(12), *([-1] * 500)]


def test_given_vocabularies(tmp_path):
    pl.DataFrame({"y": [5, 6]}).write_parquet(tmp_path / "v.parquet")
    given = ops.Categorify(vocabs={"x": pl.Series(["b", "a"]), "y": tmp_path / "v.parquet"})
    made = run(["x", "y"] >> given, {"x": ["a", "b", "c"], "y": [6, 5, 4]})
    assert made.to_dict(as_series=False) == {"x": [4, 3, 2], "y": [4, 3, 2]}


def test_unseen_values_can_be_refused():
    workflow = Workflow(["x"] >> ops.Categorify(unseen="error")).fit(pl.DataFrame({"x": ["a", "b", None]}))
    assert workflow.transform(pl.DataFrame({"x": ["b", None]}))["x"].to_list() == [4, 1]
    with pytest.raises(UnseenValueError, match=r"'x'.*\['c'\]"):
        workflow.transform(pl.DataFrame({"x": ["a", "c"]}))


def test_vocabularies_can_be_read_and_nothing_is_written_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = pl.DataFrame({"x": ["a", "b", "a", None], "a/../b": [1, 2, 3, 4]})
    Workflow(["x"] >> ops.Categorify()).fit(data)
    assert list(tmp_path.iterdir()) == []
    Workflow(["x", "a/../b"] >> ops.Categorify(out_path="out")).fit(data)
    unique = pl.read_parquet("out/categories/unique.x.parquet")
    assert unique.to_dict(as_series=False) == {"x": ["a", "b"], "x_size": [2, 1]}
    meta = pl.read_parquet("out/categories/meta.x.parquet")
    assert meta["kind"].to_list() == ["pad", "null", "oov", "unique"]
    assert meta["num_observed"].to_list() == [0, 1, 0, 3]
    assert {p.parent.name for p in tmp_path.rglob("*.parquet")} == {"categories"}


def test_a_vocabulary_too_large_for_memory_goes_to_disk():
    data = Dataset({"x": np.arange(300_000) % 90_000, "s": [f"v{i % 20_000}" for i in range(300_000)]}, npartitions=20)
    small = Workflow(["x", "s"] >> ops.Categorify(cardinality_memory_limit="300KB")).fit(data)
    large = Workflow(["x", "s"] >> ops.Categorify()).fit(data)
    assert small._fitted == large._fitted
    whole = Workflow(["x", "s"] >> ops.Categorify()).fit(data, memory="1MB")  # all of them together
    assert whole._fitted == large._fitted


@pytest.mark.parametrize(
    "settings",
    [
        {"encode_type": "other"},
        {"freq_threshold": 2, "max_size": 10},
        {"num_buckets": 0},
        {"num_buckets": "3"},
        {"max_size": -1},
        {"vocabs": {"x": [1]}, "encode_type": "combo"},
        {"unseen": "what"},
    ],
)
def test_settings_that_cannot_be_meant(settings):
    with pytest.raises(ValueError, match=r"wanted|exclude|learn"):
        ops.Categorify(**settings)


def test_a_limit_below_what_is_reserved():
    with pytest.raises(ArgumentError, match="reserved"):
        Workflow(["x"] >> ops.Categorify(max_size=2)).fit(pl.DataFrame({"x": [1]}))


# Numbers


def test_a_large_mean_with_a_small_spread_comes_out_right():
    values = 1e9 + np.random.default_rng(0).normal(0, 1, 100_000)
    normalize = ops.Normalize(out_dtype="float64")
    made = Workflow(["x"] >> normalize).fit(Dataset({"x": values}, npartitions=13)).transform({"x": values})["x"]
    exact = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((values - exact) ** 2) / (len(values) - 1))
    assert normalize.means["x"] == exact
    assert normalize.stds["x"] == pytest.approx(spread, rel=1e-12)
    assert abs(made.mean()) < 1e-6
    assert made.std(ddof=1) == pytest.approx(1.0, rel=1e-9)


def test_normalize_of_nulls_constants_and_infinities():
    data = {"x": [1.0, None, 3.0, float("nan")], "c": [5, 5, 5, 5]}
    made = run(["x", "c"] >> ops.Normalize(), data)
    assert made["x"].to_list()[:3] == [pytest.approx(-1 / math.sqrt(2)), None, pytest.approx(1 / math.sqrt(2))]
    assert made["c"].to_list() == [0, 0, 0, 0]
    assert made.dtypes == [pl.Float32, pl.Float32]
    with pytest.warns(UserWarning, match="infinite"):
        run(["x"] >> ops.Normalize(), {"x": [1.0, 2.0, float("inf")]})


def test_min_max():
    scaled = ops.NormalizeMinMax()
    made = run(["x", "c"] >> scaled, {"x": [2, 4, 6, None], "c": [0, 0, None, 0]})
    assert made["x"].to_list() == [0, 0.5, 1, None]
    assert made["c"].to_list() == [0.5, 0.5, None, 0.5]
    assert (scaled.mins["x"], scaled.maxs["x"]) == (2, 6)


def test_log_is_in_float32():
    made = run(["x"] >> ops.LogOp(), {"x": [0, 1, 9, None]})["x"]
    wanted = np.log(np.float32([0, 1, 9]) + np.float32(1))
    assert made.to_list()[:3] == pytest.approx(wanted.tolist(), rel=1e-6)
    assert made.dtype == pl.Float32


def test_clip_keeps_type_and_nulls():
    made = run(["x", "y"] >> ops.Clip(min_value=0.5, max_value=3), {"x": [-1, 2, 9, None], "y": [0.1, 2.5, 9.0, None]})
    assert made["x"].to_list() == [1, 2, 3, None]
    assert made["y"].to_list() == [0.5, 2.5, 3.0, None]
    with pytest.raises(ArgumentError):
        ops.Clip()


def test_filling():
    data = {"x": pl.Series([None, 2.0, float("nan"), 4.0]), "i": pl.Series([None, 3, 8, 4])}
    made = run(["x", "i"] >> ops.FillMissing(7, add_binary_cols=True), data)
    assert made["x"].to_list() == [7, 2, 7, 4]
    assert made["i"].to_list() == [7, 3, 8, 4]
    assert made["x_filled"].to_list() == [True, False, True, False]
    median = ops.FillMedian()
    made = run(["x", "i"] >> median, data)
    assert made["x"].to_list() == [3, 2, 3, 4]
    assert median.medians == {"x": 3.0, "i": 4.0}
    with pytest.raises(ArgumentError, match=r"1\.5"):
        run(["i"] >> ops.FillMissing(1.5), data)


def test_bins():
    made = run(["x"] >> ops.Bucketize([0, 10]), {"x": [-1, 0, 5, 10, 11, None]})
    assert made["x"].to_list() == [0, 1, 1, 2, 2, 2]
    by_name = run(["x", "y"] >> ops.Bucketize({"x": [0], "y": [1, 2]}), {"x": [5, -5], "y": [1, 3]})
    assert by_name.to_dict(as_series=False) == {"x": [1, 0], "y": [1, 2]}
    with pytest.raises(DtypeError):
        ops.Bucketize(3)


def test_hashes_depend_on_the_value_only():
    data = pl.DataFrame({"x": ["a", "b", "a", None], "i": [1, 2, 1, 3]})
    made = run(["x", "i"] >> ops.HashBucket(1000), data)
    assert made["x"][0] == made["x"][2]
    assert made["i"][0] == made["i"][2]
    alone = Workflow(["x", "i"] >> ops.HashBucket(1000)).fit_schema(Dataset(data).schema).transform(data[2])
    assert alone.row(0) == made.row(2)
    # These never change: saved models depend on them.
    assert made["x"].to_list() == [FIXED["a"], FIXED["b"], FIXED["a"], FIXED[None]]
    assert made["i"].to_list()[:2] == [FIXED[1], FIXED[2]]


FIXED = {"a": 737, "b": 946, None: 271, 1: 465, 2: 110}


def test_hashes_spread_evenly():
    counts = np.bincount(run(["x"] >> ops.HashBucket(100), {"x": np.arange(100_000)})["x"].to_numpy(), minlength=100)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_crosses():
    data = {"a": [1, 1, 2, 1], "b": ["x", "y", "x", "x"]}
    made = run([["a", "b"]] >> ops.HashedCross(1 << 30), data)
    assert made.columns == ["a_X_b"]
    assert len(set(made["a_X_b"])) == 3
    assert made["a_X_b"][0] == made["a_X_b"][3]
    assert run(["a", "b"] >> ops.HashedCross({("a", "b"): 5}), data).columns == ["a_X_b"]


# Targets and joins


def test_target_encoding_by_hand():
    data = pl.DataFrame({"c": ["a", "a", "a", "b", "b", "b"], "t": [1, 0, 1, 0, 0, 1]})
    node = ["c"] >> ops.TargetEncoding("t", kfold=3, fold_seed=None, p_smooth=2)
    workflow = Workflow(node).fit(data)
    made = workflow.transform(Dataset(data)).to_polars()["TE_c_t"].to_list()
    mean = 0.5  # fold of row i is i % 3, so each row of a value is in a fold of its own
    wanted = [(2 - t + 2 * mean) / (2 + 2) for t in (1, 0, 1)] + [(1 - t + 2 * mean) / (2 + 2) for t in (0, 0, 1)]
    assert made == pytest.approx(wanted)
    served = workflow.transform(pl.DataFrame({"c": ["a", "b", "z", None]}))["TE_c_t"].to_list()
    assert served == pytest.approx([(2 + 1) / 5, (1 + 1) / 5, mean, mean])


def test_folds_do_not_depend_on_how_the_table_is_cut(tmp_path):
    draw = np.random.default_rng(1)
    data = pl.DataFrame({"c": draw.integers(0, 9, 1000), "t": draw.random(1000)})
    node = ["c"] >> ops.TargetEncoding("t", kfold=5)
    whole = Workflow(node).fit(data).transform(Dataset(data)).to_polars()
    for pieces in (2, 17):
        cut = Dataset(data, npartitions=pieces)
        assert Workflow(node).fit(cut).transform(cut).to_polars().equals(whole)
    for number in range(10):
        data[number * 100 : number * 100 + 100].write_parquet(tmp_path / f"{number}.parquet", row_group_size=7)
    files = Dataset(tmp_path)
    assert Workflow(node).fit_transform(files).to_polars().equals(whole)
    assert Workflow(node).fit(files, memory="10KB").transform(files).to_polars().equals(whole)


def test_other_data_are_encoded_from_all_rows():
    data = pl.DataFrame({"c": [1, 1, 2, 2] * 50, "t": [0.0, 1.0, 1.0, 1.0] * 50})
    workflow = Workflow(["c"] >> ops.TargetEncoding("t")).fit(Dataset(data))
    assert workflow.transform(Dataset(data)).to_polars()["TE_c_t"].n_unique() > 2
    other = workflow.transform(Dataset(data.head(100))).to_polars()["TE_c_t"]
    assert other.n_unique() == 2


def test_means_of_groups_are_over_the_values_that_are_there():
    data = {"k": ["a", "a", "a", "b", None], "x": [1.0, None, 3.0, 5.0, 7.0]}
    made = run(["k"] >> ops.JoinGroupby(cont_cols=["x"], stats=["count", "mean", "std", "sum", "min", "max"]), data)
    assert made["k_count"].to_list() == [3, 3, 3, 1, 1]
    assert made["k_x_mean"].to_list() == [2, 2, 2, 5, 7]
    assert made["k_x_std"].to_list() == [pytest.approx(math.sqrt(2))] * 3 + [None, None]
    assert made["k_x_sum"].to_list() == [4, 4, 4, 5, 7]
    with pytest.raises(ArgumentError, match="median"):
        ops.JoinGroupby(stats=["median"])


def test_groups_may_come_from_a_node():
    data = {"k": [1, 1, 2], "x": [1.0, None, 3.0]}
    made = run(["k"] >> ops.JoinGroupby(cont_cols=["x"] >> ops.FillMissing(5), stats=["mean"]), data)
    assert made["k_x_mean"].to_list() == [3, 3, 3]


@pytest.mark.parametrize("kind", ["polars", "pandas", "arrow", "dict", "dataset", "path", "lazy"])
def test_joining_another_table(kind, tmp_path):
    other = pl.DataFrame({"id": [1, 2, 2], "price": [1.5, 2.5, 3.5], "name": ["x", "y", "z"]})
    other.write_parquet(tmp_path / "o.parquet")
    kinds = {
        "polars": other, "pandas": other.to_pandas(), "arrow": other.to_arrow(), "lazy": other.lazy(),
        "dict": other.to_dict(), "dataset": Dataset(other), "path": str(tmp_path / "o.parquet"),
    }  # fmt: skip
    data = pl.DataFrame({"k": [2, 9, 1, None], "v": [1, 2, 3, 4]})
    first = run(["k", "v"] >> ops.JoinExternal(kinds[kind], on="k", on_ext="id", drop_duplicates_ext=True), data)
    assert first["price"].to_list() == [2.5, None, 1.5, None]
    assert first["name"].to_list() == ["y", None, "x", None]
    every = run(["k", "v"] >> ops.JoinExternal(kinds[kind], on="k", on_ext="id", columns_ext=["price"]), data)
    assert every.select("k", "price").rows() == [(2, 2.5), (2, 3.5), (9, None), (1, 1.5), (None, None)]
    inner = run(["k", "v"] >> ops.JoinExternal(kinds[kind], on="k", on_ext="id", how="inner"), data)
    assert inner["v"].to_list() == [1, 1, 3]


def test_a_join_on_columns_that_are_not_there():
    with pytest.raises(ColumnError, match="did you mean 'price'"):
        ops.JoinExternal({"id": [1], "price": [1]}, on="id", columns_ext=["prise"])
    with pytest.raises(ColumnError, match="both sides"):
        run(["k", "v"] >> ops.JoinExternal({"k": [1], "v": [1]}, on="k"), {"k": [1], "v": [2]})


# Rows, lists, functions


def test_filters_take_rows_from_every_branch():
    data = {"x": [1, -1, 2, None], "y": [10, 20, 30, 40]}
    node = (["x"] >> ops.Filter(lambda df: df["x"] > 0)) + (["y"] >> ops.Normalize(out_dtype="float64"))
    made = run(node, data)
    assert made["x"].to_list() == [1, 2]
    whole = run(["y"] >> ops.Normalize(out_dtype="float64"), data)["y"]  # its mean is that of all rows
    assert made["y"].to_list() == [whole[0], whole[2]]
    assert run(["x"] >> ops.Filter(lambda df: df[df["x"] > 0]), data)["x"].to_list() == [1, 2]
    assert run((["x"] >> ops.Dropna()) + ["y"], data)["y"].to_list() == [10, 20, 30]
    with pytest.raises(ArgumentError, match="boolean"):
        run(["x"] >> ops.Filter(lambda df: df["x"]), data)


def test_a_filtered_dataset_knows_its_rows():
    data = Dataset({"x": np.arange(1000)}, npartitions=7)
    made = Workflow(["x"] >> ops.Filter(pl.col("x") % 3 == 0)).fit(data).transform(data)
    assert made.num_rows == 334
    assert made.to_polars()["x"].to_list() == list(range(0, 1000, 3))


def test_groups_within_a_partition():
    data = {"u": [1, 2, 1, 2, 1], "t": [3, 1, 1, 2, 2], "x": [30.0, 10.0, 10.0, 20.0, 20.0]}
    node = ["u", "t", "x"] >> ops.Groupby(
        ["u"], sort_cols="t", aggs={"x": ["list", "first", "last", "mean"], "t": "count"}
    )
    made = run(node, data)
    assert made.to_dict(as_series=False) == {
        "u": [1, 2], "x_list": [[10.0, 20.0, 30.0], [10.0, 20.0]], "x_first": [10.0, 10.0], "x_last": [30.0, 20.0],
        "x_mean": [20.0, 15.0], "t_count": [3, 2],
    }  # fmt: skip
    with pytest.raises(ArgumentError, match="new rows"):
        run(node + ["x"], data)  # noqa: RUF005


def test_what_is_learnt_of_groups_goes_by_partition_not_by_memory():
    """Groups and lags are made within partitions: however little memory there is, these are never cut to fit it."""
    data = pl.DataFrame({"u": np.arange(3000) // 5, "x": np.arange(3000.0) ** 1.5})
    for node in (
        ["u", "x"] >> ops.Groupby(["u"], aggs={"x": "sum"}) >> ops.Normalize(out_dtype="float64"),
        ["x"] >> ops.DifferenceLag("u") >> ops.Normalize(out_dtype="float64"),
    ):
        table = Dataset(data, npartitions=4)  # 750 rows: no group is cut by these
        plenty, little = (Workflow(node).fit(table, memory=memory, threads=2) for memory in ("1GB", "20KB"))
        assert plenty._fitted == little._fitted
        assert plenty.transform(table).to_polars().equals(little.transform(table).to_polars())


def test_lags_stop_at_the_edge_of_a_group():
    made = run(["x"] >> ops.DifferenceLag("u", shift=[1]), {"u": [1, 1, 1, 2, 2], "x": [1, 4, 9, 100, 101]})
    assert made["x_difference_lag_1"].to_list() == [None, 3, 5, None, 1]


@pytest.mark.parametrize(
    ("slicing", "wanted"),
    [
        ((2,), slice(0, 2)), ((-2,), slice(-2, None)), ((1, 3), slice(1, 3)), ((1, -1), slice(1, -1)),
        ((-3, -1), slice(-3, -1)), ((0, 0), slice(0, 0)), ((-2, 9), slice(-2, 9)),
    ],
)  # fmt: skip
def test_slices_are_those_of_python(slicing, wanted):
    lists = [[1, 2, 3, 4, 5], [1], [], [1, 2, 3]]
    made = run(["x"] >> ops.ListSlice(*slicing), {"x": pl.Series(lists, dtype=pl.List(pl.Int64))})
    assert made["x"].to_list() == [row[wanted] for row in lists]


def test_padding():
    lists = pl.Series([[1, 2, 3], [4], [], None], dtype=pl.List(pl.Int64))
    made = run(["x"] >> ops.ListSlice(2, pad=True, pad_value=-1), {"x": lists})
    assert made["x"].to_list() == [[1, 2], [4, -1], [-1, -1], [-1, -1]]
    counted = ops.ValueCount()
    run(["x"] >> counted, {"x": lists})
    assert counted.stats["x"]["value_count"] == {"min": 0, "max": 3}


def test_functions_get_pandas():
    seen = []

    def look(column, frame):
        seen.append((type(column), type(frame), sorted(frame.columns)))
        return column + frame["y"]

    made = run(["x"] >> ops.LambdaOp(look, dependency="y"), {"x": [1, 2], "y": [0.5, 0.25]})
    assert made["x"].to_list() == [1.5, 2.25]
    assert seen[-1] == (pd.Series, pd.DataFrame, ["x", "y"])
    assert run(ColumnSelector("x") >> (lambda col: col.str.upper()), {"x": ["a", None]})["x"].to_list() == ["A", None]
    assert run(ColumnSelector("x") >> (lambda col: col.fillna(0).astype("int64")), {"x": [1, None]})["x"].to_list() == [
        1,
        0,
    ]
    with pytest.raises(ArgumentError):
        ops.LambdaOp(lambda a, b, c: a)


def test_integers_and_flags_beside_nulls_reach_functions_as_they_are(tmp_path):
    """As floats they would lose digits, and their text would depend on whether a piece of the table has a null."""
    large = 2**53 + 1
    data = {"id": [large, large - 1, None, 5], "b": [True, None, False, None]}
    assert run(["id"] >> ops.LambdaOp(lambda col: col + 1), data)["id"].to_list() == [large + 1, large, None, 6]
    assert run(["b"] >> ops.LambdaOp(lambda col: ~col), data)["b"].to_list() == [False, None, True, None]
    assert run(["id"] >> ops.Filter(lambda df: df["id"] == large), data)["id"].to_list() == [large]
    pl.DataFrame({"id": [1, 2, None, 4]}).write_parquet(tmp_path / "a.parquet", row_group_size=2)
    workflow = Workflow(["id"] >> ops.LambdaOp(lambda col: col.astype(str)))
    for part_size in ("16B", "1MB"):
        cut = Dataset(tmp_path / "a.parquet", part_size=part_size)
        assert workflow.fit(cut).transform(cut).to_polars()["id"].drop_nulls().to_list()[:2] == ["1", "2"]
        assert workflow.transform(cut).to_polars()["id"][3] == "4" == workflow.transform({"id": 4})["id"]
    nullable = pd.DataFrame({"id": pd.array([large, None], "Int64")})
    kept = Workflow(["id"] >> ops.AddTags(["x"])).fit(nullable).transform(nullable)
    assert kept["id"].dtype == "Int64" and kept["id"][0] == large and kept["id"].isna()[1]


def test_settings_by_column_name_columns_that_are_there():
    for setting in (
        {"freq_threshold": {"cc": 2}},
        {"max_size": {"cc": 5}},
        {"num_buckets": {"cc": 5}},
        {"vocabs": {"cc": [1]}},
    ):
        with pytest.raises(ColumnError, match="names 'cc', which is not selected; did you mean 'c'"):
            run(["c"] >> ops.Categorify(**setting), {"c": [1, 2]})
    with pytest.raises(ArgumentError, match="cannot fill column 'c', which is string, with 0"):
        run(["c"] >> ops.FillMissing(), {"c": ["a", None]})


def test_expressions():
    made = run(["a", "b"] >> ops.Expr(ratio=pl.col("a") / pl.col("b"), keep=True), {"a": [1, 3], "b": [2, 4]})
    assert made.to_dict(as_series=False) == {"a": [1, 3], "b": [2, 4], "ratio": [0.5, 0.75]}
    chained = ["a"] >> ops.FillMissing(5) >> ops.Expr(pl.col("a") * 2) >> ops.Normalize()
    assert run(chained, {"a": [None, 1]}).columns == ["a"]
    assert run(["a"] >> ops.FillMissing, {"a": [None, 1]})["a"].to_list() == [0, 1]  # the class, with its defaults
    with pytest.raises(ColumnError, match="select the columns"):
        run(["a"] >> ops.Expr(pl.col("nope")), {"a": [1]})


def test_similarities():
    features = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    data = {"a": [0, 1, 1, None], "b": [0, 1, 2, 0]}
    made = run([("a", "b")] >> ops.ColumnSimilarity(features, metric="cosine"), data)
    assert made["a_b_sim"].to_list() == pytest.approx([1, 1, 0, 0])
    inner = run([("a", "b")] >> ops.ColumnSimilarity(features, metric="inner"), data)
    assert inner["a_b_sim"].to_list() == [2, 1, 0, 0]
    weights = np.log(3 / np.array([2, 2]))
    tfidf = features * weights
    tfidf /= np.linalg.norm(tfidf, axis=1, keepdims=True)
    made = run([("a", "b")] >> ops.ColumnSimilarity(features), {"a": [0], "b": [1]})
    assert made["a_b_sim"].to_list() == pytest.approx([tfidf[0] @ tfidf[1]])


def test_measurements():
    stats = ops.DataStats()
    run(
        ["x", "s", "f"] >> stats,
        {"x": [1, 2, 2, None], "s": ["a", "bbb", None, "a"], "f": [1.0, float("nan"), 3.0, 5.0]},
    )
    assert stats.output["x"] == {
        "dtype": "int64", "cardinality": 2, "min": 1.0, "max": 2.0, "mean": pytest.approx(5 / 3),
        "std": pytest.approx(0.57735, rel=1e-4), "per_nan": 25.0,
    }  # fmt: skip
    assert stats.output["s"]["cardinality"] == 2
    assert (stats.output["s"]["min"], stats.output["s"]["max"]) == (1, 3)
    assert "cardinality" not in stats.output["f"]
    assert stats.output["f"]["per_nan"] == 25.0


def test_smaller_types():
    made = run(["a", "b", "c"] >> ops.ReduceDtypeSize(), {"a": [1, 100], "b": [0, 40_000], "c": [1.0, 2.0]})
    assert made.dtypes == [pl.Int8, pl.Int32, pl.Float32]


def test_low_cardinalities_are_left_out():
    data = {"a": [1, 1, 1], "b": [1, 2, 3]}
    made = run(["a", "b"] >> ops.Categorify() >> ops.DropLowCardinality(), data)
    assert made.columns == ["b"]


# The graph


def test_tags_and_stars_select():
    schema = Dataset({"a": [1], "b": [2], "c": [3]}).with_tags({"a": Tags.USER, "c": Tags.USER}).schema
    workflow = Workflow(ColumnSelector(tags=[Tags.USER]) >> ops.Rename(postfix="_u")).fit_schema(schema)
    assert workflow.output_schema.column_names == ["a_u", "c_u"]
    every = Workflow(ColumnSelector("*") - ["b"]).fit_schema(schema)
    assert every.output_schema.column_names == ["a", "c"]


def test_nothing_changes_the_left_operand():
    a, b, c = (ColumnSelector([n]) >> ops.FillMissing() for n in "abc")
    both = a + b
    three = both + c
    assert len(both.upstream) == 2
    assert len(three.upstream) == 3
    less = three - ["a"]
    picked = three[["b"]]
    data = pl.DataFrame({"a": [1], "b": [2], "c": [3]})
    assert Workflow(three).transform(data).columns == ["a", "b", "c"]
    assert Workflow(less).transform(data).columns == ["b", "c"]
    assert Workflow(picked).transform(data).columns == ["b"]
    assert Workflow(both).transform(data).columns == ["a", "b"]
    assert Workflow(["c"] + both).transform(data).columns == ["c", "a", "b"]  # noqa: RUF005
    assert Workflow(["a", "b"] - both["a"]).transform(data).columns == ["b"]


def test_the_later_column_of_a_name_wins():
    made = run(["x"] + (["x"] >> ops.Expr(pl.col("x") * 10)), {"x": [1, 2]})
    assert made["x"].to_list() == [10, 20]


def test_shared_parents_are_computed_once():
    calls = []

    def noted(column):
        calls.append(len(column))
        return column

    shared = ["x"] >> ops.LambdaOp(noted, dtype="int64")
    node = (shared >> ops.Rename(postfix="_a")) + (shared >> ops.Rename(postfix="_b"))
    Workflow(node).transform(pl.DataFrame({"x": [1, 2, 3]}))
    assert calls == [3]


def test_parts_of_a_workflow():
    cats = ops.Subgraph("cats", ["c"] >> ops.Categorify())
    workflow = Workflow(cats + (["x"] >> ops.Normalize()) + ["label"])
    data = pl.DataFrame({"c": ["a", "b", "b"], "x": [1.0, 2.0, 3.0], "label": [0, 1, 0]})
    workflow.fit(data)
    assert workflow.subworkflows == ["cats"]
    assert workflow.get_subworkflow("cats").transform(data)["c"].to_list() == [4, 3, 3]
    with pytest.raises(ValueError, match="No subgraph named"):
        workflow.get_subworkflow("dogs")
    served = workflow.remove_inputs(["label"]).transform({"c": "b", "x": 2.0})
    assert served == {"c": 3, "x": 0.0}
    assert workflow.output_schema.column_names == ["c", "x"]
    with pytest.raises(ColumnError, match="remove_inputs"):
        workflow.transform({"c": "b"})


def test_what_goes_in_comes_out():
    workflow = Workflow(["x"] >> ops.Normalize(out_dtype="float64")).fit({"x": [1, 2, 3]})
    assert isinstance(workflow.transform(pd.DataFrame({"x": [1]})), pd.DataFrame)
    assert isinstance(workflow.transform(pl.DataFrame({"x": [1]})), pl.DataFrame)
    assert isinstance(workflow.transform({"x": np.array([1, 2])})["x"], np.ndarray)
    assert workflow.transform({"x": 3}) == {"x": 1.0}
    assert workflow.transform([{"x": 3}, {"x": 1}]) == [{"x": 1.0}, {"x": -1.0}]
    assert isinstance(workflow.transform(Dataset({"x": [1]})), Dataset)
    with pytest.raises(ArgumentError, match="cannot transform"):
        workflow.transform(3)


def test_before_fitting():
    workflow = Workflow(["x"] >> ops.Normalize())
    with pytest.raises(NotFittedError, match="fit"):
        workflow.transform(pl.DataFrame({"x": [1]}))
    with pytest.raises(NotFittedError):
        _ = workflow.output_schema
    with pytest.raises(NotFittedError):
        _ = ops.Normalize().means
    with pytest.raises(ColumnError, match="did you mean 'price'"):
        Workflow(["prise"] >> ops.Normalize()).fit({"price": [1]})


def test_the_schema_flows_through():
    data = Dataset({"c": ["a", "b"], "x": [1, 2], "y": [0.0, 1.0]}).with_tags({"y": Tags.TARGET})
    workflow = Workflow((["c"] >> ops.Categorify()) + (["x"] >> ops.Normalize()) + ["y"]).fit(data)
    schema: Schema = workflow.transform(data).schema
    assert schema.select_by_tag(Tags.CATEGORICAL).column_names == ["c"]
    assert schema.select_by_tag(Tags.CONTINUOUS).column_names == ["x"]
    assert schema.select_by_tag(Tags.TARGET).column_names == ["y"]
    assert schema["c"].properties["embedding_sizes"] == {"cardinality": 5, "dimension": 16}
    assert workflow.output_dtypes == {"c": "int64", "x": "float32", "y": "float64"}
    assert get_embedding_sizes(workflow.transform(data)) == {"c": (5, 16)}


def test_the_graph_draws_itself():
    node = (["a", "<b>"] >> ops.FillMissing() >> ops.Normalize()) + (["c"] >> ops.Categorify())
    svg = Workflow(node).graph._repr_svg_()
    assert svg.startswith("<svg")
    for text in ("FillMissing", "Normalize", "Categorify", "&lt;b&gt;"):
        assert text in svg
    from xml.etree import ElementTree

    ElementTree.fromstring(svg)
