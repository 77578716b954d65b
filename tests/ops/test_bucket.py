"""Bins, hashes and crosses."""

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import (
    DtypeError,
)
from tests.ops.run import run


def test_bins():
    made = run(["x"] >> ops.Bucketize([0, 10]), {"x": [-1, 0, 5, 10, 11, None]})
    assert made["x"].to_list() == [0, 1, 1, 2, 2, 2]
    by_name = run(["x", "y"] >> ops.Bucketize({"x": [0], "y": [1, 2]}), {"x": [5, -5], "y": [1, 3]})
    assert by_name.to_dict(as_series=False) == {"x": [1, 0], "y": [1, 2]}
    with pytest.raises(DtypeError):
        ops.Bucketize(3)


def test_hashes_depend_on_the_value_only():
    data = pl.DataFrame({"x": ["a", "b", "a", None], "i": [1, 2, 1, 3]})
    made = run(["x", "i"] >> ops.HashBucket(1000), data)
    assert made["x"][0] == made["x"][2]
    assert made["i"][0] == made["i"][2]
    alone = Workflow(["x", "i"] >> ops.HashBucket(1000)).fit_schema(Dataset(data).schema).transform(data[2])
    assert alone.row(0) == made.row(2)
    # These never change: saved models depend on them.
    assert made["x"].to_list() == [FIXED["a"], FIXED["b"], FIXED["a"], FIXED[None]]
    assert made["i"].to_list()[:2] == [FIXED[1], FIXED[2]]


FIXED = {"a": 737, "b": 946, None: 271, 1: 465, 2: 110}


def test_hashes_spread_evenly():
    counts = np.bincount(run(["x"] >> ops.HashBucket(100), {"x": np.arange(100_000)})["x"].to_numpy(), minlength=100)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_crosses():
    data = {"a": [1, 1, 2, 1], "b": ["x", "y", "x", "x"]}
    made = run([["a", "b"]] >> ops.HashedCross(1 << 30), data)
    assert made.columns == ["a_X_b"]
    assert len(set(made["a_X_b"])) == 3
    assert made["a_X_b"][0] == made["a_X_b"][3]
    assert run(["a", "b"] >> ops.HashedCross({("a", "b"): 5}), data).columns == ["a_X_b"]
