"""Filters, groups within a partition, and differences to rows before."""

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import (
    ArgumentError,
)
from tests.ops.run import run


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
