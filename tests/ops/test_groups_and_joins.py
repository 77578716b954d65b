"""Groupby over partitions, joins that multiply rows, and logarithms of what has none: right, or said."""

import warnings
from datetime import UTC, datetime

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest

import rowmill.whole_partitions
from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError, ColumnError, DtypeError, PartitionWarning

EVENTS = pl.DataFrame({"u": [1, 2, 1, 2, 1, 3], "t": [5, 1, 3, 2, 4, 0], "x": [10, 20, 30, 40, 50, 60]})


@pytest.fixture
def events(tmp_path):
    EVENTS.write_parquet(tmp_path / "a.parquet", row_group_size=2)
    return Dataset(tmp_path)


def test_a_table_of_several_partitions_is_grouped_as_a_whole(events):
    assert events.npartitions == 3
    grouped = ["u", "x"] >> ops.Groupby(groupby_cols="u", aggs="sum")
    made = Workflow(grouped).transform(events).to_polars()
    assert made.to_dict(as_series=False) == {"u": [1, 2, 3], "x_sum": [90.0, 60.0, 60.0]}
    later = Workflow(grouped["x_sum"] >> ops.Normalize()).fit(events)
    assert later.output_node.op.means == {"x_sum": 70.0}  # fitted on three groups
    lag = Workflow(["x"] >> ops.DifferenceLag("u")).transform(Dataset(EVENTS.sort("u"), npartitions=3)).to_polars()
    assert lag["x_difference_lag_1"].to_list() == [None, 20.0, 20.0, None, 20.0, None]


def test_a_table_too_large_for_that_is_warned_of(events, monkeypatch):
    monkeypatch.setattr(rowmill.whole_partitions, "LARGEST", 10)
    workflow = Workflow(["u", "x"] >> ops.Groupby(groupby_cols="u", aggs="sum"))
    with pytest.warns(PartitionWarning, match=r"Groupby looks at one partition.*shuffle_by_keys\(\['u'\]\)"):
        assert workflow.transform(events).num_rows == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = workflow.transform(events.shuffle_by_keys("u")).to_polars().sort("u")
    assert made["x_sum"].to_list() == [90.0, 60.0, 60.0]
    with pytest.warns(PartitionWarning):
        workflow.transform(events.shuffle_by_keys("x"))


def test_descending_order_turns_lists_around_and_keeps_first_and_last():
    aggs = {"x": ["list", "first", "last", "min"]}
    up, down = (
        Workflow(["u", "t", "x"] >> ops.Groupby("u", "t", aggs, ascending=ascending)).transform(EVENTS)
        for ascending in (True, False)
    )
    assert up["x_list"].to_list() == [[30, 50, 10], [20, 40], [60]]
    assert down["x_list"].to_list() == [[10, 50, 30], [40, 20], [60]]
    assert up["x_first"].to_list() == down["x_first"].to_list() == [30, 20, 60]
    assert up["x_last"].to_list() == down["x_last"].to_list() == [10, 40, 60]


def test_keys_and_sort_columns_need_not_be_selected(tmp_path):
    workflow = Workflow(["x"] >> ops.Groupby(groupby_cols=["u"], sort_cols="t", aggs="list")).fit(EVENTS)
    assert workflow.input_schema.column_names == ["u", "t", "x"]
    made = workflow.transform(EVENTS)
    assert made["x_list"].to_list() == [[30, 50, 10], [20, 40], [60]]
    assert made.columns == ["u", "x_list"] and workflow.output_schema.column_names == made.columns
    workflow.save(tmp_path / "w")
    assert Workflow.load(tmp_path / "w").transform(EVENTS).equals(made)


@pytest.mark.parametrize("what", ["groupby_cols", "sort_cols", "aggs"])
def test_columns_that_a_groupby_misses_are_named(what):
    settings = {"groupby_cols": "u", "sort_cols": "t", "aggs": {"x": "sum"}}
    settings[what] = {"zz": "sum"} if what == "aggs" else "zz"
    node = ["u", "t", "x"] >> ops.Rename(f=lambda name: name)
    with pytest.raises(ColumnError, match=f"{what} of Groupby names 'zz', which is not among.*select it too"):
        Workflow(node >> ops.Groupby(**settings)).fit(EVENTS)


TABLE = pl.DataFrame({"u": [1, 1, 2], "name": ["a", "b", "c"]})


def test_rows_that_a_join_multiplies_are_warned_of():
    with pytest.warns(UserWarning, match=r"made 3 rows more than the 6.*drop_duplicates_ext=True.*validate='m:1'"):
        made = Workflow(["u", "x"] >> ops.JoinExternal(TABLE, on="u")).transform(EVENTS)
    assert made.height == 9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for more in ({"validate": "m:m"}, {"validate": "many_to_many"}):
            assert Workflow(["u", "x"] >> ops.JoinExternal(TABLE, on="u", **more)).transform(EVENTS).height == 9
        kept = ops.JoinExternal(TABLE, on="u", drop_duplicates_ext=True, validate="m:1")
        assert Workflow(["u"] >> kept).transform(EVENTS)["name"].to_list() == ["a", "c", "a", "c", "a", None]


def test_joins_are_validated(tmp_path):
    for form in ("m:1", "1:1", "many_to_one", "one_to_one"):
        with pytest.raises(ValueError, match=r"has a key of \['u'\] 2 times; pass drop_duplicates_ext"):
            ops.JoinExternal(TABLE, on="u", validate=form)
    for form, table in (("1:m", TABLE), ("1:1", TABLE.tail(2))):
        with pytest.raises(ArgumentError, match=r"3 of 6 rows have a key of \['u'\] that an earlier row has"):
            Workflow(["u"] >> ops.JoinExternal(table, on="u", validate=form)).transform(EVENTS)
    one = EVENTS.unique("u", maintain_order=True)
    assert Workflow(["u"] >> ops.JoinExternal(TABLE, on="u", validate="1:m")).transform(one).height == 4
    with pytest.raises(ArgumentError, match="validate is 'x'"):
        ops.JoinExternal(TABLE, on="u", validate="x")
    workflow = Workflow(["u"] >> ops.JoinExternal(TABLE.tail(2), on="u", validate="m:1")).fit(EVENTS)
    workflow.save(tmp_path / "w")
    assert Workflow.load(tmp_path / "w").output_node.op.validate == "m:1"


@pytest.mark.parametrize("zoned", ["data", "table"])
def test_times_with_and_without_a_zone_are_not_compared(zoned):
    plain, utc = [datetime(2024, 1, 1)], [datetime(2024, 1, 1, tzinfo=UTC)]
    data = pl.DataFrame({"t": utc if zoned == "data" else plain})
    table = pl.DataFrame({"t": plain if zoned == "data" else utc, "v": [1]})
    said = "has a time zone in the data .* and none in" if zoned == "data" else "no time zone in the data .* and one in"
    with pytest.raises(ColumnError, match=said):
        Workflow(["t"] >> ops.JoinExternal(table, on="t")).fit(data)


def test_logarithms_that_do_not_exist_are_counted():
    frame = pl.DataFrame(
        {"x": [-5.0, -1.0, 0.0, None, -2.0], "n": [-1, 0, 1, 2, 3], "l": [[-3], [1, 2], [], None, [0]]}
    )
    with pytest.warns(UserWarning) as caught:
        made = Workflow(["x", "n", "l"] >> ops.LogOp()).transform(frame)
    said = sorted(str(w.message) for w in caught)
    assert "of 4 values of column 'l'" in said[0] and "1 below -1, which became NaN" in said[0]
    assert "of 5 values of column 'n'" in said[1] and "1 of -1, which became minus infinity" in said[1]
    assert "2 below -1, which became NaN and 1 of -1" in said[2] and "Clip(min_value=0)" in said[2]
    np.testing.assert_array_equal(made["x"].to_numpy(), np.array([np.nan, -np.inf, 0, np.nan, np.nan], np.float32))
    assert made["x"].null_count() == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logs = Workflow(["x"] >> ops.LogOp()).transform(pl.DataFrame({"x": [0.0, float("nan"), 9.0, 1e300]}))
    wanted = np.array([0.0, np.nan, np.log(np.float32(10.0)), 690.77552789821], np.float32)
    np.testing.assert_array_equal(logs["x"].to_numpy(), wanted)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([[1, 2], [3], [4], []], [[1, 2], [3], [4], []]),
        ([None, [1.5], [2], None], [None, [1.5], [2.0], None]),
        ([["a"], [], ["b", "c"], ["d"]], [["a"], [], ["b", "c"], ["d"]]),
    ],
)
def test_list_columns_of_dask_frames(values, wanted):
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(pd.DataFrame({"v": values}), npartitions=2)
        assert Dataset(frame).to_polars()["v"].to_list() == wanted


def test_list_columns_of_dask_frames_that_change_their_type():
    parts = [pd.DataFrame({"v": [[1]] * 2_000}), pd.DataFrame({"v": [["a"]] * 2_000})]
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_map(lambda number: parts[number], [0, 1], meta=parts[0].head(0))
        with pytest.raises(
            DtypeError, match=r"column 'v' is list\[string\] in partition 1 .*list\[int64\] in its first"
        ):
            Dataset(frame).to_polars()


@pytest.mark.parametrize(
    "text", ["2024-05-06T07:08:09", "2024-05-06 07:08:09", "2024-05-06T07:08:09.000", "2024-05-06 07:08"]
)
def test_times_in_json_are_read_as_from_csv(text, tmp_path):
    times = pl.DataFrame({"t": [datetime(2023, 1, 1), datetime(2024, 1, 1)]})
    workflow = Workflow(["t"] >> ops.Expr(pl.col("t").dt.epoch("s").alias("s"))).fit(times)
    (tmp_path / "a.csv").write_text(f"t\n2023-01-01T00:00:00\n{text}\n")
    wanted = workflow.transform(Dataset(tmp_path / "a.csv", dtypes={"t": "datetime[us]"})).to_polars()["s"].to_list()
    assert workflow.transform({"t": text}) == {"s": wanted[1]}
    assert workflow.transform([{"t": text}, {"t": None}]) == [{"s": wanted[1]}, {"s": None}]


def test_dates_and_zones_in_json():
    days = pl.DataFrame({"d": pl.Series(["2024-01-01"]).str.to_date(), "t": [datetime(2024, 1, 1, tzinfo=UTC)]})
    workflow = Workflow(["d", "t"] >> ops.Rename(postfix="_")).fit(days)
    made = workflow.transform({"d": "2024-02-03", "t": "2024-02-03T01:00:00+02:00"})
    assert made["d_"].isoformat() == "2024-02-03" and made["t_"] == datetime(2024, 2, 2, 23, tzinfo=UTC)
    with pytest.raises(ColumnError, match=r"column 't' has 'soon', and was datetime\[us, UTC\].*write it like"):
        workflow.transform([{"d": "2024-02-03", "t": "2024-02-03T01:00:00Z"}, {"d": None, "t": "soon"}])


def test_vocabularies_of_pandas(tmp_path):
    frame = pl.DataFrame({"s": ["b", "a", "z"], "l": [["a"], ["b", "z"], []]})
    frame.write_parquet(tmp_path / "a.parquet")
    for values in (pd.Series(["b", "a"]), pd.Index(["b", "a"]), pl.Series(["b", "a"]), ["b", "a"]):
        workflow = Workflow(["s", "l"] >> ops.Categorify(vocabs={"s": values, "l": values}, freq_threshold=None))
        made = workflow.fit_transform(Dataset(tmp_path)).to_polars()
        assert made["s"].to_list() == [3, 4, 2] and made["l"].to_list() == [[4], [3, 2], []]


def test_vocabularies_can_be_read_as_files():
    op = ops.Categorify()
    Workflow(["s"] >> op).fit(pl.DataFrame({"s": ["b", "a", "b"]}))
    read = pd.read_parquet(op.categories["s"])
    assert read["s"].to_list() == ["b", "a"] and read["s_size"].to_list() == [2, 1]
    assert op.categories["s"]["s"].to_list() == ["b", "a"]


def test_a_vocabulary_larger_than_its_limit_is_warned_of():
    frame = pl.DataFrame({"s": [f"{number}" for number in range(1_000)]})
    with pytest.warns(UserWarning, match=r"vocabulary of 's' takes .* more than cardinality_memory_limit='24B'"):
        made = Workflow(["s"] >> ops.Categorify(cardinality_memory_limit="24B")).fit_transform(frame)
    assert sorted(made["s"]) == list(range(3, 1_003))
    with pytest.warns(FutureWarning, match="tree_width"):
        ops.Categorify(tree_width=8)


def test_a_column_of_nothing_but_nan_is_null():
    workflow = Workflow(["s"] >> ops.Categorify()).fit(pd.DataFrame({"s": ["a", "b", None]}))
    assert workflow.transform(pd.DataFrame({"s": [np.nan, np.nan]}))["s"].to_list() == [1, 1]


def test_names_of_what_operators_make():
    assert ops.Rename(postfix="_1").output_column_names(["a", "b"]).names == ["a_1", "b_1"]
    assert ops.TargetEncoding("y").output_column_names(["a"]).names == ["TE_a_y"]
    assert ops.Categorify(encode_type="combo").output_column_names([["a", "b"], "a"]).names == ["a", "a_b"]
    assert ops.Groupby("u", aggs="sum").output_column_names(["u", "x"]).names == ["u", "x_sum"]


def test_lists_that_dask_has_turned_into_text_are_warned_of():
    with dask.config.set({"dataframe.convert-string": True}):
        lists = dd.from_pandas(pd.DataFrame({"v": [[1, 2], [3]], "s": ["a", "[b]"]}), npartitions=1)
        with pytest.warns(UserWarning, match=r"column 'v' .* texts such as '\[1, 2\]'.*convert-string': False"):
            Dataset(lists)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Dataset(lists[["s"]])


def test_values_without_a_logarithm_are_counted_over_all_pieces():
    data = Dataset(pl.DataFrame({"x": np.arange(-500, 500)}), npartitions=20)
    with pytest.warns(UserWarning, match="LogOp") as caught:
        Workflow(["x"] >> ops.LogOp()).transform(data).to_polars()
    texts = [str(warning.message) for warning in caught if "LogOp" in str(warning.message)]
    assert len(texts) == 2  # the first piece, and when there are ten times as many
    assert "values of column 'x' so far, 499 below -1" in texts[-1] and "1 of -1" in texts[-1]
    assert {warning.filename for warning in caught} == {__file__}


def test_the_warning_of_multiplied_rows_names_the_users_line():
    other = pl.DataFrame({"k": [1, 1, 2], "v": [1, 2, 3]})
    workflow = Workflow(["k"] >> ops.JoinExternal(other, on=["k"])).fit(Dataset({"k": [1, 2]}))
    with pytest.warns(UserWarning, match="rows more") as caught:
        workflow.transform(Dataset({"k": [1, 2]})).to_ddf().compute(scheduler="synchronous")
    assert {w.filename for w in caught if "rows more" in str(w.message)} == {__file__}


def test_filling_makes_one_constant_for_each_type(monkeypatch):
    from rowmill.ops import fill

    made = []
    real = fill._fitting
    monkeypatch.setattr(fill, "_fitting", lambda value, column: made.append(column.dtype) or real(value, column))
    names = [f"c{i}" for i in range(200)]
    frame = pl.DataFrame(
        {name: pl.Series([i, None], dtype=[pl.Int64, pl.Float32][i % 2]) for i, name in enumerate(names)}
    )
    filled = Workflow(names >> ops.FillMissing()).transform(frame)
    assert filled.row(1) == (0,) * 200 and filled.schema == frame.schema
    assert len(made) <= 4  # two types; the graph is described once and computed once
