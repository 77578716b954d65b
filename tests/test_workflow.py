"""Workflows where people use them: on a path, in a pipeline of scikit-learn, beside the tables they have made."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError

FRAME = pd.DataFrame({"a": np.arange(20.0), "b": [1.0, 5.0] * 10, "c": ["x", "y"] * 10})


def test_a_path_is_transformed_as_a_dataset(tmp_path):
    FRAME.to_parquet(tmp_path / "a.parquet")
    workflow = Workflow(["a"] >> ops.Clip(max_value=3)).fit(str(tmp_path / "a.parquet"))
    for given in (str(tmp_path / "a.parquet"), tmp_path / "a.parquet", [str(tmp_path / "a.parquet")]):
        made = workflow.transform(given)
        assert isinstance(made, Dataset)
        assert made.to_polars()["a"].to_list() == [0.0, 1.0, 2.0] + [3.0] * 17


def test_in_a_pipeline_of_scikit_learn():
    labels = (FRAME["a"] > 9).astype(int)
    features = (["a", "b"] >> ops.Normalize()) + (["c"] >> ops.Categorify())
    pipeline = make_pipeline(Workflow(features), LogisticRegression())
    pipeline.fit(FRAME, labels)
    assert pipeline.predict(FRAME).tolist() == labels.to_list()
    assert clone(pipeline).fit(FRAME, labels).score(FRAME, labels) == 1.0
    assert Workflow(features).fit_transform(FRAME, labels).shape == (20, 3)


def test_tables_are_written_beside_a_saved_workflow(tmp_path):
    workflow = Workflow(["a"] >> ops.Normalize()).fit(FRAME)
    workflow.save(tmp_path / "out" / "workflow")
    for _ in range(2):  # the second time over the first
        workflow.transform(Dataset(FRAME)).to_parquet(tmp_path / "out")
    assert Workflow.load(tmp_path / "out" / "workflow").fingerprint() == workflow.fingerprint()
    assert Dataset(tmp_path / "out" / "part_0.parquet").num_rows == 20
    (tmp_path / "out" / "mine").mkdir()
    with pytest.raises(ArgumentError, match="holds 'mine'"):
        workflow.transform(Dataset(FRAME)).to_parquet(tmp_path / "out")


def test_partitions_come_as_pandas_frames():
    data = Dataset(pl.DataFrame({"n": [1, 2, 3], "s": ["a", "b", "c"], "m": [1, None, 3]}), npartitions=2)
    parts = list(data.to_iter())
    assert [type(part) for part in parts] == [pd.DataFrame] * 2
    assert pd.concat(parts)["n"].to_list() == [1, 2, 3]
    assert parts[0]["n"].dtype == "int64" and parts[1]["m"].dtype == "Int64"
    assert [frame.height for frame in data.to_iter().polars()] == [part.shape[0] for part in parts]
    assert data.compute()["n"].to_list() == [1, 2, 3]
