"""What people try who arrive with a pandas program: each of these once gave other values, or an error of a library."""

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rowmill import ColumnSelector, Dataset, Tags, Workflow, ops
from rowmill.errors import ArgumentError, ColumnError, DtypeError, FittedRowsWarning
from rowmill.loader.torch import Loader, TorchAsyncItr


def test_a_pandas_index_is_kept_where_rows_stay_the_same():
    whole = pd.DataFrame({"a": [0.0, 10.0, 20.0, 30.0]})
    part = whole[whole.a != 10].copy()
    part["workflow"] = Workflow(["a"] >> ops.Clip(min_value=-1)).transform(part)["a"]
    part["operator"] = ops.Clip(min_value=-1).transform(ColumnSelector(["a"]), part)["a"]
    assert part["workflow"].tolist() == part["operator"].tolist() == part["a"].tolist() == [0.0, 20.0, 30.0]
    fewer = Workflow(["a"] >> ops.Filter(lambda frame: frame["a"] > 5)).transform(part[["a"]])
    assert fewer["a"].tolist() == [20.0, 30.0]


def test_part_of_the_fitted_rows_is_refused_and_another_order_is_told():
    random = np.random.default_rng(1)
    frame = pl.DataFrame({"k": random.integers(0, 80, 600), "y": random.integers(0, 2, 600).astype("float64")})
    made = Workflow(["k"] >> ops.TargetEncoding("y", kfold=5, p_smooth=1)).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = made.transform(frame, fitted_rows=True)
        assert made.fit_transform(frame).equals(whole) and made.transform(frame).equals(whole)
        made.transform(frame[1:], fitted_rows=False)
    with pytest.raises(ArgumentError, match=r"599 rows where the workflow was fitted on 600"):
        made.transform(frame[1:], fitted_rows=True)
    with pytest.raises(ArgumentError, match="599 rows"):
        made.transform(Dataset(frame[1:]), fitted_rows=True)
    with pytest.warns(FittedRowsWarning, match="in their order"):
        made.transform(frame.reverse(), fitted_rows=True)


def test_names_may_be_an_index_an_array_or_a_set():
    frame = pd.DataFrame({"a": [1.0, 2.0], "k": ["x", "y"], "u": [1, 2]})
    schema, names = Dataset(frame).schema, frame.columns.drop("k")
    assert schema.select(names).column_names == ["a", "u"]
    assert schema.excluding(names).column_names == schema.apply_inverse(names).column_names == ["k"]
    assert list(Loader(frame, 2, columns=names).peek()[0]) == ["a", "u"]
    assert list(Loader(frame, 2, columns={"u", "a"}).peek()[0]) == ["a", "u"]
    assert TorchAsyncItr(frame, cats=np.array(["u"]), conts=pd.Index(["a"]), batch_size=2).peek()[0].tolist() == [
        [1],
        [2],
    ]
    assert ops.Groupby(groupby_cols=pd.Index(["u"]), aggs="mean").groupby_cols is not None
    for graph in (names + (["k"] >> ops.Categorify()), (["k"] >> ops.Categorify()) + names):
        assert set(Workflow(graph).fit(Dataset(frame)).output_schema.column_names) == {"a", "u", "k"}


def test_a_shape_of_two_sizes_is_kept_by_every_new_dataset(tmp_path):
    frame = pl.DataFrame({"m": [[[i, 1], [2, 3]] for i in range(6)], "f": [[float(i)] * 4 for i in range(6)]})
    data = Dataset(frame)
    for name in ("m", "f"):
        data.schema[name] = data.schema[name].with_shape((None, 2, 2))
    for same in (data, Dataset(frame, schema=data.schema), data.with_schema(data.schema), data.repartition(2),
                 data.with_tags({"f": Tags.CONTINUOUS})):  # fmt: skip
        features, _ = Loader(same, 2).peek()
        assert features["m"].tolist() == [[[0, 1], [2, 3]], [[1, 1], [2, 3]]] and features["f"].shape == (2, 2, 2)


def test_fixed_lists_with_their_own_shape_are_dense_in_every_loader():
    data = Dataset(pl.DataFrame({"x": np.arange(12, dtype="float32").reshape(4, 3), "y": [0.0] * 4}))
    data.schema["x"] = data.schema["x"].with_shape((None, 3))
    _, (_, lists), _ = TorchAsyncItr(data, conts=["x"], labels=["y"], batch_size=2).peek()
    assert lists["x"].tolist() == Loader(data, 2).peek()[0]["x"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_times_of_other_units_and_zones_are_joined():
    naive = pl.DataFrame({"t": [dt.datetime(2020, 1, 1)], "y": [1]})
    utc = naive.with_columns(pl.col("t").dt.replace_time_zone("UTC"))
    nanoseconds = naive.with_columns(pl.col("t").cast(pl.Datetime("ns")))
    paris = utc.with_columns(pl.col("t").dt.convert_time_zone("Europe/Paris"))
    for ours, theirs in ((naive, nanoseconds), (utc, paris)):
        graph = ["t", "y"] >> ops.JoinExternal(theirs.rename({"y": "v"}), on=["t"])
        assert Workflow(graph).fit_transform(Dataset(ours)).to_polars()["v"].to_list() == [1]
    with pytest.raises(ColumnError, match="in the table in which it is looked up"):
        dates = naive.with_columns(pl.col("t").dt.date()).rename({"y": "v"})
        Workflow(["t", "y"] >> ops.JoinExternal(dates, on=["t"])).fit_transform(Dataset(naive)).to_polars()
    with pytest.raises(DtypeError, match="wanted one type"):
        Dataset.merge(Dataset(naive), Dataset(utc.rename({"y": "v"})), on="t")


@pytest.mark.parametrize("kind", [pl.Date, pl.Datetime])
def test_a_number_is_no_time(kind):
    made = Workflow(["t"]).fit(Dataset(pl.DataFrame({"t": [dt.date(2020, 1, 1)]}, schema={"t": kind})))
    with pytest.raises(ColumnError, match="write it like '2024-05-06"):
        made.transform({"t": 1577934245})
    assert made.transform({"t": None}) == {"t": None}


def test_the_plan_of_a_loader_that_does_not_shuffle():
    for size in (2, 16, 64):
        plan = Loader({"a": list(range(1000))}, size).plan()
        assert plan.order_in_batch == 0 and "in the order of the table" in str(plan)
    assert Loader({"a": list(range(1000))}, 64, True).plan().order_in_batch > 0.9


def test_set_epoch_keeps_a_position_of_the_same_epoch():
    def made():
        return Loader({"a": np.arange(100)}, 10, True)

    first = made()
    first.set_epoch(3)
    wanted = [features["a"].tolist() for features, _ in first]
    loader, seen = made(), []
    loader.set_epoch(3)
    for features, _ in loader:
        seen.append(features["a"].tolist())
        if len(seen) == 4:
            state = loader.state_dict()
            break
    again = made()
    again.load_state_dict(state)
    again.set_epoch(3)
    assert seen + [features["a"].tolist() for features, _ in again] == wanted
    again.set_epoch(3)
    assert [features["a"].tolist() for features, _ in again] == wanted
