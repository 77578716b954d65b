"""Tables in memory: every kind comes out the same, integers stay exact, lazy queries run once."""

import gc
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from rowmill import Dataset
from rowmill.errors import ArgumentError, DataFileError

FRAME = pl.DataFrame({"a": [1, 2, 3], "s": ["x", None, "z"], "l": [[1], [], [2, 3]]})


class Stream:
    """Something that speaks the Arrow stream protocol and nothing else."""

    def __arrow_c_stream__(self, requested_schema=None):
        return FRAME.to_arrow().__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "given",
    [FRAME, FRAME.lazy(), FRAME.to_arrow(), FRAME.to_dict(as_series=False), Stream()],
    ids=["polars", "lazy", "arrow", "dict", "stream"],
)
def test_every_kind_comes_out_the_same(given):
    dataset = Dataset(given)
    assert dataset.to_polars().equals(FRAME)
    assert dataset.num_rows == 3
    assert [c.dtype for c in dataset.schema] == ["int64", "string", "int64"]


def test_record_batch_reader():
    assert Dataset(FRAME.to_arrow().to_reader()).to_polars().equals(FRAME)


def test_pandas_integers_stay_exact():
    big = 2**60 + 1
    table = pd.DataFrame(
        {
            "nullable": pd.array([big, None, 3], dtype="Int64"),
            "objects": np.array([big, None, 3], dtype=object),
            "nan": np.array([big, np.nan, 3], dtype=object),
            "arrow": pd.array([big, None, 3], dtype="int64[pyarrow]"),
            "cat": pd.Categorical(["u", "v", "u"]),
        },
        index=[5, 6, 7],
    )
    frame = Dataset(table).to_polars()
    for name in ("nullable", "objects", "nan", "arrow"):
        assert frame[name].dtype == pl.Int64
        assert frame[name].to_list() == [big, None, 3]
    assert frame["cat"].to_list() == ["u", "v", "u"]
    assert Dataset(table).schema["cat"].dtype == "string"
    assert frame.columns == list(table.columns)


def test_pandas_round_trip_keeps_integers():
    back = Dataset({"a": [2**60 + 1, None]}).to_pandas()
    assert back["a"][0] == 2**60 + 1
    assert back["a"].isna().tolist() == [False, True]


def test_pandas_names():
    assert Dataset(pd.DataFrame({0: [1], 1: [2]})).columns == ["0", "1"]
    with pytest.raises(ArgumentError, match="twice"):
        Dataset(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_dict_of_arrays():
    dataset = Dataset(
        {
            "n": np.arange(3, dtype=np.int16),
            "strided": np.arange(6)[::2],
            "t": torch.arange(3, dtype=torch.float32),
            "m": np.zeros((3, 2), np.float32),
            "s": np.array(["x", "y", "z"]),
            "p": [1.5, None, 2.5],
            "series": pd.Series([1, 2, 3]),
        }
    )
    assert [c.dtype for c in dataset.schema] == ["int16", "int64", "float32", "float32", "string", "float64", "int64"]
    assert (dataset.schema["m"].is_list, dataset.schema["m"].width) == (True, 2)
    assert dataset.to_polars()["strided"].to_list() == [0, 2, 4]


def test_bad_dicts():
    with pytest.raises(ArgumentError, match="different lengths"):
        Dataset({"a": [1, 2], "b": [1]})
    with pytest.raises(ArgumentError, match="single value"):
        Dataset({"a": np.array(3)})


def test_dictionary_encoded_columns_are_decoded():
    frame = pl.DataFrame(
        {"c": pl.Series(["x", "y"], dtype=pl.Categorical), "e": pl.Series(["u", None], dtype=pl.Enum(["u"]))}
    )
    for given in (frame, frame.lazy()):
        dataset = Dataset(given)
        assert [c.dtype for c in dataset.schema] == ["string", "string"]
        assert dataset.to_polars().rows() == [("x", "u"), ("y", None)]


def test_partitions():
    rows = 1_000_000
    dataset = Dataset({"a": np.arange(rows)})
    assert all(65_536 <= f.rows <= 262_144 for f in dataset.fragments)
    assert Dataset({"a": np.arange(rows)}, npartitions=3).partition_lens == [333_333, 333_333, 333_334]
    assert Dataset({"a": [1, 2]}, npartitions=5).partition_lens == [1, 1]
    assert Dataset(pl.LazyFrame({"a": np.arange(10)}), npartitions=2).partition_lens == [5, 5]
    empty = Dataset({"a": np.array([], np.int64)})
    assert (empty.npartitions, empty.num_rows, empty.to_polars().schema) == (0, 0, {"a": pl.Int64})
    with pytest.raises(ArgumentError, match="npartitions is 0"):
        Dataset(FRAME, npartitions=0)


def test_a_lazy_query_runs_once_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runs = []
    query = pl.LazyFrame({"a": range(1000)}).map_batches(lambda f: runs.append(1) or f)
    dataset = Dataset(query)
    assert dataset.schema.column_names == ["a"]
    assert not runs
    for _ in range(3):
        assert dataset.to_polars()["a"].to_list() == list(range(1000))
    assert len(runs) == 1
    assert len(list(tmp_path.iterdir())) == 1
    del dataset
    gc.collect()
    until = time.monotonic() + 5
    while list(tmp_path.iterdir()) and time.monotonic() < until:  # a thread removes it, which no signal interrupts
        time.sleep(0.01)
    assert not list(tmp_path.iterdir())


def test_a_lazy_query_runs_once_for_many_threads():
    runs = []

    def slow(frame):
        runs.append(1)
        time.sleep(0.2)
        return frame

    dataset = Dataset(pl.LazyFrame({"a": range(100)}).map_batches(slow))
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: dataset.num_rows, range(8)))
    assert counts == [100] * 8
    assert len(runs) == 1


def test_a_lazy_query_is_removed_at_exit(tmp_path):
    code = "import polars, rowmill; d = rowmill.Dataset(polars.LazyFrame({'a': [1]})); assert d.num_rows == 1"
    subprocess.run([sys.executable, "-c", code], check=True, env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert not list(Path(tmp_path).glob("rowmill-*"))


def test_a_failing_query_says_so_each_time():
    dataset = Dataset(pl.LazyFrame({"a": ["x"]}).select(pl.col("a").cast(pl.Int64)))
    for _ in range(2):
        with pytest.raises(DataFileError, match="running a lazy query failed"):
            _ = dataset.num_rows


def test_memory_is_shared_not_copied():
    table = pa.table({"a": np.arange(1_000_000)})
    assert Dataset(table).source.frame["a"].to_numpy().ctypes.data == table["a"].chunk(0).buffers()[1].address
