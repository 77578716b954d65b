"""Functions and expressions of the user."""

import pandas as pd
import polars as pl
import pytest

from rowmill import ColumnSelector, Dataset, Workflow, ops
from rowmill.errors import (
    ArgumentError,
    ColumnError,
)
from tests.ops.run import run


def test_functions_get_pandas():
    seen = []

    def look(column, frame):
        seen.append((type(column), type(frame), sorted(frame.columns)))
        return column + frame["y"]

    made = run(["x"] >> ops.LambdaOp(look, dependency="y"), {"x": [1, 2], "y": [0.5, 0.25]})
    assert made["x"].to_list() == [1.5, 2.25]
    assert seen[-1] == (pd.Series, pd.DataFrame, ["x", "y"])
    assert run(ColumnSelector("x") >> (lambda col: col.str.upper()), {"x": ["a", None]})["x"].to_list() == ["A", None]
    assert run(ColumnSelector("x") >> (lambda col: col.fillna(0).astype("int64")), {"x": [1, None]})["x"].to_list() == [
        1,
        0,
    ]
    with pytest.raises(ArgumentError):
        ops.LambdaOp(lambda a, b, c: a)


def test_integers_and_flags_beside_nulls_reach_functions_as_they_are(tmp_path):
    """As floats they would lose digits, and their text would depend on whether a piece of the table has a null."""
    large = 2**53 + 1
    data = {"id": [large, large - 1, None, 5], "b": [True, None, False, None]}
    assert run(["id"] >> ops.LambdaOp(lambda col: col + 1), data)["id"].to_list() == [large + 1, large, None, 6]
    assert run(["b"] >> ops.LambdaOp(lambda col: ~col), data)["b"].to_list() == [False, None, True, None]
    assert run(["id"] >> ops.Filter(lambda df: df["id"] == large), data)["id"].to_list() == [large]
    pl.DataFrame({"id": [1, 2, None, 4]}).write_parquet(tmp_path / "a.parquet", row_group_size=2)
    workflow = Workflow(["id"] >> ops.LambdaOp(lambda col: col.astype(str)))
    for part_size in ("16B", "1MB"):
        cut = Dataset(tmp_path / "a.parquet", part_size=part_size)
        assert workflow.fit(cut).transform(cut).to_polars()["id"].drop_nulls().to_list()[:2] == ["1", "2"]
        assert workflow.transform(cut).to_polars()["id"][3] == "4" == workflow.transform({"id": 4})["id"]
    nullable = pd.DataFrame({"id": pd.array([large, None], "Int64")})
    kept = Workflow(["id"] >> ops.AddTags(["x"])).fit(nullable).transform(nullable)
    assert kept["id"].dtype == "Int64" and kept["id"][0] == large and kept["id"].isna()[1]


def test_settings_by_column_name_columns_that_are_there():
    for setting in (
        {"freq_threshold": {"cc": 2}},
        {"max_size": {"cc": 5}},
        {"num_buckets": {"cc": 5}},
        {"vocabs": {"cc": [1]}},
    ):
        with pytest.raises(ColumnError, match="names 'cc', which is not selected; did you mean 'c'"):
            run(["c"] >> ops.Categorify(**setting), {"c": [1, 2]})
    with pytest.raises(ArgumentError, match="cannot fill column 'c', which is string, with 0"):
        run(["c"] >> ops.FillMissing(), {"c": ["a", None]})


def test_expressions():
    made = run(["a", "b"] >> ops.Expr(ratio=pl.col("a") / pl.col("b"), keep=True), {"a": [1, 3], "b": [2, 4]})
    assert made.to_dict(as_series=False) == {"a": [1, 3], "b": [2, 4], "ratio": [0.5, 0.75]}
    chained = ["a"] >> ops.FillMissing(5) >> ops.Expr(pl.col("a") * 2) >> ops.Normalize()
    assert run(chained, {"a": [None, 1]}).columns == ["a"]
    assert run(["a"] >> ops.FillMissing, {"a": [None, 1]})["a"].to_list() == [0, 1]  # the class, with its defaults
    with pytest.raises(ColumnError, match="select the columns"):
        run(["a"] >> ops.Expr(pl.col("nope")), {"a": [1]})
