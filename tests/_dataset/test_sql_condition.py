"""Conditions in SQL, as `--where` takes them, against the rows that DuckDB-like SQL would choose, written out."""

import datetime as dt
import json

import polars as pl
import pytest

import rowmill
from rowmill._dataset.sql_condition import sql_condition
from rowmill.cli import main
from rowmill.errors import ArgumentError, ColumnError

DAYS = [dt.date(2024, 1, day) for day in (1, 2, 3, 4)]
FRAME = pl.DataFrame(
    {
        "a": [1, 2, 3, -3],
        "x": [0.5, 2.5, None, 10.0],
        "s": ["x", "y%", None, "Xa"],
        "day": DAYS,
        "ts": [dt.datetime.combine(day, dt.time(5)) for day in DAYS],
        "utc": [dt.datetime.combine(day, dt.time(5), dt.UTC) for day in DAYS],
        "my col": [1, 2, 3, 4],
    }
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a > 1", [2, 3]),
        ("a in (1, 2)", [1, 2]),
        ("a not in (1, 2)", [3, -3]),
        ("s in ('x', 'Xa')", [1, -3]),
        ("x in (0.5, 10)", [1, -3]),
        ("x > 2.4 and x < 1e1", [2]),
        ("x >= 2.5", [2, -3]),
        ("x = 2.5", [2]),
        ("x <> 2.5", [1, -3]),
        ("x between 0.4 and 2.6", [1, 2]),
        ("x * 2 + 1.5 > 6", [2, -3]),
        ("a / 2 = 0.5", [1]),
        ("a % 2 = 1", [1, 3]),
        ("a % 2 = -1", [-3]),
        ("not (a = 1 or a = 2)", [3, -3]),
        ("s is null", [3]),
        ("s is not null and a <> 2", [1, -3]),
        ("s like 'x%'", [1]),
        ("lower(s) = 'x'", [1]),
        ("s = null", []),
        ("day >= '2024-01-02'", [2, 3, -3]),
        ("'2024-01-02' < day", [3, -3]),
        ("day = DATE '2024-01-02'", [2]),
        ("day in ('2024-01-01', '2024-01-04')", [1, -3]),
        ("day between '2024-01-02' and '2024-01-03'", [2, 3]),
        ("ts < '2024-01-02 06:00'", [1, 2]),
        ("ts < '2024-01-03'", [1, 2]),
        ("utc < '2024-01-02T05:00:00'", [1]),
        ("utc <= '2024-01-02T06:00:00+01:00'", [1, 2]),
        ('"my col" = 2', [2]),
        ("1 = 1", [1, 2, 3, -3]),
    ],
)
def test_rows(text, wanted):
    assert rowmill.Dataset(FRAME).filter(sql_condition(text)).to_polars()["a"].to_list() == wanted


def test_text_for_moments_in_other_forms():
    data = rowmill.Dataset(FRAME)
    assert data.filter([("day", ">=", "2024-01-03")]).num_rows == 2
    assert data.filter([("day", "in", ["2024-01-03"])]).num_rows == 1
    assert data.filter(pl.col("ts") < "2024-01-03").num_rows == 2
    berlin = rowmill.Dataset(FRAME.select(pl.col("utc").dt.convert_time_zone("Europe/Berlin")))
    assert [part.num_rows for part in berlin.split(time="utc", at="2024-01-02T06:00")] == [1, 3]
    assert berlin.filter(pl.col("utc") >= "2024-01-02T06:00").num_rows == 3


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("a >", ArgumentError, "cannot read the condition"),
        ("", ArgumentError, "condition"),
        ("b = 1", ColumnError, "no column 'b'"),
        ("a = 'x'", ArgumentError, "cannot compare"),
        ("sum(a) > 1", ArgumentError, "use comparisons"),
        ("a in (select 1)", ArgumentError, "use comparisons"),
        ("a + 1", ArgumentError, "true or false"),
        ("day > 'monday'", ArgumentError, "'monday'; wanted a date"),
        ("a; drop table x", ArgumentError, "condition"),
    ],
)
def test_what_is_no_condition(text, error, said):
    with pytest.raises(error, match=said):
        rowmill.Dataset(FRAME).filter(sql_condition(text)).num_rows  # noqa: B018


@pytest.fixture
def path(tmp_path):
    FRAME.drop("utc", "s").write_parquet(tmp_path / "t.parquet")
    return str(tmp_path / "t.parquet")


def told(capsys, *words):
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_every_command_that_reads_takes_a_condition(path, tmp_path, capsys):
    where = ("--where", "day >= '2024-01-02' and a > 0")
    assert "2 rows" in told(capsys, "inspect", path, *where)
    assert json.loads(told(capsys, "plan", path, *where, "--batch-size", "1", "--json"))["steps"] == 2
    told(capsys, "report", path, *where, "-o", str(tmp_path / "r.html"), "--seconds", "0")
    told(capsys, "bench", path, *where, "--seconds", "0.01", "--columns", "a")
    found = json.loads(told(capsys, "fit", path, *where, "--cats", "a", "-o", str(tmp_path / "w"), "--json"))
    assert found["rows"] == 2
    told(capsys, "transform", path, *where, "--workflow", str(tmp_path / "w"), "-o", str(tmp_path / "out"))
    assert rowmill.Dataset(tmp_path / "out").num_rows == 2
    told(capsys, "convert", path, str(tmp_path / "c"), *where)
    assert rowmill.Dataset(tmp_path / "c").to_polars()["a"].to_list() == [2, 3]
    loader = rowmill.loader.numpy.Loader(rowmill.Dataset(path).filter(sql_condition(where[1])), 1)
    (tmp_path / "s.json").write_text(json.dumps(loader.state_dict()))
    which = told(capsys, "which", path, *where, "--state", str(tmp_path / "s.json"), "--step", "1", "--json")
    assert json.loads(which)[0]["row"] == 2
    assert main(["inspect", path, "--where", "nothing = 3"]) == 1
    assert "no column 'nothing'" in capsys.readouterr().err


def test_every_command_that_reads_takes_a_version(tmp_path, capsys):
    from deltalake import write_deltalake

    for _ in range(2):
        write_deltalake(str(tmp_path / "d"), FRAME.select("a", "x").to_arrow(), mode="append")
    place, old = f"delta://{tmp_path}/d", ("--version", "0")
    assert "4 rows" in told(capsys, "inspect", place, *old) and "8 rows" in told(capsys, "inspect", place)
    assert json.loads(told(capsys, "plan", place, *old, "--batch-size", "1", "--json"))["steps"] == 4
    told(capsys, "convert", place, str(tmp_path / "c"), *old, "--where", "a > 1")
    assert rowmill.Dataset(tmp_path / "c").num_rows == 2
    later = (dt.datetime.now() + dt.timedelta(days=1)).isoformat()
    assert "8 rows" in told(capsys, "inspect", place, "--version", later)
    for version, said in (("99", "no version 99"), ("2001-01-01", "no version at"), ("soon", "timestamp is 'soon'")):
        assert main(["inspect", place, "--version", version]) == 1
        assert said in capsys.readouterr().err.replace("\n", " ")
