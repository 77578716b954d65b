"""A store of other data is never used: every kind of change makes another key, and is said."""

import os
import shutil
import threading

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError, CacheWarning, StoreError
from tests.conftest import make_table, write_files
from tests.store.common import epochs, stream


def rewritten(path, frame, *, keep_time=False, **options):
    before = path.stat()
    pq.write_table(frame.to_arrow(), path, **{"row_group_size": 100, **options})
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def first(folder):
    return sorted(folder.iterdir())[0]


def read(folder):
    return pl.read_parquet(first(folder))


CHANGES = {
    "rows appended": lambda f: rewritten(first(f), pl.concat([read(f), read(f)[:5]])),
    "rows removed": lambda f: rewritten(first(f), read(f)[:-1]),
    "same size, other values": lambda f: rewritten(first(f), read(f).with_columns(id=pl.col("id").reverse())),
    "other values, time put back": lambda f: rewritten(
        first(f), read(f).with_columns(id=pl.col("id") + 1), keep_time=True
    ),
    "written again": lambda f: (os.utime(first(f), ns=(1, 1)), None),
    "a file added": lambda f: shutil.copy2(first(f), f / "part_9.parquet"),
    "a file removed": lambda f: first(f).unlink(),
    "a file renamed": lambda f: first(f).rename(f / "part_7.parquet"),
    "files exchanged": lambda f: (
        (f / "part_0.parquet").rename(f / "x"),
        (f / "part_1.parquet").rename(f / "part_0.parquet"),
        (f / "x").rename(f / "part_1.parquet"),
    ),
    "another type": lambda f: [
        rewritten(p, pl.read_parquet(p).with_columns(pl.col("cat_a").cast(pl.Int64))) for p in f.iterdir()
    ],
    "other row groups": lambda f: rewritten(first(f), read(f), row_group_size=50),
    "another codec": lambda f: rewritten(first(f), read(f), compression="zstd"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_files(tmp_path, folder, change):
    before = stream(folder, tmp_path / "cache")
    before.build_cache()
    CHANGES[change](folder)
    wanted = epochs(stream(folder))
    after = stream(folder, tmp_path / "cache")
    assert after.cached.name != before.cached.name
    assert epochs(after) == wanted


def test_it_is_said_that_a_store_is_stale(tmp_path, folder):
    stream(folder, tmp_path / "cache").build_cache()
    CHANGES["same size, other values"](folder)
    with pytest.warns(CacheWarning, match="have changed since it was stored; it is not used"):
        epochs(stream(folder, tmp_path / "cache"))


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ["id", "x1"]},
        {"columns": ["x1", "id", "cat_a", "cat_b", "x2", "label"]},
        {"nulls": 0},
        {"nulls": 1},
        {"nulls": {"x1": 0.5}},
        {"nulls": "mask"},
    ],
    ids=str,
)
def test_other_columns_and_fills_are_other_stores(tmp_path, folder, options):
    assert stream(folder, tmp_path, **options).cached.name != stream(folder, tmp_path).cached.name


def test_other_dtypes_are_other_stores(tmp_path, folder):
    changed = stream(Dataset(folder, dtypes={"cat_b": "int32"}), tmp_path)
    assert changed.cached.name != stream(folder, tmp_path).cached.name


def test_another_format_is_another_store(tmp_path, folder, monkeypatch):
    before = stream(folder, tmp_path).cached.name
    monkeypatch.setattr("rowmill.store.cache.store_opener.FORMAT", 99)
    assert stream(folder, tmp_path).cached.name != before


def test_nothing_changed_means_the_same_store(tmp_path, folder):
    names = {stream(folder, tmp_path, **o).cached.name for o in ({}, {"batch_size": 7}, {"seed": 9}, {"memory": "9MB"})}
    assert len(names) == 1


@pytest.mark.parametrize("change", [lambda f: f.with_columns(a=pl.col("a") + 1), lambda f: f[::-1], lambda f: f[:-1]])
def test_a_frame_counts_with_all_its_values(tmp_path, change):
    for frame in (make_table(300).rename({"id": "a"}), pl.DataFrame({"a": [1, 2, 3], "b": [[1], [2], [3]]})):
        same = [stream(Dataset(f), tmp_path).cached.name for f in (frame, frame.clone(), change(frame))]
        assert same[0] == same[1] != same[2]


def test_lists_changed_within_a_frame(tmp_path):
    frames = (pl.DataFrame({"b": [[1], [2, last]]}) for last in (3, 4))
    assert len({stream(Dataset(frame), tmp_path).cached.name for frame in frames}) == 2


def test_the_same_files_elsewhere_are_another_store(tmp_path, folder):
    write_files(tmp_path / "copy", make_table(1003))
    assert stream(tmp_path / "copy", tmp_path).cached.name != stream(folder, tmp_path).cached.name


def test_a_function_that_cannot_be_told_from_a_changed_one(tmp_path):
    """Rows that it makes are never stored: refused with a folder, streamed with "auto"."""
    lock = threading.Lock()
    data = Dataset(make_table(50))
    made = Workflow((["x2"] >> ops.LambdaOp(lambda column: (lock, column * 2)[1])) + ["label"]).transform(data)
    with pytest.raises(ArgumentError, match=r"a workflow whose function uses an object of type _thread.lock"):
        stream(made, tmp_path / "cache", columns=["x2"])
    streamed = stream(made, "auto", columns=["x2"])
    assert len(epochs(streamed)) == 2 and "cannot be told" in streamed.cached.text()
    with pytest.raises(StoreError, match="cannot be stored: a workflow whose function"):
        stream(made, "auto", columns=["x2"], shuffle="full").take(np.arange(3))


def test_a_function_with_another_default_makes_another_store(tmp_path):
    data = Dataset(make_table(50))

    def stored(factor):
        double = lambda column, by=factor: column * by  # noqa: E731
        made = Workflow((["x2"] >> ops.LambdaOp(double)) + ["label"]).transform(data)
        return epochs(stream(made, tmp_path / "cache", columns=["x2"])), epochs(stream(made, columns=["x2"]))

    for factor in (2, 2, 3):
        with_store, without = stored(factor)
        assert with_store == without
