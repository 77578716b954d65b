"""Nodes and selectors: groups that hold nodes, what a node says of itself, and what columns can be selected by."""

import pandas as pd
import polars as pl
import pytest

import rowmill
from rowmill import ColumnSelector, Dataset, Schema, Tags, Workflow, WorkflowNode, ops
from rowmill.errors import ArgumentError, ColumnError, NotFittedError

FRAME = pl.DataFrame(
    {"geo": ["US>CA", "US>NY", "CA>BC", "CA>ON"], "user": ["A", "A", "A", "B"], "x": [1.0, 2.0, 3.0, 4.0]}
)


def country():
    return ["geo"] >> ops.Expr(pl.col("geo").str.slice(0, 2)) >> ops.Rename(postfix="_country")


@pytest.mark.parametrize("grouped", [lambda c: [c + "user"], lambda c: [[c, "user"]]], ids=["sum", "list"])
def test_a_group_that_holds_a_node_is_combined(grouped):
    node = country()
    cats = node + "user" + grouped(node) >> ops.Categorify(encode_type="combo")
    made = Workflow(cats).fit_transform(FRAME)
    assert made["geo_country"].to_list() == [4, 4, 3, 3]  # equally frequent: in ascending order
    assert made["user"].to_list() == [3, 3, 3, 4]
    assert made["geo_country_user"].to_list() == [3, 3, 4, 5]


def test_a_group_that_holds_a_node_shares_a_vocabulary(tmp_path):
    codes = ["user"] >> ops.Rename(postfix="_2")
    workflow = Workflow([codes + "user"] >> ops.Categorify(encode_type="joint")).fit(FRAME)
    made = workflow.transform(FRAME)
    assert made.columns == ["user_2", "user"]
    assert ops.get_embedding_sizes(workflow) == {"user": (5, 16), "user_2": (5, 16)}
    assert len(workflow.output_node.op.categories) == 1  # one vocabulary for both
    workflow.save(tmp_path / "w")
    assert Workflow.load(tmp_path / "w").transform(FRAME).equals(made)


def test_a_group_in_a_group_is_refused():
    node = country()
    with pytest.raises(ArgumentError, match="holds another group"):
        [[node + "user"] + node + "user"] >> ops.Categorify(encode_type="combo")
    with pytest.raises(AttributeError, match="Too many nested groups"):
        ColumnSelector([["a", ["b"]]])


@pytest.mark.parametrize(
    "columns",
    [
        pd.DataFrame(columns=["user", "x"]).columns,
        {"x", "user"},
        ("user", "x"),
        {"user": 1, "x": 2}.keys(),
        FRAME.select("user", "x").to_pandas().columns.to_numpy(),
    ],
    ids=["index", "set", "tuple", "keys", "array"],
)
def test_what_columns_can_be_selected_by(columns):
    assert sorted(ColumnSelector(columns).names) == ["user", "x"]
    made = Workflow(columns >> ops.Rename(postfix="_1")).transform(FRAME)
    assert sorted(made.columns) == ["user_1", "x_1"]


def test_selectors_say_what_they_hold():
    selector = ColumnSelector(["a", ["b", "c"]], tags=["categorical", "mine"])
    assert selector.names == ["a", "b", "c"] and selector.grouped_names == ["a", ("b", "c")]
    assert selector.subgroups == [ColumnSelector(["b", "c"])]
    assert selector.tags == [Tags.CATEGORICAL, "mine"]
    assert (ColumnSelector(["a"]) + Tags.TARGET).tags == [Tags.TARGET]
    assert ColumnSelector(["a"]) + None == ColumnSelector(["a"])
    node = ["a"] >> ops.LogOp()
    with pytest.raises(TypeError, match="Nodes cannot be in a ColumnSelector"):
        ColumnSelector(node)
    with pytest.raises(ValueError, match="Nodes cannot be in a ColumnSelector"):
        ColumnSelector([node])
    with pytest.raises(ArgumentError, match="cannot select columns by int"):
        ColumnSelector(3)
    with pytest.warns(DeprecationWarning, match="use ColumnSelector"):
        assert rowmill.ColumnGroup(["a"]) == ColumnSelector(["a"])


def test_nodes_know_their_columns_once_a_workflow_has_seen_a_table():
    log = ["x"] >> ops.LogOp()
    node = log + "user"
    assert isinstance(log.op, ops.LogOp) and node.op is None
    with pytest.raises(NotFittedError, match="not known yet"):
        node.output_schema  # noqa: B018
    workflow = Workflow(node).fit_schema(Schema(["x", "user", "geo"]))
    assert workflow.output_node.output_schema.column_names == ["x", "user"]
    assert workflow.output_node.input_columns.names == ["x", "user"]
    assert log.input_schema.column_names == ["x"] and log.output_schema["x"].dtype == "float32"
    assert node.parents == [log] and [d.selector for d in node.dependencies] == [ColumnSelector(["user"])]
    target = ["user"] >> ops.TargetEncoding("x")
    assert target.dependency_columns.names == ["x"]  # by name: no table has to be seen for that
    with pytest.raises(NotFittedError, match="not known yet"):
        (["user"] >> ops.TargetEncoding(["x"] >> ops.LogOp())).dependency_columns  # noqa: B018
    Workflow(target).fit_schema(Schema(["x", "user"]))
    assert target.dependency_columns.names == ["x"] and target.output_columns.names == ["TE_user_x"]


def test_a_schema_of_names_only():
    workflow = Workflow(
        (["x"] >> ops.FillMissing() >> ops.Clip(min_value=0))
        + ["user"]
        + (["x"] >> ops.LambdaOp(lambda c: c + 1) >> ops.Rename(postfix="_1"))
    )
    workflow.fit_schema(Schema(["x", "user"]))
    assert workflow.output_schema.column_names == ["x", "user", "x_1"]
    assert workflow.graph.input_schema.column_names == ["x", "user"]
    made = workflow.transform(FRAME)
    assert made["x_1"].to_list() == [2.0, 3.0, 4.0, 5.0] and made["user"].to_list() == ["A", "A", "A", "B"]


def test_a_node_of_its_own_selects_columns():
    node = WorkflowNode(ColumnSelector(["x", "user"]))
    made = Workflow((node["x"] >> ops.Clip(max_value=2)) + node["user"]).transform(FRAME)
    assert made.to_dict(as_series=False) == {"x": [1.0, 2.0, 2.0, 2.0], "user": ["A", "A", "A", "B"]}
    assert Workflow(node - ["x"]).transform(FRAME).columns == ["user"]


def test_embedding_sizes_of_a_node_and_with_lists():
    data = FRAME.with_columns(pl.Series("tags", [["a"], ["b", "a"], [], ["c"]]))
    cats = ["user", "tags"] >> ops.Categorify()
    Workflow(cats).fit(data)
    assert ops.get_embedding_sizes(cats) == ({"user": (5, 16)}, {"tags": (6, 16)})
    from rowmill.ops.categorify import get_embedding_sizes

    single = ["user"] >> ops.Categorify()
    Workflow(single).fit(data)
    assert get_embedding_sizes(single) == {"user": (5, 16)}


class Doubled(ops.Operator):
    """An operator as people write it for NVTabular."""

    def transform(self, col_selector, df):
        return pd.DataFrame({f"{name}_twice": df[name] * 2 for name in col_selector.names})


def test_an_operator_of_ones_own(tmp_path):
    workflow = Workflow((["x"] >> Doubled() >> ops.Normalize()) + ["user"]).fit(FRAME)
    made = workflow.transform(FRAME)
    assert made.columns == ["x_twice", "user"]
    assert workflow.output_node.upstream[0].op.means == {"x_twice": 5.0}
    assert Workflow(["x"] >> Doubled()).transform({"x": 4.0}) == {"x_twice": 8.0}
    FRAME.write_parquet(tmp_path / "a.parquet")
    assert Workflow(["x"] >> Doubled()).transform(Dataset(tmp_path)).to_polars()["x_twice"].to_list() == [2, 4, 6, 8]
    with pytest.raises(ArgumentError, match=r"cannot save.*Doubled"):
        workflow.save(tmp_path / "w")
    assert Workflow(["x"] >> ops.Operator()).transform(FRAME).equals(FRAME.select("x"))

    class Wrong(ops.Operator):
        def transform(self, col_selector, df):
            return df["nothing"]

    with pytest.raises(ArgumentError, match=r"Wrong.transform fails on an empty frame: KeyError"):
        Workflow(["x"] >> Wrong()).fit(FRAME)


def test_an_operator_alone():
    frame = pd.DataFrame({"y": [[0, 1, 2], [1, 2], []], "x": [1.0, -3.0, 5.0]})
    sliced = ops.ListSlice(0, 2).transform(ColumnSelector(["y"]), frame)
    assert [list(row) for row in sliced["y"]] == [[0, 1], [1, 2], []]
    renamed = ops.Rename(f=str.upper).transform(ColumnSelector(["x"]), frame)
    assert isinstance(renamed, pd.DataFrame) and renamed["X"].to_list() == [1.0, -3.0, 5.0]
    norm = ops.Normalize()
    with pytest.raises(NotFittedError):
        norm.transform(ColumnSelector(["x"]), frame)
    Workflow(["x"] >> norm).fit(frame)
    assert norm.transform(["x"], frame)["x"].to_list() == pytest.approx([0.0, -1.0, 1.0])
    assert ops.LogOp().compute_output_schema(Schema(["a", "b"]), ColumnSelector(["b"])).column_names == ["b"]
    with pytest.raises(ColumnError):
        ops.LogOp().transform(["zz"], frame)


def test_an_operator_of_ones_own_that_needs_more_columns():
    class Ratio(ops.Operator):
        @property
        def dependencies(self):
            return ["x"]

        def transform(self, col_selector, df):
            return pd.DataFrame({name: df[name].str.len() / df["x"] for name in col_selector.names})

    node = ["geo"] >> Ratio()
    made = Workflow(node).transform(FRAME)
    assert made["geo"].to_list() == [5.0, 2.5, 5 / 3, 1.25]
    assert node.dependency_columns.names == ["x"]
    with pytest.raises(ArgumentError, match=r"Mine overrides transform of Normalize.*derive Mine from"):

        class Mine(ops.Normalize):
            def transform(self, col_selector, df):
                return df
