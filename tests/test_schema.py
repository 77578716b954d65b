"""Schemas as programs written for NVTabular use them: shapes, tags, selections, item assignment."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rowmill
from rowmill import ColumnSchema, ColumnSelector, Dataset, Schema, Tags, TagSet, dtypes, ops
from rowmill.dtypes import Dimension, Shape
from rowmill.errors import ArgumentError, ColumnError, DtypeError

LISTS = pl.DataFrame(
    {"g": [[1, 2], [3]], "w": pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float64, 2)), "x": [1, 2]}
)


@pytest.mark.parametrize(
    ("given", "shape", "ragged", "counts"),
    [
        ((None, 10), ((0, None), 10), False, {"min": 10, "max": 10}),
        ((None, (1, 10)), ((0, None), (1, 10)), True, {"min": 1, "max": 10}),
        ((None, None), ((0, None), (0, None)), True, {"min": 0, "max": None}),
        ((64, (4, 16)), (64, (4, 16)), True, {"min": 4, "max": 16}),
        ((None, 3, 4), ((0, None), 3, 4), False, {"min": 3, "max": 3}),
    ],
)
def test_a_shape_sets_flags_and_counts(given, shape, ragged, counts):
    for column in (ColumnSchema("c").with_shape(given), ColumnSchema("c", dims=given)):
        assert column.shape == Shape(given)
        assert column.shape.as_tuple == shape
        assert column.is_list and column.is_ragged is ragged
        assert column.properties["value_count"] == counts
        assert (column.value_count.min, column.value_count.max) == (counts["min"], counts["max"])
        assert pickle.loads(pickle.dumps(column)) == column
        assert Schema.from_json(Schema([column]).to_json())["c"] == column


def test_counts_and_flags_set_the_shape():
    counted = ColumnSchema("c").with_properties({"value_count": {"min": 4, "max": 5}})
    assert counted.shape == Shape((None, (4, 5))) and counted.is_list and counted.is_ragged
    fixed = ColumnSchema("c", is_list=True, is_ragged=False, properties={"value_count": {"max": 10}})
    assert fixed.shape == Shape((None, 10)) and fixed.properties["value_count"] == {"min": 10, "max": 10}
    flagged = ColumnSchema("c").with_dtype("int64", is_list=True, is_ragged=True)
    assert flagged.shape == Shape((None, None)) and flagged.dtype == "int64"
    assert not flagged.with_dtype("int32", is_list=False).is_list
    assert "value_count" not in flagged.with_shape((None,)).properties
    assert ColumnSchema("c").shape.is_unknown
    with pytest.raises(ValueError, match=r"is_ragged=True.*inconsistent with value counts"):
        ColumnSchema("c", properties={"value_count": {"min": 5, "max": 5}}, is_list=True, is_ragged=True)
    with pytest.raises(ValueError, match="only lists can be ragged"):
        ColumnSchema("c", is_list=False, is_ragged=True)


def test_dimensions_say_what_they_are():
    assert int(Dimension(3, 3)) == 3 and Dimension(3, 3).is_fixed
    assert Dimension().is_unknown and not Dimension(0, 5).is_unknown
    assert Shape((None, 2)).with_dim_max(1, 7).as_tuple == ((0, None), (2, 7))
    assert Shape((None, 2)) != Shape((None, 3)) and Shape() == Shape((None, 3))
    for bad in ((-1, 2), (3, 1), ("a", 1)):
        with pytest.raises(ArgumentError):
            Shape((None, bad))
    with pytest.raises(ArgumentError, match="no fixed size"):
        int(Dimension(1, 2))
    with pytest.raises(TypeError, match="wanted a tuple"):
        Shape(5)


def test_types_are_names_that_equal_those_of_numpy():
    column = ColumnSchema("c", dtype=np.float32)
    assert column.dtype == np.float32 == column.dtype and column.dtype == "float32" == column.dtype
    assert column.dtype == dtypes.float32 and column.dtype != np.float64 and column.dtype.is_float
    assert ColumnSchema("c", dtype=pd.StringDtype).dtype == dtypes.string
    assert ColumnSchema("c", dtype=dtypes.int32.with_shape((3, 4))).shape == Shape((3, 4))
    assert {column.dtype: 1}["float32"] == 1
    assert column.dtype.to_numpy == np.dtype("float32")
    assert dtypes.dtype("datetime[us]").to_numpy == np.dtype("datetime64[us]")


def test_types_can_be_asked_for_with_a_shape():
    class Foreign:
        pass

    assert dtypes.dtype(None) == "unknown" and dtypes.dtype(Foreign) == "unknown"
    assert dtypes.dtype(int) == "int64" and dtypes.dtype("struct") == dtypes.struct
    lists = dtypes.dtype(int, (10, None))
    assert lists.shape == Shape((10, None)) and lists.is_list and lists.is_ragged
    fixed = dtypes.dtype(np.float32, (None, 10))
    assert fixed == dtypes.float32.with_shape((None, 10)) and fixed.is_list and not fixed.is_ragged
    assert not dtypes.dtype(int, (10,)).is_list and not dtypes.int64.is_list and not dtypes.int64.is_ragged


def test_a_column_filled_up_with_what_another_one_knows():
    one = ColumnSchema("a", tags=["x", Tags.CATEGORICAL], properties={"p": 1})
    other = ColumnSchema("b", dtype="int32", tags=["y", Tags.CONTINUOUS], properties={"p": 2, "q": 3}, dims=(None, 4))
    both = one | other
    assert (both.name, both.dtype, both.is_list) == ("a", "int32", True)
    assert both.tags == {"x", "y", "categorical"}
    assert both.properties == {"p": 1, "q": 3, "value_count": {"min": 4, "max": 4}}
    ragged = ColumnSchema("c", dtype="float64", dims=(None, (1, 5)))
    assert ragged | other == ragged.with_tags(other.tags).with_properties({"p": 2, "q": 3})
    assert (ragged | other).shape == Shape((None, (1, 5)))
    with pytest.raises(TypeError):
        one | "b"


def test_the_order_of_arguments_of_nvtabular():
    column = ColumnSchema("u", [Tags.USER_ID], {"a": 1}, np.int64)
    assert column == ColumnSchema("u", "int64", [Tags.USER_ID], {"a": 1})
    assert column.int_domain is None
    domain = column.with_properties({"domain": {"min": 0, "max": 9, "name": "u"}}).int_domain
    assert (domain.min, domain.max, domain.name, domain.is_bounded) == (0, 9, "u", True)


def test_compound_tags_are_found_by_their_parts():
    schema = Schema(
        [ColumnSchema("u", tags=["user_id"]), ColumnSchema("age", tags=[Tags.USER]), ColumnSchema("i", tags="item_id")]
    )
    assert schema.select_by_tag(Tags.USER).column_names == ["u", "age"]
    assert schema.select_by_tag(Tags.USER_ID).column_names == ["u"]
    assert schema.select_by_tag(Tags.ID).column_names == ["u", "i"]
    assert schema.select_by_tag([Tags.USER, Tags.ID], all).column_names == ["u"]
    assert schema.excluding_by_tag("ID").column_names == ["age"]
    assert Tags.USER_ID in schema["u"].tags and "user" in schema["u"].tags
    assert schema["u"].tags == {"user_id"} and schema["u"].tags == [Tags.ID, Tags.USER]
    assert Schema.from_json(schema.to_json()) == schema


def test_tags_that_contradict_each_other():
    with pytest.raises(ValueError, match=r"categorical.*continuous.*incompatible"):
        TagSet(["continuous", "categorical"])
    tags = TagSet(["continuous", "mine"])
    assert tags.override(Tags.CATEGORICAL) == {"categorical", "mine"}
    assert tags + "more" == {"continuous", "mine", "more"} and tags - ["mine"] == {"continuous"}
    assert ColumnSchema("c", tags=["continuous"]).with_tags(Tags.CATEGORICAL).tags == {"categorical"}
    old = '{"columns": [{"name": "c", "tags": ["categorical", "continuous"]}]}'  # as 0.1.0 could write it
    assert Schema.from_json(old)["c"].tags == {"continuous"}


def test_selections_of_a_schema():
    schema = Schema({"a": ColumnSchema("a", tags=["t"]), "b": ColumnSchema("b"), "c": ColumnSchema("c")})
    assert schema.select(ColumnSelector(["c", "zz"])).column_names == ["c"]
    assert schema.apply(ColumnSelector(tags=["t"])).column_names == ["a"]
    assert schema.select(ColumnSelector("*")) == schema
    assert schema.apply_inverse(ColumnSelector(["a"])).column_names == ["b", "c"]
    assert schema.excluding("b").column_names == schema.without(["b"]).column_names == ["a", "c"]
    assert schema.remove_col("c").column_names == schema.excluding_by_name(["c"]).column_names == ["a", "b"]
    assert schema.first.name == "a" and schema.get("zz") is None
    assert list(schema.column_schemas) == ["a", "b", "c"]
    assert schema + None == None + schema == schema - None == schema
    assert schema.to_pandas()["name"].to_list() == ["a", "b", "c"]
    with pytest.raises(TypeError, match="column_schemas is int"):
        Schema(12345)
    with pytest.raises(ArgumentError, match="no first one"):
        Schema().first  # noqa: B018


def test_item_assignment_tags_a_target(tmp_path):
    LISTS.write_parquet(tmp_path / "a.parquet")
    data, other = Dataset(tmp_path), Dataset(tmp_path)
    data.schema["x"] = data.schema["x"].with_tags(Tags.TARGET)
    data.schema.column_schemas["g"] = data.schema["g"].with_tags("mine")
    assert data.schema.select_by_tag(Tags.TARGET).column_names == ["x"]
    assert other.schema["x"].tags == set()  # each dataset has a schema of its own
    workflow = rowmill.Workflow(ColumnSelector(tags=[Tags.TARGET]) >> ops.Rename(postfix="_y")).fit(data)
    assert workflow.output_schema.column_names == ["x_y"]
    with pytest.raises(ArgumentError, match=r"with_name\('x'\)"):
        data.schema["x"] = ColumnSchema("y")
    with pytest.raises(DtypeError, match="wanted a ColumnSchema"):
        data.schema["x"] = "int64"
    with pytest.raises(ColumnError):
        data.schema["zz"]


def test_what_the_table_holds_is_for_the_table_to_say(tmp_path):
    LISTS.write_parquet(tmp_path / "a.parquet")
    data = Dataset(tmp_path)
    data.schema["x"] = data.schema["x"].with_shape((None, 4))  # a column of single values
    data.schema["g"] = data.schema["g"].with_shape((None, (1, 2)))
    described = data.described()
    assert not described["x"].is_list
    assert described["g"].shape == Shape((None, (1, 2))) and described["g"].width is None
    assert described["w"].shape == Shape((None, 2)) and described["w"].width == 2
    workflow = rowmill.Workflow(["x", "g", "w"] >> ops.Rename(postfix="_")).fit(data)
    assert workflow.transform(data).to_polars()["g_"].to_list() == [[1, 2], [3]]


def test_lists_of_strings_stay_what_they_are():
    frame = pl.DataFrame({"s": [["a", "b"], ["c"]]})
    workflow = rowmill.Workflow(["s"] >> ops.ValueCount()).fit(frame)
    assert workflow.output_schema["s"].properties["value_count"] == {"min": 1, "max": 2}
    assert workflow.transform(frame)["s"].to_list() == [["a", "b"], ["c"]]
    sliced = rowmill.Workflow(["s"] >> ops.ListSlice(1) >> ops.Categorify()).fit(frame)
    assert sliced.transform(frame)["s"].to_list() == [[3], [4]]
    assert sliced.output_schema["s"].is_list and sliced.output_schema["s"].dtype == "int64"


@pytest.mark.parametrize(
    "column",
    [
        '{"name": "c", "properties": {"value_count": 5}}',
        '{"name": "c", "properties": {"value_count": {"min": "x"}}}',
        '{"name": "c", "properties": {"value_count": {"min": 1e400}}}',
        '{"name": "c", "properties": {"value_count": {"min": 5, "max": 1}}}',
        '{"name": "c", "dims": [[1, 2, 3]]}',
        '{"name": "c", "dims": 3}',
        '{"name": "c", "properties": 3}',
        '{"name": "c", "other": 3}',
        '{"name": 3}',
        "3",
    ],
)
def test_a_damaged_schema_is_an_error_of_ours(column):
    with pytest.raises((ArgumentError, DtypeError)):
        Schema.from_json(f'{{"columns": [{column}]}}')


def test_shapes_of_more_dimensions_are_saved_with_a_workflow(tmp_path):
    schema = Schema([ColumnSchema("x", "int64", dims=(None, 3, 4)), ColumnSchema("y", "float64")])
    workflow = rowmill.Workflow(["y"] >> ops.LogOp()).fit_schema(schema)
    workflow.save(tmp_path / "w")
    assert rowmill.Workflow.load(tmp_path / "w").output_schema.column_names == ["y"]


def test_lengths_of_lists_to_look_at():
    op = ops.ValueCount()
    rowmill.Workflow(["g"] >> op).fit(LISTS)
    assert op.stats == {"g": {"min": 1, "max": 2, "value_count": {"min": 1, "max": 2}}}
