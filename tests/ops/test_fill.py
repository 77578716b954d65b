"""Nulls filled with a value or the median."""

import polars as pl
import pytest

from rowmill import ops
from rowmill.errors import (
    ArgumentError,
)
from tests.ops.run import run


def test_filling():
    data = {"x": pl.Series([None, 2.0, float("nan"), 4.0]), "i": pl.Series([None, 3, 8, 4])}
    made = run(["x", "i"] >> ops.FillMissing(7, add_binary_cols=True), data)
    assert made["x"].to_list() == [7, 2, 7, 4]
    assert made["i"].to_list() == [7, 3, 8, 4]
    assert made["x_filled"].to_list() == [True, False, True, False]
    median = ops.FillMedian()
    made = run(["x", "i"] >> median, data)
    assert made["x"].to_list() == [3, 2, 3, 4]
    assert median.medians == {"x": 3.0, "i": 4.0}
    with pytest.raises(ArgumentError, match=r"1\.5"):
        run(["i"] >> ops.FillMissing(1.5), data)
