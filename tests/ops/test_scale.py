"""Normalize, NormalizeMinMax, LogOp and Clip, against figures worked out by hand."""

import math

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import (
    ArgumentError,
)
from tests.ops.run import run


def test_a_large_mean_with_a_small_spread_comes_out_right():
    values = 1e9 + np.random.default_rng(0).normal(0, 1, 100_000)
    normalize = ops.Normalize(out_dtype="float64")
    made = Workflow(["x"] >> normalize).fit(Dataset({"x": values}, npartitions=13)).transform({"x": values})["x"]
    exact = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((values - exact) ** 2) / (len(values) - 1))
    assert normalize.means["x"] == exact
    assert normalize.stds["x"] == pytest.approx(spread, rel=1e-12)
    assert abs(made.mean()) < 1e-6
    assert made.std(ddof=1) == pytest.approx(1.0, rel=1e-9)


def test_normalize_of_nulls_constants_and_infinities():
    data = {"x": [1.0, None, 3.0, float("nan")], "c": [5, 5, 5, 5]}
    made = run(["x", "c"] >> ops.Normalize(), data)
    assert made["x"].to_list()[:3] == [pytest.approx(-1 / math.sqrt(2)), None, pytest.approx(1 / math.sqrt(2))]
    assert made["c"].to_list() == [0, 0, 0, 0]
    assert made.dtypes == [pl.Float32, pl.Float32]
    with pytest.warns(UserWarning, match="infinite"):
        run(["x"] >> ops.Normalize(), {"x": [1.0, 2.0, float("inf")]})


def test_min_max():
    scaled = ops.NormalizeMinMax()
    made = run(["x", "c"] >> scaled, {"x": [2, 4, 6, None], "c": [0, 0, None, 0]})
    assert made["x"].to_list() == [0, 0.5, 1, None]
    assert made["c"].to_list() == [0.5, 0.5, None, 0.5]
    assert (scaled.mins["x"], scaled.maxs["x"]) == (2, 6)


def test_log_is_in_float32():
    made = run(["x"] >> ops.LogOp(), {"x": [0, 1, 9, None]})["x"]
    wanted = np.log(np.float32([0, 1, 9]) + np.float32(1))
    assert made.to_list()[:3] == pytest.approx(wanted.tolist(), rel=1e-6)
    assert made.dtype == pl.Float32


def test_clip_keeps_type_and_nulls():
    made = run(["x", "y"] >> ops.Clip(min_value=0.5, max_value=3), {"x": [-1, 2, 9, None], "y": [0.1, 2.5, 9.0, None]})
    assert made["x"].to_list() == [1, 2, 3, None]
    assert made["y"].to_list() == [0.5, 2.5, 3.0, None]
    with pytest.raises(ArgumentError):
        ops.Clip()
