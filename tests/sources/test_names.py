"""Exact column references: names that Polars would read as patterns select one column only."""

import polars as pl
import pytest

from rowmill.sources.names import column, columns

NAMES = ["^a.*$", "ab", "ac", "*", "", "^.*$", "^$", "^", "$", "a*", "😀", "x" * 5_000, "a\nb", '"', "len", "^(?s).+$"]
FRAME = pl.DataFrame({name: [number, -number] for number, name in enumerate(NAMES)})


@pytest.mark.parametrize("name", NAMES)
def test_one_column_of_exactly_this_name(name):
    made = FRAME.select(column(name))
    assert made.columns == [name]
    assert made.item(0, 0) == NAMES.index(name)


def test_expressions_of_exact_columns():
    made = FRAME.select((column("^a.*$") * 10 + column("*")).alias("^b.*$"))
    assert made.to_dict(as_series=False) == {"^b.*$": [3, -3]}
    assert FRAME.lazy().select(column("*").sum().over(column("^a.*$"))).collect().columns == ["*"]


def test_several_columns_in_order():
    wanted = list(reversed(NAMES))
    assert FRAME.select(columns(wanted)).columns == wanted


@pytest.mark.parametrize("name", NAMES)
def test_where_polars_takes_names(name):
    grouped = FRAME.group_by(columns([name])).agg(pl.len().alias("n"))
    assert grouped.columns == [name, "n"]
    assert FRAME.sort(columns([name]), descending=True).get_column(name)[0] == NAMES.index(name)
    assert FRAME.drop(column(name)).columns == [other for other in NAMES if other != name]
    joined = FRAME.join(FRAME.select(columns([name])), on=columns([name]))
    assert set(joined.get_column(name)) == {NAMES.index(name), -NAMES.index(name)}


def test_a_missing_column_is_an_error():
    for name in ("^a.*$", "*", "gone"):
        with pytest.raises(pl.exceptions.ColumnNotFoundError):
            pl.DataFrame({"ab": [1]}).select(column(name))
