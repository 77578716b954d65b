"""The Dataset itself: sizes, partitions, schema and tags, iteration, conversions, and bad arguments."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rowmill import ColumnSchema, Dataset, Schema, Tags
from rowmill.errors import ArgumentError, ColumnError, DataFileError


@pytest.fixture
def folder(tmp_path):
    frame = pl.DataFrame({"a": np.arange(1000), "b": np.arange(1000) / 2, "label": np.arange(1000) % 2})
    for i in range(4):
        frame[i * 250 : (i + 1) * 250].write_parquet(tmp_path / f"{i}.parquet", row_group_size=50)
    return tmp_path


def test_counts(folder):
    dataset = Dataset(folder)
    assert (dataset.num_rows, len(dataset), dataset.npartitions) == (1000, 1000, 20)
    assert dataset.partition_lens == [50] * 20
    assert dataset.part_bytes is None
    assert dataset.columns == ["a", "b", "label"]


def test_part_size_joins_and_cuts_row_groups(folder):
    row = Dataset(folder).source.row_bytes(["a", "b", "label"])
    assert row == 24
    cut = Dataset(folder, part_size=24 * 25)
    assert cut.partition_lens == [25] * 40
    joined = Dataset(folder, part_size="1MB")
    assert joined.partition_lens == [250] * 4  # two files never share a partition
    assert joined.part_bytes == 1_000_000
    assert joined.to_polars()["a"].to_list() == list(range(1000))
    assert Dataset(folder, part_mem_fraction=0.1).part_bytes > 1_000_000
    assert Dataset(folder, part_size="1KiB", part_mem_fraction=0.1).part_bytes == 1024


@pytest.mark.parametrize(
    "bad", [{"part_size": "lots"}, {"part_size": 0}, {"part_size": "1.2.3MB"}, {"part_mem_fraction": 1.5}]
)
def test_bad_sizes(folder, bad):
    with pytest.raises(ArgumentError, match="wanted"):
        Dataset(folder, **bad)


def test_parameters_that_mean_nothing_are_accepted(folder):
    dataset = Dataset(folder, client="auto", cpu=False, row_groups_per_part=2, batch_size=7, npartitions=3)
    dataset.to_cpu()
    dataset.to_gpu()
    assert dataset.num_rows == 1000
    assert dataset.base_dataset is dataset
    with pytest.raises(ArgumentError, match="unknown argument 'filterz'"):
        Dataset(folder, filterz=[])


def test_head(folder):
    assert Dataset(folder).head()["a"].to_list() == [0, 1, 2, 3, 4]
    assert Dataset(folder).head(120)["a"].to_list() == list(range(120))
    assert Dataset(folder).head(5000).height == 1000
    assert Dataset(folder).head(0).shape == (0, 3)


def test_to_iter(folder):
    dataset = Dataset(folder, part_size="1MB")
    parts = dataset.to_iter("a")
    assert len(parts) == 1000
    for _ in range(2):
        assert [f["a"][0] for f in parts] == [0, 250, 500, 750]
    assert len(dataset.to_iter(indices=[1, 3])) == 500
    assert [f["a"][0] for f in dataset.to_iter(indices=[3, 1]).polars()] == [750, 250]
    assert len(dataset.to_iter(epochs=3)) == 3000
    assert sum(f.height for f in dataset.to_iter(epochs=3).polars()) == 3000
    with pytest.raises(ColumnError, match="did you mean 'label'"):
        dataset.to_iter(["lable"])


def test_to_iter_shuffles_partitions_by_seed_alone(folder):
    dataset = Dataset(folder)

    def order(seed):
        return [int(f["a"][0]) for f in dataset.to_iter(shuffle=True, seed=seed).polars()]

    np.random.seed(1)  # noqa: NPY002
    one = order(7)
    np.random.seed(2)  # noqa: NPY002
    assert one == order(7)
    assert one != order(8)
    assert sorted(one) == list(range(0, 1000, 50))


def test_conversions(folder):
    dataset = Dataset(folder)
    assert dataset.to_polars(["label", "a"]).columns == ["label", "a"]
    table = dataset.to_pandas()
    assert isinstance(table, pd.DataFrame)
    assert table["a"].tolist() == list(range(1000))
    assert dataset.to_arrow().num_rows == 1000
    assert dataset.to_lazy().filter(pl.col("a") >= 990).select("b").collect().height == 10
    assert dataset.to_lazy().head(3).collect()["a"].to_list() == [0, 1, 2]


def test_schema_and_tags(folder):
    dataset = Dataset(folder)
    tagged = dataset.with_tags({"label": Tags.TARGET, "a": [Tags.CATEGORICAL, Tags.ID]})
    assert tagged.schema.select_by_tag(Tags.TARGET).column_names == ["label"]
    assert tagged.schema["a"].tags == {"categorical", "id"}
    assert not dataset.schema["a"].tags
    assert tagged.to_polars().equals(dataset.to_polars())
    with pytest.raises(ColumnError, match="did you mean 'label'"):
        dataset.with_tags({"lable": Tags.TARGET})
    described = Dataset(folder, schema=Schema([ColumnSchema("a", tags=["x"], properties={"p": 1})]))
    assert described.schema["a"].tags == {"x"}
    assert described.schema["a"].dtype == "int64"  # what is there, not what is said
    assert described.schema["a"].properties["p"] == 1
    assert described.columns == ["a", "b", "label"]
    assert dataset.with_schema(described.schema).schema == described.schema
    assert described.infer_schema() == dataset.schema


def test_a_damaged_schema_file_is_named(folder):
    (folder / ".rowmill").mkdir()
    (folder / ".rowmill/schema.json").write_text("{")
    with pytest.raises(DataFileError, match=r"schema\.json"):
        Dataset(folder)


def test_a_schema_that_is_none(folder):
    for bad in ({"a": "int64"}, ["a"], "a"):
        with pytest.raises(TypeError, match=r"wanted rowmill\.Schema"):
            Dataset(folder, schema=bad)
        with pytest.raises(TypeError):
            Dataset(folder).with_schema(bad)


def test_sample_dtypes():
    dataset = Dataset({"a": [1], "l": [[1.5]]})
    assert dataset.sample_dtypes() == {"a": "int64", "l": "float64"}
    assert dataset.sample_dtypes(annotate_lists=True)["l"] == {"dtype": "float64", "is_list": True}


def test_dtypes_while_reading(folder):
    dataset = Dataset(folder, dtypes={"a": "float32", "label": np.int8, "b": pl.String})
    assert [c.dtype for c in dataset.schema] == ["float32", "string", "int8"]
    assert dataset.to_polars().schema == {"a": pl.Float32, "b": pl.String, "label": pl.Int8}
    assert dataset.source.files is not None
    with pytest.raises(ColumnError, match="'aa'"):
        Dataset(folder, dtypes={"aa": "int8"})
    with pytest.raises(ArgumentError, match="unknown dtype"):
        Dataset(folder, dtypes={"a": "intt8"})
    with pytest.raises(DataFileError, match="does not fit"):
        Dataset(folder, dtypes={"a": "int8"}).to_polars()


def test_hex_of_a_frame():
    dataset = Dataset(
        {"h": ["ff", None, "68fd1e64"], "g": ["0x10", "ffffffff", None]}, dtypes={"h": "hex", "g": "hex32"}
    )
    assert dataset.to_polars().rows() == [(255, 16), (None, -1), (0x68FD1E64, None)]
    assert [c.dtype for c in dataset.schema] == ["int64", "int32"]
    long = Dataset({"h": ["ffffffffffffffff", "8000000000000000"]}, dtypes={"h": "hex"}).to_polars()["h"]
    assert long.dtype == pl.Int64
    assert long.to_list() == [-1, -(2**63)]


def test_merging_schemas_does_not_touch_an_empty_dataset():
    empty = Dataset({"a": np.array([], np.int32)})
    assert empty.base_dataset is empty
    assert empty.head().schema == {"a": pl.Int32}


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user for a moment")
def test_unreadable_path():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/a.parquet"
        pl.DataFrame({"a": [1]}).write_parquet(path)
        os.chmod(path, 0)
        os.mkdir(f"{folder}/closed", 0o700)
        os.seteuid(65534)
        try:
            with pytest.raises(DataFileError, match=r"a\.parquet"):
                Dataset(path)
            with pytest.raises(DataFileError, match="closed"):
                Dataset(f"{folder}/closed")
        finally:
            os.seteuid(0)


def test_importing_loads_no_framework():
    code = (
        "import sys, rowmill; "
        "bad = {'pandas', 'torch', 'tensorflow', 'jax', 'dask', 'pyarrow.dataset', 'fsspec'} & set(sys.modules); "
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
