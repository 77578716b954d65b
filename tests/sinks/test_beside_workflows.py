"""Tables and saved workflows in one folder: beside each other, and never one in the place of the other."""

import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError

ROWS = Dataset({"s": ["x", "y", "x"]})
CODES = [(3,), (4,), (3,)]


@pytest.fixture
def workflow():
    return Workflow(["s"] >> ops.Categorify()).fit(ROWS)


@pytest.mark.parametrize("first", ["table", "workflow"])
def test_a_workflow_inside_the_folder_of_its_table(tmp_path, workflow, first):
    for what in ("table", "workflow") if first == "table" else ("workflow", "table"):
        if what == "table":
            workflow.transform(ROWS).to_parquet(tmp_path / "out")
        else:
            workflow.save(tmp_path / "out/workflow")
    workflow.transform(ROWS).to_parquet(tmp_path / "out")  # replaces the table and keeps the workflow
    for given in ("out", "out/*.parquet", "out/*", "out/**/*.parquet"):
        assert Dataset(tmp_path / given).to_polars().rows() == CODES
    assert Workflow.load(tmp_path / "out/workflow").transform(ROWS).to_polars().rows() == CODES


def test_a_table_does_not_replace_a_workflow(tmp_path, workflow):
    workflow.save(tmp_path / "out")
    with pytest.raises(ArgumentError, match=r"out holds a saved workflow, which the table would replace.*out/table"):
        workflow.transform(ROWS).to_parquet(tmp_path / "out")
    assert Workflow.load(tmp_path / "out").transform(ROWS).to_polars().rows() == CODES
    workflow.save(tmp_path / "out")


def test_a_workflow_does_not_replace_a_table(tmp_path, workflow):
    workflow.transform(ROWS).to_parquet(tmp_path / "out")
    with pytest.raises(ArgumentError, match=r"out holds a table, which the workflow would replace.*out/workflow"):
        workflow.save(tmp_path / "out")
    assert Dataset(tmp_path / "out").to_polars().rows() == CODES
