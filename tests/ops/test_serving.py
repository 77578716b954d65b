"""Rows that come after fitting: without labels, in other types, in the frame that was fitted. Nothing is silent."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError, ColumnError

ROWS = 400
FRAME = pl.DataFrame(
    {
        "city": [f"c{i % 7}" for i in range(ROWS)],
        "x": np.arange(ROWS) % 11,
        "label": (np.arange(ROWS) % 3 == 0).astype(np.int64),
    }
)


@pytest.mark.parametrize("operator", [ops.TargetEncoding("label"), ops.JoinGroupby(["label"], stats=["mean", "count"])])
def test_what_was_learnt_of_the_label_stays_when_the_label_goes(operator, tmp_path):
    workflow = Workflow((["city"] >> operator) + ["label"]).fit(FRAME)
    wanted = workflow.transform(FRAME, folds=False).drop("label")
    assert wanted.width
    workflow.save(tmp_path / "w")
    for served in (workflow, Workflow.load(tmp_path / "w")):
        served.remove_inputs(["label"])
        assert served.output_schema.column_names == wanted.columns
        assert served.transform(FRAME.drop("label")).equals(wanted)
        assert served.transform(Dataset(FRAME.drop("label"))).to_polars().equals(wanted)


def test_a_fraction_is_never_cut_off_where_whole_numbers_were_fitted():
    for operator in (ops.Normalize(), ops.FillMissing(), ops.Categorify()):
        workflow = Workflow(["x"] >> operator).fit(FRAME)
        whole = workflow.transform({"x": 3.0})  # JSON and pandas know no difference
        assert whole == workflow.transform({"x": 3})
        for given in ({"x": 1.5}, pl.DataFrame({"x": [1.0, 1.5]}), pd.DataFrame({"x": [1.5]})):
            with pytest.raises(ColumnError, match=r"'x' has 1\.5, and was int64 when the workflow was fitted"):
                workflow.transform(given)
        data = workflow.transform(Dataset(pl.DataFrame({"x": [1.5]})))
        if isinstance(operator, ops.StatOperator):
            with pytest.raises(ColumnError, match="'x' has"):
                data.to_polars()
        else:  # with nothing learnt, a dataset goes by its own types
            assert data.to_polars()["x"].to_list() == [1.5]


@pytest.mark.parametrize("kind", [lambda f: f, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, pl.DataFrame.lazy])
def test_the_frame_that_was_fitted_is_encoded_out_of_fold(kind):
    workflow = Workflow(["city"] >> ops.TargetEncoding("label", kfold=5))
    wanted = pl.DataFrame(pl.from_pandas(pd.DataFrame(workflow.fit_transform(FRAME.to_pandas()))))
    other = Workflow(["city"] >> ops.TargetEncoding("label", kfold=5)).fit(kind(FRAME))
    made = other.transform(kind(FRAME))
    assert pl.DataFrame(made.collect() if isinstance(made, pl.LazyFrame) else made).equals(wanted)
    assert other.transform(Dataset(kind(FRAME))).to_polars().equals(wanted)
    assert not pl.DataFrame(other.transform(FRAME.reverse())).reverse().equals(wanted)
    assert other.transform(FRAME[:1].to_dicts()[0])["TE_city_label"] != wanted["TE_city_label"][0]


def test_a_missing_integer_is_missing_however_it_is_written():
    workflow = Workflow(["u"] >> ops.Categorify()).fit(pl.DataFrame({"u": [1, 2, None]}))
    rows = [{"u": 2}, {"u": None}]
    wanted = workflow.transform(rows)
    for nothing in (float("nan"), np.nan, pd.NA):
        assert workflow.transform([{"u": 2}, {"u": nothing}]) == wanted
        assert workflow.transform({"u": nothing}) == wanted[1]
    assert workflow.transform(pd.DataFrame({"u": [2, np.nan]}).iloc[1]) == wanted[1]  # a row of a frame
    assert workflow.transform(pd.DataFrame({"u": [2, np.nan]}))["u"].to_list() == [row["u"] for row in wanted]


def test_a_function_that_fails_says_so_at_once_and_where(tmp_path):
    with pytest.raises(ArgumentError, match=r"fails on an empty column: AttributeError.*dtype="):
        Workflow(["x"] >> ops.LambdaOp(lambda c: c.fooo) >> ops.Normalize()).fit(FRAME)

    def parsed(column):
        return column.map(int)

    FRAME.with_columns(pl.when(pl.col("x") == 5).then(pl.lit("no")).otherwise(pl.lit("1")).alias("s")).write_parquet(
        tmp_path / "a.parquet", row_group_size=100
    )
    workflow = Workflow(["s"] >> ops.LambdaOp(parsed, dtype="int64") >> ops.Normalize())
    with pytest.raises(ValueError, match=r"invalid literal.*in LambdaOp\(parsed\), on column 's'") as caught:
        workflow.fit(Dataset(tmp_path / "a.parquet"))
    assert "a.parquet, row groups 0 to 3 (rows 0 to 400)" in " ".join(caught.value.__notes__)


def test_a_key_of_another_type_is_told_so():
    table = pl.DataFrame({"x": ["1", "2"], "name": ["a", "b"]})
    with pytest.raises(ColumnError, match="'x' is int64 here and string in the external table"):
        Workflow(["x"] >> ops.JoinExternal(table, on="x")).fit(FRAME)


def test_times_of_numpy_and_pandas_in_a_row():
    times = pl.DataFrame({"t": [datetime(2024, 1, 2, 3), datetime(2025, 1, 2, 3)]})
    workflow = Workflow(["t"] >> ops.Expr(pl.col("t").dt.year().alias("year"))).fit(times)
    for time in (datetime(2024, 5, 6), np.datetime64("2024-05-06"), pd.Timestamp("2024-05-06")):
        assert workflow.transform({"t": time}) == {"year": 2024}
    for nothing in (None, np.datetime64("NaT"), pd.NaT):
        assert workflow.transform({"t": nothing}) == {"year": None}
