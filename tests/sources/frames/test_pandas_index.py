"""The index of a pandas frame in a file or an Arrow table: no feature, unless it is asked for by name."""

import warnings

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest

from rowmill import Dataset
from rowmill.errors import ColumnError
from rowmill.loader.torch import Loader

INDEX = "__index_level_0__"
FRAME = pd.DataFrame({"x": [1, 2, 3, 4], "y": [0.5, 1.5, 2.5, 3.5]})
SOME = FRAME.iloc[[2, 0, 3]]  # keeps the row numbers 2, 0 and 3 as its index


def files(folder):
    SOME.to_parquet(folder / "a.parquet")
    return Dataset(folder / "a.parquet")


def feather(folder):
    pyarrow.feather.write_feather(pa.Table.from_pandas(SOME), folder / "a.feather")
    return Dataset(folder / "a.feather")


GIVEN = {
    "parquet": files,
    "feather": feather,
    "arrow": lambda folder: Dataset(pa.Table.from_pandas(SOME)),
    "polars": lambda folder: Dataset(pl.DataFrame(pa.Table.from_pandas(SOME))),
    "lazy": lambda folder: Dataset(pl.DataFrame(pa.Table.from_pandas(SOME)).lazy()),
    "dtypes": lambda folder: Dataset(pa.Table.from_pandas(SOME), dtypes={"x": "int32"}),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_an_index_without_a_name_is_no_column(tmp_path, kind):
    dataset = GIVEN[kind](tmp_path)
    assert dataset.columns == ["x", "y"]
    assert dataset.to_polars().rows() == [(3, 2.5), (1, 0.5), (4, 3.5)]
    assert dataset.to_pandas().columns.to_list() == ["x", "y"]
    assert dataset.head(1).columns == dataset.empty().columns == ["x", "y"]
    assert dataset.to_lazy().collect().columns == ["x", "y"]
    dataset.to_parquet(tmp_path / "out")
    assert pl.read_parquet(tmp_path / "out/*.parquet").columns == ["x", "y"]


@pytest.mark.parametrize("kind", GIVEN)
def test_it_is_read_where_it_is_named(tmp_path, kind):
    dataset = GIVEN[kind](tmp_path)
    assert dataset.to_polars([INDEX, "x"]).rows() == [(2, 3), (0, 1), (3, 4)]
    assert dataset.to_pandas(INDEX)[INDEX].to_list() == [2, 0, 3]
    assert dataset.columns == ["x", "y"]


def test_a_dataset_with_named_columns(tmp_path):
    SOME.to_parquet(tmp_path / "a.parquet")
    dataset = Dataset(tmp_path / "a.parquet", columns=["y", INDEX], dtypes={INDEX: "int32"})
    assert dataset.columns == ["y", INDEX]
    assert dataset.schema[INDEX].dtype == "int32"
    assert dataset.to_polars().rows() == [(2.5, 2), (0.5, 0), (3.5, 3)]
    batch = next(iter(Loader(dataset, 2, shuffle=False)))
    assert {name: values.tolist() for name, values in batch[0].items()} == {"y": [2.5, 0.5], INDEX: [2, 0]}
    assert Dataset(tmp_path / "a.parquet", columns="x").columns == ["x"]
    with pytest.raises(ColumnError, match="no column 'z'"):
        Dataset(tmp_path / "a.parquet", columns=["z"])
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert Dataset(tmp_path / "a.csv", columns=["b"]).to_polars().to_dicts() == [{"b": 2}]


def test_loaders_do_not_load_it(tmp_path):
    SOME.to_parquet(tmp_path / "a.parquet")
    features, target = next(iter(Loader(Dataset(tmp_path / "a.parquet"), 2, targets="y", shuffle=False)))
    assert list(features) == ["x"]
    assert target.tolist() == [2.5, 0.5]


def test_files_with_and_without_it_are_one_table(tmp_path):
    FRAME.to_parquet(tmp_path / "0.parquet")  # rows 0 to 3 in order: pandas stores no index
    SOME.to_parquet(tmp_path / "1.parquet")
    assert Dataset(tmp_path).to_polars()["x"].to_list() == [1, 2, 3, 4, 3, 1, 4]
    with pytest.raises(ColumnError, match=INDEX):
        Dataset(tmp_path).to_polars(INDEX)


def test_an_index_with_a_name_is_a_column(tmp_path):
    frame = pd.DataFrame({"user_id": [7, 8, 3], "x": [1, 2, 3]})
    frame.set_index("user_id").to_parquet(tmp_path / "a.parquet")
    assert Dataset(tmp_path / "a.parquet").to_polars(["user_id", "x"]).rows() == [(7, 1), (8, 2), (3, 3)]
    frame.set_index(["user_id", pd.Index([5, 6, 1])]).to_parquet(tmp_path / "a.parquet")
    assert sorted(Dataset(tmp_path / "a.parquet").columns) == ["user_id", "x"]


def test_ids_that_count_evenly_are_warned_of(tmp_path):
    frame = pd.DataFrame({"user_id": [7, 8, 9], "x": [1, 2, 3]})
    frame.set_index(pd.RangeIndex(7, 10, name="user_id"))[["x"]].to_parquet(tmp_path / "a.parquet")
    with pytest.warns(UserWarning, match=r"the index 'user_id' of .*a.parquet counts evenly.*reset_index") as caught:
        assert Dataset(tmp_path / "a.parquet").columns == ["x"]
    assert caught[0].filename == __file__
    frame.to_parquet(tmp_path / "a.parquet")  # an index without a name only counts the rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Dataset(tmp_path / "a.parquet").columns == ["user_id", "x"]


def test_a_table_of_nothing_else(tmp_path):
    pd.DataFrame(index=[3, 5, 4]).to_parquet(tmp_path / "a.parquet")
    assert Dataset(tmp_path / "a.parquet").to_polars().to_dicts() == [{INDEX: 3}, {INDEX: 5}, {INDEX: 4}]


def test_an_index_in_a_csv_file_is_no_feature(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}, index=[7, 9]).to_csv(tmp_path / "t.csv")
    data = Dataset(tmp_path / "t.csv")
    assert data.schema.column_names == ["a", "b"]
    assert data.to_polars().columns == ["a", "b"]
    named = Dataset(tmp_path / "t.csv", columns=["", "a"])
    assert named.to_polars().rows() == [(7, 1), (9, 2)]


def test_an_index_that_a_loader_names_gets_a_hint(tmp_path):
    pd.DataFrame({"a": [1, 2]}, index=[7, 9]).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ColumnError, match=r"open Dataset\(\.\.\., columns=\[\.\.\., '__index_level_0__'\]\)"):
        Loader(Dataset(tmp_path / "t.parquet"), 1, columns=["a", "__index_level_0__"])
