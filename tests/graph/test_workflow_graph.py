"""Graphs of operators: selection, shared parents, parts, and the schema that flows through."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rowmill import ColumnSelector, Dataset, Schema, Tags, Workflow, ops
from rowmill.errors import (
    ArgumentError,
    ColumnError,
    NotFittedError,
)
from rowmill.ops import get_embedding_sizes
from tests.ops.run import run


def test_tags_and_stars_select():
    schema = Dataset({"a": [1], "b": [2], "c": [3]}).with_tags({"a": Tags.USER, "c": Tags.USER}).schema
    workflow = Workflow(ColumnSelector(tags=[Tags.USER]) >> ops.Rename(postfix="_u")).fit_schema(schema)
    assert workflow.output_schema.column_names == ["a_u", "c_u"]
    every = Workflow(ColumnSelector("*") - ["b"]).fit_schema(schema)
    assert every.output_schema.column_names == ["a", "c"]


def test_nothing_changes_the_left_operand():
    a, b, c = (ColumnSelector([n]) >> ops.FillMissing() for n in "abc")
    both = a + b
    three = both + c
    assert len(both.upstream) == 2
    assert len(three.upstream) == 3
    less = three - ["a"]
    picked = three[["b"]]
    data = pl.DataFrame({"a": [1], "b": [2], "c": [3]})
    assert Workflow(three).transform(data).columns == ["a", "b", "c"]
    assert Workflow(less).transform(data).columns == ["b", "c"]
    assert Workflow(picked).transform(data).columns == ["b"]
    assert Workflow(both).transform(data).columns == ["a", "b"]
    assert Workflow(["c"] + both).transform(data).columns == ["c", "a", "b"]  # noqa: RUF005
    assert Workflow(["a", "b"] - both["a"]).transform(data).columns == ["b"]


def test_the_later_column_of_a_name_wins():
    made = run(["x"] + (["x"] >> ops.Expr(pl.col("x") * 10)), {"x": [1, 2]})
    assert made["x"].to_list() == [10, 20]


def test_shared_parents_are_computed_once():
    calls = []

    def noted(column):
        calls.append(len(column))
        return column

    shared = ["x"] >> ops.LambdaOp(noted, dtype="int64")
    node = (shared >> ops.Rename(postfix="_a")) + (shared >> ops.Rename(postfix="_b"))
    Workflow(node).transform(pl.DataFrame({"x": [1, 2, 3]}))
    assert calls == [3]


def test_parts_of_a_workflow():
    cats = ops.Subgraph("cats", ["c"] >> ops.Categorify())
    workflow = Workflow(cats + (["x"] >> ops.Normalize()) + ["label"])
    data = pl.DataFrame({"c": ["a", "b", "b"], "x": [1.0, 2.0, 3.0], "label": [0, 1, 0]})
    workflow.fit(data)
    assert workflow.subworkflows == ["cats"]
    assert workflow.get_subworkflow("cats").transform(data)["c"].to_list() == [4, 3, 3]
    with pytest.raises(ValueError, match="No subgraph named"):
        workflow.get_subworkflow("dogs")
    served = workflow.remove_inputs(["label"]).transform({"c": "b", "x": 2.0})
    assert served == {"c": 3, "x": 0.0}
    assert workflow.output_schema.column_names == ["c", "x"]
    with pytest.raises(ColumnError, match="remove_inputs"):
        workflow.transform({"c": "b"})


def test_what_goes_in_comes_out():
    workflow = Workflow(["x"] >> ops.Normalize(out_dtype="float64")).fit({"x": [1, 2, 3]})
    assert isinstance(workflow.transform(pd.DataFrame({"x": [1]})), pd.DataFrame)
    assert isinstance(workflow.transform(pl.DataFrame({"x": [1]})), pl.DataFrame)
    assert isinstance(workflow.transform({"x": np.array([1, 2])})["x"], np.ndarray)
    assert workflow.transform({"x": 3}) == {"x": 1.0}
    assert workflow.transform([{"x": 3}, {"x": 1}]) == [{"x": 1.0}, {"x": -1.0}]
    assert isinstance(workflow.transform(Dataset({"x": [1]})), Dataset)
    with pytest.raises(ArgumentError, match="cannot transform"):
        workflow.transform(3)


def test_before_fitting():
    workflow = Workflow(["x"] >> ops.Normalize())
    with pytest.raises(NotFittedError, match="fit"):
        workflow.transform(pl.DataFrame({"x": [1]}))
    with pytest.raises(NotFittedError):
        _ = workflow.output_schema
    with pytest.raises(NotFittedError):
        _ = ops.Normalize().means
    with pytest.raises(ColumnError, match="did you mean 'price'"):
        Workflow(["prise"] >> ops.Normalize()).fit({"price": [1]})


def test_the_schema_flows_through():
    data = Dataset({"c": ["a", "b"], "x": [1, 2], "y": [0.0, 1.0]}).with_tags({"y": Tags.TARGET})
    workflow = Workflow((["c"] >> ops.Categorify()) + (["x"] >> ops.Normalize()) + ["y"]).fit(data)
    schema: Schema = workflow.transform(data).schema
    assert schema.select_by_tag(Tags.CATEGORICAL).column_names == ["c"]
    assert schema.select_by_tag(Tags.CONTINUOUS).column_names == ["x"]
    assert schema.select_by_tag(Tags.TARGET).column_names == ["y"]
    assert schema["c"].properties["embedding_sizes"] == {"cardinality": 5, "dimension": 16}
    assert workflow.output_dtypes == {"c": "int64", "x": "float32", "y": "float64"}
    assert get_embedding_sizes(workflow.transform(data)) == {"c": (5, 16)}


def test_the_graph_draws_itself():
    node = (["a", "<b>"] >> ops.FillMissing() >> ops.Normalize()) + (["c"] >> ops.Categorify())
    svg = Workflow(node).graph._repr_svg_()
    assert svg.startswith("<svg")
    for text in ("FillMissing", "Normalize", "Categorify", "&lt;b&gt;"):
        assert text in svg
    from xml.etree import ElementTree

    ElementTree.fromstring(svg)
