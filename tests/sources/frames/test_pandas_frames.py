"""`to_pandas`, `to_iter` and `to_ddf`: NumPy's types, pandas' nullable types where there are nulls, or Arrow's."""

import datetime as dt
from decimal import Decimal

import dask
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError, DtypeError

FRAME = pl.DataFrame(
    {
        "whole": pl.Series([1, 2, 3], dtype=pl.Int32),
        "holes": [2**60 + 1, None, 3],
        "small": pl.Series([1, None, 3], dtype=pl.UInt8),
        "real": [0.5, float("nan"), 2.5],
        "reals": pl.Series([0.5, None, float("nan")], dtype=pl.Float32),
        "half": pl.Series([0.5, None, 1.5], dtype=pl.Float16),
        "flag": [True, False, True],
        "flags": [True, None, False],
        "text": ["x", "y", "x"],
        "texts": ["x", None, "y"],
        "date": [dt.date(2026, 1, 2), None, dt.date(2026, 1, 3)],
        "ms": pl.Series([1, 2, None], dtype=pl.Datetime("ms")),
        "ns": pl.Series([1, 2, 3], dtype=pl.Datetime("ns")),
        "utc": pl.Series([1, 2, 3], dtype=pl.Datetime("us", "UTC")),
        "took": pl.Series([1, 2, 3], dtype=pl.Duration("us")),
        "price": pl.Series([Decimal("1.50")] * 3, dtype=pl.Decimal(5, 2)),
        "lists": [[1, 2], [], [3]],
        "gaps": [[2**60 + 1, None], None, [3]],
        "words": [["a"], ["b", "c"], []],
        "pair": pl.Series([[1.0, 2.0]] * 3, dtype=pl.Array(pl.Float32, 2)),
    }
)
DTYPES = {
    "whole": "int32",
    "holes": "Int64",
    "small": "UInt8",
    "real": "float64",
    "reals": "Float32",
    "half": "Float32",
    "flag": "bool",
    "flags": "boolean",
    "text": "str",
    "texts": "str",
    "date": "datetime64[ms]",
    "ms": "datetime64[ms]",
    "ns": "datetime64[ns]",
    "utc": "datetime64[us, UTC]",
    "took": "timedelta64[us]",
    "price": "object",
    "lists": "object",
    "gaps": "object",
    "words": "object",
    "pair": "object",
}


def dtypes(frame):
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


def values(frame):
    plain = {name: frame[name].tolist() for name in frame}
    return {n: [v.tolist() if isinstance(v, np.ndarray) else v for v in column] for n, column in plain.items()}


def test_types_and_values():
    table = Dataset(FRAME).to_pandas()
    assert dtypes(table) == DTYPES
    found = values(table)
    assert found["whole"] == [1, 2, 3]
    assert found["holes"] == [2**60 + 1, pd.NA, 3]
    assert found["small"] == [1, pd.NA, 3]
    assert found["reals"][:2] == [0.5, pd.NA]
    assert np.isnan(found["reals"][2])
    assert found["half"] == [0.5, pd.NA, 1.5]
    assert found["flags"] == [True, pd.NA, False]
    assert found["text"] == ["x", "y", "x"]
    assert found["date"] == [pd.Timestamp("2026-01-02"), pd.NaT, pd.Timestamp("2026-01-03")]
    assert found["lists"] == [[1, 2], [], [3]]
    assert found["gaps"] == [[2**60 + 1, None], None, [3]]
    assert found["words"] == [["a"], ["b", "c"], []]
    assert found["pair"] == [[1.0, 2.0]] * 3
    assert all(type(value) is np.ndarray for value in table["lists"])
    assert table["lists"][0].dtype == np.int64
    assert (table["text"] == "x").tolist() == [True, False, True]


def test_integers_of_other_sizes():
    large = pl.Series([[2**63 + 5, None], [2**63 + 7]], dtype=pl.List(pl.UInt64))
    small = pl.Series([[1, None], [2]], dtype=pl.List(pl.Int8))
    table = Dataset(pl.DataFrame({"large": large, "small": small})).to_pandas()
    assert values(table) == {"large": [[2**63 + 5, None], [2**63 + 7]], "small": [[1, None], [2]]}
    assert [table["large"][1].dtype, table["small"][1].dtype] == ["uint64", "int8"]
    huge = Dataset(pl.DataFrame({"a": pl.Series([2**100], dtype=pl.Int128)}))
    for method in ("to_pandas", "to_ddf"):
        with pytest.raises(DtypeError, match="column 'a' has integers of 128 bits, for which pandas has no type"):
            getattr(huge, method)()


def test_what_models_do_with_it():
    table = Dataset({"a": [1, 2], "b": [0.5, 1.5], "f": [True, False]}).to_pandas()
    assert table["b"].dtype == "float64"
    assert table.to_numpy(dtype=float).tolist() == [[1.0, 0.5, 1.0], [2.0, 1.5, 0.0]]
    assert table["a"].values.dtype == np.int64
    table.loc[0, "a"] = 7
    assert table["a"].tolist() == [7, 2]
    holes = Dataset({"a": [1, None]}).to_pandas()
    assert holes.to_numpy(dtype=float, na_value=-1).tolist() == [[1.0], [-1.0]]


@pytest.mark.parametrize("method", ["to_pandas", "compute", "to_iter"])
def test_backends(method):
    def read(backend):
        found = getattr(Dataset({"a": [1, 2], "s": ["x", "y"]}), method)(dtype_backend=backend)
        return next(iter(found)) if method == "to_iter" else found

    assert dtypes(read(None)) == {"a": "int64", "s": "str"}
    assert dtypes(read("numpy_nullable")) == {"a": "Int64", "s": "str"}
    assert dtypes(read("pyarrow")) == {"a": "int64[pyarrow]", "s": "large_string[pyarrow]"}
    with pytest.raises(ArgumentError, match="dtype_backend is 'arrow'; pass 'pyarrow'"):
        read("arrow")


def parquet(folder):
    FRAME.write_parquet(folder / "t.parquet", row_group_size=1)
    return Dataset(folder / "t.parquet")


def without_statistics(folder):
    pq.write_table(FRAME.to_arrow(), folder / "t.parquet", row_group_size=1, write_statistics=False)
    return Dataset(folder / "t.parquet")


def ipc(folder):
    FRAME.write_ipc(folder / "t.arrow", record_batch_size=1)
    return Dataset(folder / "t.arrow")


KINDS = {
    "parquet": parquet,
    "without statistics": without_statistics,
    "ipc": ipc,
    "frame": lambda folder: Dataset(FRAME, npartitions=3),
    "repartitioned": lambda folder: parquet(folder).repartition(3),
    "workflow": lambda folder: Workflow(FRAME.columns >> ops.Rename(f=_same)).fit_transform(parquet(folder)),
}


def _same(name):
    return name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
def test_dask_partitions_have_the_types_that_dask_is_told(tmp_path, kind, backend):
    dataset = KINDS[kind](tmp_path)
    collection = dataset.to_ddf(dtype_backend=backend)
    wanted = dataset.to_pandas(dtype_backend=backend)
    assert collection.npartitions == 3
    assert dtypes(collection._meta) == dtypes(wanted)
    for part in range(3):
        assert dtypes(collection.get_partition(part).compute(scheduler="synchronous")) == dtypes(wanted)
    computed = collection.compute(scheduler="synchronous").reset_index(drop=True)
    pd.testing.assert_frame_equal(computed, wanted)


def test_lists_come_through_dask(tmp_path):
    assert dask.config.get("dataframe.convert-string", True) is not False
    collection = parquet(tmp_path).to_ddf(["lists", "words", "text"])
    assert dtypes(collection) == {"lists": "object", "words": "object", "text": "str"}
    assert values(collection.compute()) == {
        "lists": [[1, 2], [], [3]],
        "words": [["a"], ["b", "c"], []],
        "text": ["x", "y", "x"],
    }
    assert Dataset(collection).to_polars().equals(FRAME.select("lists", "words", "text"))


def test_nulls_of_one_file_and_of_folders_count(tmp_path):
    for day, some in (("1", [1, 2]), ("__HIVE_DEFAULT_PARTITION__", [3, None])):
        (tmp_path / f"day={day}").mkdir()
        pl.DataFrame({"a": some}, schema={"a": pl.Int64}).write_parquet(tmp_path / f"day={day}/0.parquet")
    collection = Dataset(tmp_path).to_ddf()
    assert dtypes(collection) == {"a": "Int64", "day": "Int64"}
    assert dtypes(collection.get_partition(0).compute()) == {"a": "Int64", "day": "Int64"}
    assert dtypes(Dataset(tmp_path / "day=1").to_ddf()) == {"a": "int64", "day": "int64"}
