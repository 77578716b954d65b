"""Categorify: codes, vocabularies, limits, types, and what is refused."""

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import (
    ArgumentError,
    UnseenValueError,
)
from rowmill.ops import get_embedding_sizes
from tests.ops.run import run


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
