"""to_parquet: files, order, shuffles, side files, hive folders, types, and what is refused."""

import json
import os
import pty
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset, Tags
from rowmill.errors import ArgumentError, ColumnError, DataFileError
from rowmill.io import Shuffle
from rowmill.sinks import scatter

ROWS = 1000
FRAME = pl.DataFrame(
    {
        "i": np.arange(ROWS),
        "x": np.arange(ROWS, dtype=np.float32) / 4,
        "k": np.arange(ROWS) % 3,
        "s": [None if i % 7 == 0 else f"t{i % 5}" for i in range(ROWS)],
        "l": [[i, i + 1] if i % 2 else [] for i in range(ROWS)],
        "y": np.arange(ROWS) % 2 == 0,
    }
)


@pytest.fixture
def dataset():
    return Dataset(FRAME, npartitions=4)


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*.parquet"))


def test_one_file_a_partition_in_order(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "out")
    assert names(tmp_path / "out") == [f"part_{i}.parquet" for i in range(4)]
    back = Dataset(tmp_path / "out")
    assert back.to_polars().equals(FRAME)
    assert back.to_polars().schema == FRAME.schema
    assert back.partition_lens == [250] * 4


def test_side_files_and_tags(dataset, tmp_path):
    dataset.with_tags({"l": Tags.ITEM}).to_parquet(tmp_path / "out", cats=["k"], conts=["x"], labels=["y"])
    out = tmp_path / "out"
    assert (out / "_file_list.txt").read_text().split() == ["4", *[f"part_{i}.parquet" for i in range(4)]]
    side = json.loads((out / "_metadata.json").read_text())
    assert side["file_stats"][2] == {"file_name": "part_2.parquet", "num_rows": 250}
    assert (side["cats"], side["conts"], side["labels"]) == (
        [{"col_name": "k", "index": 2}],
        [{"col_name": "x", "index": 1}],
        [{"col_name": "y", "index": 5}],
    )
    merged = pq.read_metadata(out / "_metadata")
    assert merged.num_rows == ROWS
    assert merged.row_group(3).column(0).file_path == "part_3.parquet"
    for opened in (Dataset(out), Dataset(str(out / "*.parquet")), Dataset([out / "part_1.parquet"])):
        assert opened.schema["k"].tags == {"categorical"}
        assert opened.schema["y"].tags == {"target"}
        assert opened.schema["l"].tags == {"item"}
    with pytest.raises(ColumnError, match="'kk'"):
        dataset.to_parquet(tmp_path / "bad", cats=["kk"])


@pytest.mark.parametrize("count", [1, 3, 4, 7])
@pytest.mark.parametrize("argument", ["output_files", "out_files_per_proc"])
def test_number_of_files_keeps_the_order(dataset, tmp_path, count, argument):
    dataset.to_parquet(tmp_path / "out", **{argument: count})
    assert len(names(tmp_path / "out")) == count
    assert Dataset(tmp_path / "out").to_polars().equals(FRAME)


def test_named_files(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "a", output_files=["b", "sub/c.parquet"])
    assert names(tmp_path / "a") == ["b.parquet", "sub/c.parquet"]
    assert Dataset(tmp_path / "a").to_polars().equals(FRAME)
    dataset.to_parquet(tmp_path / "d", output_files={"x": [3], ("y", "z"): [0, 1]})
    assert names(tmp_path / "d") == ["x.parquet", "y.parquet", "z.parquet"]
    assert Dataset(tmp_path / "d/x.parquet").to_polars()["i"].to_list() == list(range(750, 1000))
    assert Dataset([tmp_path / "d/y.parquet", tmp_path / "d/z.parquet"]).to_polars()["i"].to_list() == list(range(500))


def test_preserve_files(tmp_path):
    for i in range(3):
        FRAME[i * 100 : i * 150 + 100].write_parquet(tmp_path / f"in_{i}.parquet", row_group_size=30)
    FRAME[:0].write_parquet(tmp_path / "in_9.parquet")
    dataset = Dataset([tmp_path / f"in_{i}.parquet" for i in (0, 1, 2, 9)], dtypes={"k": "int32"})
    dataset.to_parquet(tmp_path / "out", preserve_files=True, suffix=".pq.parquet")
    assert names(tmp_path / "out") == [f"in_{i}.pq.parquet" for i in (0, 1, 2, 9)]
    for i in (0, 1, 2, 9):
        got = Dataset(tmp_path / "out" / f"in_{i}.pq.parquet").to_polars()
        assert got.equals(pl.read_parquet(tmp_path / f"in_{i}.parquet").cast({"k": pl.Int32}))


def test_preserve_files_after_other_steps(tmp_path):
    for i in range(2):
        FRAME[i * 500 : (i + 1) * 500].write_parquet(tmp_path / f"in_{i}.parquet")
    dataset = Dataset([tmp_path / "in_0.parquet", tmp_path / "in_1.parquet"])
    dataset.with_tags({"k": "x"}).to_parquet(tmp_path / "out", preserve_files=True)
    assert names(tmp_path / "out") == ["in_0.parquet", "in_1.parquet"]
    with pytest.raises(ArgumentError, match="preserve_files"):  # the rows are no longer those of the files
        dataset.repartition(3).to_parquet(tmp_path / "no", preserve_files=True)


def test_preserve_files_with_equal_names(tmp_path):
    for day in ("mon", "tue"):
        (tmp_path / "in" / day).mkdir(parents=True)
        FRAME[:10].write_parquet(tmp_path / "in" / day / "0.parquet")
    Dataset(tmp_path / "in").to_parquet(tmp_path / "out", preserve_files=True)
    assert names(tmp_path / "out") == ["mon/0.parquet", "tue/0.parquet"]


def test_hive_folders(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "out", partition_on=["k", "s"])
    assert "k=0/s=t1/part.0.parquet" in names(tmp_path / "out")
    assert "k=0/s=__HIVE_DEFAULT_PARTITION__/part.0.parquet" in names(tmp_path / "out")
    back = Dataset(tmp_path / "out")
    assert back.to_polars(FRAME.columns).sort("i").equals(FRAME)
    assert back.schema["k"].dtype == "int64"
    with pytest.raises(ColumnError):
        dataset.to_parquet(tmp_path / "bad", partition_on="nope")
    dataset.to_parquet(tmp_path / "full", Shuffle.FULL, partition_on="k", seed=1)
    full = Dataset(tmp_path / "full").to_polars(FRAME.columns)
    assert full.sort("i").equals(FRAME)
    assert (np.diff(full.filter(k=0)["i"].to_numpy()) < 0).mean() > 0.4  # within a folder, from all partitions
    assert full.filter(k=0)["i"][:20].max() > 500


@pytest.mark.parametrize("shuffle", list(Shuffle))
@pytest.mark.parametrize("small_buckets", [False, True])
def test_shuffles(dataset, tmp_path, monkeypatch, shuffle, small_buckets):
    if small_buckets:
        monkeypatch.setattr(scatter, "_BUCKET_BYTES", 5000)  # several files on the way
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        dataset.to_parquet(tmp_path / name, shuffle, output_files=2, seed=seed)
    a, b, c = (Dataset(tmp_path / name).to_polars() for name in "abc")
    assert a.equals(b)
    assert not a.equals(c)
    assert not a.equals(FRAME)
    assert a.sort("i").equals(FRAME)
    assert a.schema == FRAME.schema
    spread = {n: set(a["i"][:500] // 250 == n) for n in range(4)}
    if shuffle is Shuffle.FULL:
        assert all(v == {True, False} for v in spread.values())  # every part of the table is in the first file
    runs = np.abs(np.diff(a["i"].to_numpy())) == 1
    assert runs.mean() < 0.1


def test_full_shuffle_is_uniform(tmp_path, monkeypatch):
    """Where row 0 lands, over many seeds: every quarter about equally often."""
    monkeypatch.setattr(scatter, "_BUCKET_BYTES", 50)
    dataset = Dataset({"i": np.arange(20)}, npartitions=3)
    places = []
    for seed in range(200):
        generator = np.random.Generator(np.random.Philox(seed))
        frames = list(scatter.shuffled(dataset.source, dataset.fragments, ["i"], generator))
        places.append(pl.concat(frames)["i"].to_list().index(0))
    counts = np.histogram(places, bins=4, range=(0, 20))[0]
    assert counts.sum() == 200
    assert counts.min() > 25


def test_shuffle_spellings(dataset, tmp_path):
    with pytest.warns(DeprecationWarning, match="PER_WORKER"):
        dataset.to_parquet(tmp_path / "a", True, seed=3)
    dataset.to_parquet(tmp_path / "b", shuffle=False)
    assert Dataset(tmp_path / "b").to_polars().equals(FRAME)
    for bad in ("full", 1, 7):
        with pytest.raises(ArgumentError, match="shuffle is"):
            dataset.to_parquet(tmp_path / "c", shuffle=bad)


def test_dtypes_and_row_groups(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "out", dtypes={"i": "int32", "x": np.float64}, row_group_size=64, output_files=1)
    back = Dataset(tmp_path / "out")
    assert back.schema["i"].dtype == "int32"
    assert back.schema["x"].dtype == "float64"
    assert back.partition_lens == [64] * 15 + [40]
    assert back.to_polars().equals(FRAME.cast({"i": pl.Int32, "x": pl.Float64}))


def test_csv_to_parquet(tmp_path):
    FRAME.drop("l").write_csv(tmp_path / "in.csv")
    Dataset(tmp_path / "in.csv").to_parquet(tmp_path / "out")
    assert Dataset(tmp_path / "out").to_polars()["s"].to_list() == FRAME["s"].to_list()


def test_nothing_to_write_keeps_the_columns(tmp_path):
    Dataset(FRAME[:0]).to_parquet(tmp_path / "out")
    assert Dataset(tmp_path / "out").to_polars().equals(FRAME[:0])


@pytest.mark.parametrize(
    "bad",
    [
        {"partition_on": "k", "output_files": 2},
        {"partition_on": "k", "preserve_files": True},
        {"preserve_files": True, "output_files": 2},
        {"preserve_files": True},
        {"output_files": {"a": [0]}, "out_files_per_proc": 2},
        {"output_files": {"a": [9]}},
        {"output_files": 0},
        {"output_files": "a"},
        {"output_files": ["a", "a"]},
        {"output_files": ["../a"]},
        {"output_files": ["_a"]},
        {"method": "magic"},
        {"row_group_size": 0},
        {"partition_on": FRAME.columns},
    ],
    ids=str,
)
def test_bad_arguments_write_nothing(dataset, tmp_path, bad):
    with pytest.raises(ArgumentError):
        dataset.to_parquet(tmp_path / "out", **bad)
    assert not list(tmp_path.iterdir())


def test_remote_targets_are_refused(dataset):
    with pytest.raises(ArgumentError, match="local path"):
        dataset.to_parquet("s3://bucket/out")


def test_a_stranger_in_the_folder_is_never_removed(dataset, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("keep")
    with pytest.raises(ArgumentError, match=r"mine\.txt"):
        dataset.to_parquet(tmp_path / "out")
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "mine.txt"]
    dataset.to_parquet(tmp_path / "two")
    (tmp_path / "two/more.parquet").write_bytes((tmp_path / "two/part_0.parquet").read_bytes())
    with pytest.raises(ArgumentError, match=r"more\.parquet"):
        dataset.to_parquet(tmp_path / "two")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArgumentError, match="is a file"):
        dataset.to_parquet(tmp_path / "file")


def test_an_earlier_result_is_replaced_even_while_it_is_read(dataset, tmp_path):
    out = tmp_path / "out"
    dataset.to_parquet(out)
    Dataset(out, part_size="1MB").to_parquet(out, Shuffle.FULL, output_files=2, seed=1)
    assert names(out) == ["part_0.parquet", "part_1.parquet"]
    assert Dataset(out).to_polars().sort("i").equals(FRAME)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_failing_source_leaves_the_earlier_result(dataset, tmp_path):
    out = tmp_path / "out"
    dataset.to_parquet(out)
    bad = Dataset(FRAME, npartitions=4, dtypes={"i": "int8"})  # fails from row 128 on
    with pytest.raises(DataFileError, match="does not fit"):
        bad.to_parquet(out)
    assert Dataset(out).to_polars().equals(FRAME)
    with pytest.raises(DataFileError):
        bad.to_parquet(tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_no_progress_bar_without_a_terminal(dataset, tmp_path, capfd):
    dataset.to_parquet(tmp_path / "a")
    dataset.shuffle_by_keys("k")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("progress", "shown"), [("None", True), ("False", False)])
def test_progress_bar_on_a_terminal(tmp_path, progress, shown):
    code = (
        f"from rowmill import Dataset; Dataset({{'a': [1]}}).to_parquet({str(tmp_path / 'o')!r}, progress={progress})"
    )
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], check=True, stderr=theirs, stdout=theirs, env=env)
    os.close(theirs)
    text = b""
    try:
        while more := os.read(ours, 65536):
            text += more
    except OSError:  # the other end is closed and all is read
        pass
    os.close(ours)
    assert (b"writing" in text) is shown
    assert shown or not text


def test_validate(dataset, tmp_path):
    dataset.to_parquet(tmp_path / "out")
    opened = Dataset(tmp_path / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened.validate_dataset()
    (tmp_path / "out/_metadata").unlink()
    with pytest.warns(UserWarning, match="_metadata"):
        assert not opened.validate_dataset()
    assert opened.validate_dataset(require_metadata_file=False)
    assert opened.validate_dataset(add_metadata_file=True)
    assert pq.read_metadata(tmp_path / "out/_metadata").num_rows == ROWS
    with pytest.warns(UserWarning, match="row groups larger"):
        assert not opened.validate_dataset(row_group_max_size=10)
    with pytest.warns(UserWarning, match="files smaller"):
        assert not opened.validate_dataset(file_min_size="1GB")
    with pytest.warns(UserWarning, match="not a dataset"):
        assert not dataset.validate_dataset()


def test_declared_shapes_of_nested_lists_are_kept(tmp_path):
    data = Dataset(pl.DataFrame({"n": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}))
    data.schema["n"] = data.schema["n"].with_shape((None, 2, 2))
    data.to_parquet(tmp_path / "out")
    assert Dataset(tmp_path / "out").schema["n"].shape == data.schema["n"].shape
