"""Slices and padding of lists."""

import polars as pl
import pytest

from rowmill import ops
from tests.ops.run import run


@pytest.mark.parametrize(
    ("slicing", "wanted"),
    [
        ((2,), slice(0, 2)), ((-2,), slice(-2, None)), ((1, 3), slice(1, 3)), ((1, -1), slice(1, -1)),
        ((-3, -1), slice(-3, -1)), ((0, 0), slice(0, 0)), ((-2, 9), slice(-2, 9)),
    ],
)  # fmt: skip
def test_slices_are_those_of_python(slicing, wanted):
    lists = [[1, 2, 3, 4, 5], [1], [], [1, 2, 3]]
    made = run(["x"] >> ops.ListSlice(*slicing), {"x": pl.Series(lists, dtype=pl.List(pl.Int64))})
    assert made["x"].to_list() == [row[wanted] for row in lists]


def test_padding():
    lists = pl.Series([[1, 2, 3], [4], [], None], dtype=pl.List(pl.Int64))
    made = run(["x"] >> ops.ListSlice(2, pad=True, pad_value=-1), {"x": lists})
    assert made["x"].to_list() == [[1, 2], [4, -1], [-1, -1], [-1, -1]]
    counted = ops.ValueCount()
    run(["x"] >> counted, {"x": lists})
    assert counted.stats["x"]["value_count"] == {"min": 0, "max": 3}
