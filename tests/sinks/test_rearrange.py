"""repartition, shuffle_by_keys, merge: the same rows, elsewhere."""

import gc
import tempfile
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rowmill import Dataset, Tags
from rowmill.errors import ArgumentError, ColumnError

ROWS = 3000
FRAME = pl.DataFrame(
    {
        "i": np.arange(ROWS),
        "k": np.arange(ROWS) * 7 % 11,
        "s": [None if i % 13 == 0 else f"u{i % 17}" for i in range(ROWS)],
    }
)


@pytest.fixture
def folder(tmp_path):
    for i in range(3):
        FRAME[i * 1000 : (i + 1) * 1000].write_parquet(tmp_path / f"{i}.parquet", row_group_size=300)
    return tmp_path


@pytest.mark.parametrize("count", [1, 2, 7, 40, 5000])
def test_repartition(folder, count):
    dataset = Dataset(folder).with_tags({"k": Tags.CATEGORICAL}).repartition(count)
    assert dataset.npartitions == min(count, ROWS)
    assert max(dataset.partition_lens) - min(dataset.partition_lens) <= 1
    assert dataset.schema["k"].tags == {"categorical"}
    if count < 100:
        assert dataset.to_polars().equals(FRAME)
        assert dataset.repartition(3).to_polars().equals(FRAME)


def test_repartition_by_size_and_bad_arguments(folder):
    dataset = Dataset(folder)
    size = ROWS * dataset.source.row_bytes(dataset.columns)
    assert dataset.repartition(partition_size=int(size / 5) + 1).npartitions == 5
    assert "0.parquet" in dataset.repartition(1).source.describe(dataset.repartition(1).fragments[0])
    for bad in ({}, {"npartitions": 0}, {"npartitions": 2, "partition_size": 3}, {"partition_size": "x"}):
        with pytest.raises(ArgumentError):
            dataset.repartition(**bad)


@pytest.mark.parametrize("keys", ["k", ["k"], ["s"], ["k", "s"]])
@pytest.mark.parametrize("count", [None, 1, 4])
def test_shuffle_by_keys(folder, keys, count):
    dataset = Dataset(folder, part_size=20_000).shuffle_by_keys(keys, npartitions=count)
    seen = set()
    rows = []
    for frame in dataset.to_iter().polars():
        here = set(frame.select(keys).unique().rows())
        assert not here & seen
        seen |= here
        rows.append(frame)
    assert pl.concat(rows).sort("i").equals(FRAME)
    assert len(seen) == FRAME.select(keys).n_unique()
    assert dataset.npartitions <= (count or 12)
    if count == 4 and keys != "k":
        assert dataset.npartitions > 1


def test_shuffle_by_keys_cleans_up(folder, tmp_path_factory, monkeypatch):
    spool = tmp_path_factory.mktemp("spool")
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    dataset = Dataset(folder).shuffle_by_keys("k", npartitions=3)
    assert len(list(spool.iterdir())) == 1
    assert dataset.num_rows == ROWS
    del dataset
    gc.collect()
    for _ in range(200):  # a thread of its own removes the folder
        if not list(spool.iterdir()):
            break
        time.sleep(0.05)
    assert not list(spool.iterdir())


def test_shuffle_by_keys_in_folders_moves_nothing(folder, tmp_path, monkeypatch):
    Dataset(folder).to_parquet(tmp_path / "hive", partition_on="k")
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    dataset = Dataset(tmp_path / "hive")
    grouped = dataset.shuffle_by_keys("k")
    assert grouped.npartitions == 11
    assert all(f["k"].n_unique() == 1 for f in grouped.to_iter().polars())
    assert grouped.to_polars(FRAME.columns).sort("i").equals(FRAME)
    few = dataset.shuffle_by_keys("k", npartitions=3)
    assert few.npartitions == 3
    assert sum(f["k"].n_unique() for f in few.to_iter().polars()) == 11
    monkeypatch.undo()
    assert dataset.shuffle_by_keys("k", hive_data=False, npartitions=3).num_rows == ROWS


def test_shuffle_by_unknown_key(folder):
    with pytest.raises(ColumnError, match="'kk'"):
        Dataset(folder).shuffle_by_keys("kk")


LEFT = pd.DataFrame({"k": pd.array([1, 2, 2, None, 5], "Int64"), "v": [1, 2, 3, 4, 5], "a": list("abcde")})
RIGHT = pd.DataFrame({"k": pd.array([2, 5, 7, None], "Int64"), "v": [20, 50, 70, 0], "b": list("wxyz")})


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize(
    "more", [{"on": "k"}, {"on": ["k"], "suffixes": ("_l", "_r")}, {"left_on": "v", "right_on": "v"}]
)
def test_merge_is_what_pandas_does(how, more):
    got = Dataset.merge(Dataset(LEFT), Dataset(RIGHT), how=how, **more).to_polars()
    expected = pl.from_pandas(LEFT.merge(RIGHT, how=how, **more))
    assert set(got.columns) == set(expected.columns)
    order = sorted(expected.columns)
    assert got.select(order).cast(pl.String).sort(order).rows() == (
        expected.select(order).cast({c: got.schema[c] for c in order}).cast(pl.String).sort(order).rows()
    )


def test_merge_takes_frames_and_different_names():
    joined = Dataset.merge(Dataset(LEFT), pl.DataFrame({"key": [2], "w": ["z"]}), left_on="k", right_on="key")
    assert joined.to_polars().select("a", "w").rows() == [("b", "z"), ("c", "z")]


def test_merge_keeps_tags(folder):
    left = Dataset(folder).with_tags({"i": Tags.TARGET})
    joined = Dataset.merge(
        left, pl.DataFrame({"k": range(11), "name": [str(i) for i in range(11)]}), on="k", how="left"
    )
    assert joined.num_rows == ROWS
    assert joined.schema["i"].tags == {"target"}
    assert joined.to_polars()["i"].to_list() == list(range(ROWS))


@pytest.mark.parametrize(
    "bad", [{"on": "zz"}, {"how": "cross", "on": "k"}, {"left_on": "k"}, {"on": "k", "sort": True}]
)
def test_bad_merges(bad):
    with pytest.raises((ArgumentError, ColumnError)):
        Dataset.merge(Dataset(LEFT), Dataset(RIGHT), **bad)
