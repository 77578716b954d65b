"""Statistics of groups and other tables, joined to rows."""

import math

import polars as pl
import pytest

from rowmill import Dataset, ops
from rowmill.errors import (
    ArgumentError,
    ColumnError,
)
from tests.ops.run import run


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
