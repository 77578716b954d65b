"""Similarities, measurements of columns, smaller types and columns left out."""

import numpy as np
import polars as pl
import pytest

from rowmill import ops
from tests.ops.run import run


def test_similarities():
    features = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 2.0]])
    data = {"a": [0, 1, 1, None], "b": [0, 1, 2, 0]}
    made = run([("a", "b")] >> ops.ColumnSimilarity(features, metric="cosine"), data)
    assert made["a_b_sim"].to_list() == pytest.approx([1, 1, 0, 0])
    inner = run([("a", "b")] >> ops.ColumnSimilarity(features, metric="inner"), data)
    assert inner["a_b_sim"].to_list() == [2, 1, 0, 0]
    weights = np.log(3 / np.array([2, 2]))
    tfidf = features * weights
    tfidf /= np.linalg.norm(tfidf, axis=1, keepdims=True)
    made = run([("a", "b")] >> ops.ColumnSimilarity(features), {"a": [0], "b": [1]})
    assert made["a_b_sim"].to_list() == pytest.approx([tfidf[0] @ tfidf[1]])


def test_measurements():
    stats = ops.DataStats()
    run(
        ["x", "s", "f"] >> stats,
        {"x": [1, 2, 2, None], "s": ["a", "bbb", None, "a"], "f": [1.0, float("nan"), 3.0, 5.0]},
    )
    assert stats.output["x"] == {
        "dtype": "int64", "cardinality": 2, "min": 1.0, "max": 2.0, "mean": pytest.approx(5 / 3),
        "std": pytest.approx(0.57735, rel=1e-4), "per_nan": 25.0,
    }  # fmt: skip
    assert stats.output["s"]["cardinality"] == 2
    assert (stats.output["s"]["min"], stats.output["s"]["max"]) == (1, 3)
    assert "cardinality" not in stats.output["f"]
    assert stats.output["f"]["per_nan"] == 25.0


def test_smaller_types():
    made = run(["a", "b", "c"] >> ops.ReduceDtypeSize(), {"a": [1, 100], "b": [0, 40_000], "c": [1.0, 2.0]})
    assert made.dtypes == [pl.Int8, pl.Int32, pl.Float32]


def test_low_cardinalities_are_left_out():
    data = {"a": [1, 1, 1], "b": [1, 2, 3]}
    made = run(["a", "b"] >> ops.Categorify() >> ops.DropLowCardinality(), data)
    assert made.columns == ["b"]
