"""JoinAsOf against pandas' merge_asof, DateParts against pandas' dt, TimeDifference against figures worked out."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError, ColumnError

DRAW = np.random.default_rng(5)


def random_tables(kind):
    """Rows and features with few different moments and keys, so that many are equal."""
    left, right = DRAW.integers(0, 60), DRAW.integers(0, 40)
    moments = {"int": 1, "float": 0.25, "us": 1, "date": 1}
    times = [np.sort(DRAW.integers(-20, 30, size)) * moments[kind] for size in (left, right)]
    frames = [
        pl.DataFrame({"t": time, "k": DRAW.integers(0, 4, len(time)), "s": DRAW.choice(list("abc"), len(time))})
        for time in times
    ]
    if kind == "us":
        frames = [frame.with_columns((pl.col("t") * 86_400_000_000).cast(pl.Datetime("us"))) for frame in frames]
    if kind == "date":
        frames = [frame.with_columns(pl.col("t").cast(pl.Int32).cast(pl.Date)) for frame in frames]
    return frames[0].with_columns(row=pl.int_range(pl.len())), frames[1].with_columns(v=pl.int_range(pl.len()) * 1.0)


def as_pandas(frame):
    made = frame.to_pandas()
    made["t"] = made["t"].astype("datetime64[us]") if frame["t"].dtype.is_temporal() else made["t"]
    return made


@pytest.mark.parametrize("strategy", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("kind", ["int", "float", "us", "date"])
def test_as_of_is_pandas_merge_asof(kind, strategy):
    for number in range(30):
        rows, features = random_tables(kind)
        by = [None, "k", ["k", "s"]][number % 3]
        keys = [] if by is None else [by] if isinstance(by, str) else by
        tolerance = [None, 3, 0][number // 3 % 3]
        exact = bool(number % 2)
        temporal = kind in ("us", "date")
        given = dt.timedelta(days=tolerance) if temporal and tolerance is not None else tolerance
        for_pandas = given if temporal or tolerance is None or kind == "int" else float(tolerance)
        right = features.select("t", *keys, "v")
        wanted = pd.merge_asof(
            as_pandas(rows), as_pandas(right), on="t", by=keys or None, direction=strategy,
            tolerance=None if for_pandas is None else pd.Timedelta(for_pandas) if temporal else for_pandas,
            allow_exact_matches=exact,
        )["v"].to_numpy()  # fmt: skip
        # pandas wants sorted tables; here any order does, but of equal moments the last one counts
        shuffled = right.with_row_index("at").sort("t", descending=True, maintain_order=True)
        shuffled = shuffled.sort("t", "at", descending=[True, False]).drop("at")
        for table in (right, shuffled):
            join = ops.JoinAsOf(table, "t", by, given, strategy, allow_exact_matches=exact)
            mixed = rows.sample(fraction=1, shuffle=True, seed=number)
            found = Workflow(["t", *keys, "row"] >> join).transform(mixed).sort("row")["v"].to_numpy()
            assert np.array_equal(found, wanted, equal_nan=True), (number, by, tolerance, exact)


def test_no_value_is_from_the_future():
    rows, features = random_tables("us")
    join = ops.JoinAsOf(features.select("k", "t", then="t"), on="t", by="k")
    found = Workflow(["t", "k"] >> join).transform(rows)
    known = found.drop_nulls()
    assert known.height and (known["then"] <= known["t"]).all()


def test_single_rows_files_and_saved_workflows(tmp_path):
    rows, features = random_tables("us")
    features.write_parquet(tmp_path / "f.parquet")
    join = ops.JoinAsOf(tmp_path / "f.parquet", on="t", by=["k", "s"], tolerance=dt.timedelta(days=4))
    workflow = Workflow(["t", "k", "s"] >> join).fit(rows)
    wanted = workflow.transform(rows)
    assert [workflow.transform(row) for row in rows.to_dicts()] == wanted.to_dicts()
    workflow.save(tmp_path / "w")
    (tmp_path / "f.parquet").unlink()
    assert Workflow.load(tmp_path / "w").transform(rows).equals(wanted)
    assert workflow.transform(Dataset(rows).repartition(3)).to_polars().equals(wanted)
    again = Workflow(["t", "k", "s"] >> ops.JoinAsOf(Dataset(features), on="t", by=["k", "s"])).transform(rows)
    assert again.columns == ["t", "k", "s", "v"]


def test_other_names_types_and_units():
    features = pl.DataFrame(
        {"at": [dt.date(2024, 1, 1), dt.date(2024, 1, 3)], "who": [1, 1], "price": [1.5, 2.5], "note": ["a", "b"]}
    )
    rows = pl.DataFrame(
        {"t": [dt.datetime(2024, 1, 2, 23), dt.datetime(2024, 1, 3), None], "u": pl.Series([1, 1, 1], dtype=pl.Int8)}
    )
    for unit in ("ms", "us", "ns"):
        join = ops.JoinAsOf(features, on="t", by="u", on_ext="at", by_ext="who", columns_ext=["note"])
        found = Workflow(["t", "u"] >> join).transform(rows.with_columns(pl.col("t").dt.cast_time_unit(unit)))
        assert found["note"].to_list() == ["a", "b", None]
    late = pl.DataFrame({"t": pl.Series([1_000_001], dtype=pl.Datetime("us")), "v": [1]})
    early = pl.DataFrame({"t": pl.Series([1_000], dtype=pl.Datetime("ms"))})
    for strategy, wanted in (("backward", None), ("forward", 1)):
        assert Workflow(["t"] >> ops.JoinAsOf(late, "t", strategy=strategy)).transform(early)["v"].item() == wanted


def test_nulls_nan_and_empty_tables():
    features = pl.DataFrame({"t": [1.0, np.nan, None, 5.0], "k": ["a", "a", "a", None], "v": [1, 2, 3, 4]})
    rows = pl.DataFrame({"t": [2.0, np.nan, None, 9.0, 9.0], "k": ["a", "a", "a", None, "zz"]})
    assert Workflow(["t", "k"] >> ops.JoinAsOf(features, "t", "k")).transform(rows)["v"].to_list() == [
        1,
        None,
        None,
        4,
        None,
    ]
    for strategy in ("backward", "forward", "nearest"):
        join = ops.JoinAsOf(features.head(0), "t", "k", 1.0, strategy)
        assert Workflow(["t", "k"] >> join).transform(rows)["v"].to_list() == [None] * 5
        assert Workflow(["t", "k"] >> join).transform(rows.head(0)).columns == ["t", "k", "v"]
    ends = pl.DataFrame({"t": [-(2**63), 2**63 - 1], "v": [1, 2]})
    near = Workflow(["t"] >> ops.JoinAsOf(ends, "t", strategy="nearest", tolerance=5))
    assert near.transform(pl.DataFrame({"t": [2**63 - 3, 0, -(2**63)]}))["v"].to_list() == [2, None, 1]


FEATURES = pl.DataFrame({"t": [dt.datetime(2024, 1, 1)], "k": [1], "v": [1.0]})


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: ops.JoinAsOf(FEATURES, "t", strategy="next"), ArgumentError, "strategy"),
        (lambda: ops.JoinAsOf(FEATURES, "time"), ColumnError, "'time'"),
        (lambda: ops.JoinAsOf(FEATURES, "t", "key"), ColumnError, "'key'"),
        (lambda: ops.JoinAsOf(FEATURES, "t", ["k"], by_ext=["k", "v"]), ArgumentError, "by_ext 2"),
        (lambda: ops.JoinAsOf(FEATURES, "t", columns_ext=["w"]), ColumnError, "'w'"),
        (lambda: ops.JoinAsOf(FEATURES, "t", tolerance=3), ArgumentError, "wanted a timedelta"),
        (lambda: ops.JoinAsOf(FEATURES, "k", tolerance=dt.timedelta(1)), ArgumentError, "wanted a number"),
        (lambda: ops.JoinAsOf(FEATURES, "t", tolerance=-dt.timedelta(1)), ArgumentError, "0 or more"),
        (lambda: ops.JoinAsOf(3, "t"), ArgumentError, "cannot join int"),
        (lambda: ops.DateParts("fortnight"), ArgumentError, "fortnight"),
        (lambda: ops.DateParts([]), ArgumentError, "no parts"),
        (lambda: ops.DateParts(time_zone="Mars/Base"), ArgumentError, "Europe/Berlin"),
        (lambda: ops.TimeDifference("t", unit="weeks"), ArgumentError, "weeks"),
    ],
)
def test_bad_settings(make, error, said):
    with pytest.raises(error, match=said):
        make()


@pytest.mark.parametrize(
    ("columns", "operator", "said"),
    [
        (["k"], ops.JoinAsOf(FEATURES, "t"), "JoinAsOf wants 't'"),
        (["t", "v"], ops.JoinAsOf(FEATURES, "t"), r"\['v'\] are on both sides"),
        (["t", "text"], ops.JoinAsOf(FEATURES, "t", "text", by_ext="k"), "cast one"),
        (["text"], ops.JoinAsOf(FEATURES, "text", on_ext="t"), "cast one"),
        (["k"], ops.JoinAsOf(FEATURES, "k", on_ext="t"), "wanted dates, times or numbers"),
        (["zoned"], ops.JoinAsOf(FEATURES, "zoned", on_ext="t"), "time zone"),
        (["k"], ops.DateParts(), "wants dates or times, and column 'k' is int64"),
        (["day"], ops.DateParts(["hour"]), "have no hour"),
        (["t"], ops.DateParts(time_zone="Europe/Berlin"), "without a time zone"),
        (["k"], ops.TimeDifference("t"), "'k' is int64"),
        (["t"], ops.TimeDifference("k"), "'k' is int64"),
        (["t"], ops.TimeDifference("zoned"), "one has a time zone"),
        (["t"], ops.TimeDifference(["t", "day"]), "names 2 columns"),
        (["t", "day"], ops.TimeDifference("t", name="x"), "got 2 columns"),
    ],
)
def test_bad_columns(columns, operator, said):
    frame = FEATURES.with_columns(
        text=pl.lit("a"), day=pl.col("t").dt.date(), zoned=pl.col("t").dt.replace_time_zone("UTC")
    )
    with pytest.raises((ArgumentError, ColumnError), match=said):
        Workflow(columns >> operator).fit_schema(Dataset(frame).schema)


def test_date_parts_are_those_of_pandas():
    moments = pd.Series(pd.to_datetime(DRAW.integers(-(10**9), 3 * 10**9, 500), unit="s"))
    frame = pl.DataFrame({"t": pl.from_pandas(moments)}).with_columns(day=pl.col("t").dt.date())
    parts = [
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "weekday",
        "dayofyear",
        "is_weekend",
        "hour",
        "minute",
        "second",
    ]
    found = Workflow(["t"] >> ops.DateParts(parts)).transform(frame)
    for part in parts:
        wanted = {
            "week": lambda: moments.dt.isocalendar().week,
            "is_weekend": lambda: moments.dt.weekday >= 5,
        }.get(part, lambda part=part: getattr(moments.dt, part))()
        assert found[f"t_{part}"].to_list() == [int(value) for value in wanted], part
        assert found[f"t_{part}"].dtype == pl.Int32
    assert Workflow(["day"] >> ops.DateParts()).transform(frame).columns == [
        "day_year",
        "day_month",
        "day_day",
        "day_weekday",
    ]
    assert Workflow(["t"] >> ops.DateParts("hour")).transform(frame).columns == ["t_hour"]


def test_date_parts_in_the_zone_that_people_live_in():
    frame = pl.DataFrame({"t": [dt.datetime(2024, 1, 1, 23, 30), None]}).select(pl.col("t").dt.replace_time_zone("UTC"))
    found = Workflow(["t"] >> ops.DateParts(["day", "hour"], time_zone="Europe/Berlin")).transform(frame)
    assert found.rows() == [(2, 0), (None, None)]


def test_parts_have_embedding_sizes():
    frame = pl.DataFrame({"t": [dt.datetime(2024, 12, 31, 23)]})
    workflow = Workflow(["t"] >> ops.DateParts()).fit(frame)
    sizes = ops.get_embedding_sizes(workflow)
    assert {name: cardinality for name, (cardinality, _) in sizes.items()} == {
        "t_month": 13, "t_day": 32, "t_weekday": 7, "t_hour": 24,
    }  # fmt: skip


def test_time_differences():
    frame = pl.DataFrame(
        {
            "seen": [dt.datetime(2024, 1, 3, 6), dt.datetime(2024, 1, 1), None],
            "born": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 1)],
        }
    )
    for unit, wanted in {"s": [194_400, -86_400], "m": [3_240, -1_440], "h": [54, -24], "d": [2.25, -1]}.items():
        found = Workflow(["seen"] >> ops.TimeDifference("born", unit=unit)).transform(frame)
        assert found["seen_since_born"].to_list() == [*wanted, None] and found.schema["seen_since_born"] == pl.Float32
    since = Workflow(["born"] >> ops.TimeDifference(dt.date(2023, 12, 31), unit="d", name="age")).transform(frame)
    assert since["age"].to_list() == [1.0, 2.0, 1.0]
    both = Workflow(["seen", "born"] >> ops.TimeDifference(dt.datetime(2024, 1, 1), unit="h")).transform(frame)
    assert both.columns == ["seen_since_2024-01-01T00:00:00", "born_since_2024-01-01T00:00:00"]
    zoned = frame.with_columns(pl.col("seen").dt.replace_time_zone("UTC"))
    start = dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert Workflow(["seen"] >> ops.TimeDifference(start, unit="h", name="x")).transform(zoned)["x"].to_list() == [
        54,
        0,
        None,
    ]


def test_one_row_has_the_bits_of_the_batch(tmp_path):
    moments = pl.DataFrame({"t": DRAW.integers(-(10**16), 10**17, 300)}).select(pl.col("t").cast(pl.Datetime("us")))
    for unit in ("s", "m", "h", "d"):
        operator = ops.TimeDifference(dt.datetime(1999, 9, 9, 9, 9, 9, 9), unit=unit, name="x", out_dtype="float64")
        workflow = Workflow(["t"] >> operator).fit(moments)
        workflow.save(tmp_path / unit)
        whole = Workflow.load(tmp_path / unit).transform(moments)["x"]
        assert whole.to_list() == [workflow.transform({"t": moment})["x"] for moment in moments["t"].to_list()]
        exact = (moments["t"] - dt.datetime(1999, 9, 9, 9, 9, 9, 9)).dt.total_microseconds().to_numpy() / 1e6
        assert np.allclose(whole.to_numpy(), exact / {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[unit], rtol=1e-15)
