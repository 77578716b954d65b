"""Tables that NVTabular has written: the tags and properties of its schema files are those of the dataset."""

import json

import polars as pl
import pytest

from rowmill import Dataset, Tags
from rowmill.dtypes import Shape
from rowmill.loader.numpy import Loader

FRAME = pl.DataFrame({"item": [3, 1], "price": [0.5, 1.5], "genres": [[1, 2], [3, 4]], "label": [0, 1], "day": [1, 2]})

# Features as NVTabular 23.08 describes them: whole numbers as text in JSON, and a tag that only the domain implies.
JSON = {
    "feature": [
        {
            "name": "item",
            "type": "INT",
            "intDomain": {"name": "item", "min": "0", "max": "331", "isCategorical": True},
            "annotation": {
                "tag": ["item_id"],
                "extraMetadata": [{"embedding_sizes": {"cardinality": 332.0, "dimension": 42.0}, "is_list": False}],
            },
        },
        {
            "name": "price",
            "type": "FLOAT",
            "floatDomain": {"min": 0.0, "max": 9.5},
            "annotation": {"tag": ["continuous"]},
        },
        {
            "name": "genres",
            "type": "INT",
            "valueCount": {"min": "2", "max": "2"},
            "annotation": {"tag": ["categorical"]},
        },
        {"name": "label", "type": "INT", "annotation": {"tag": ["target", "binary_classification"]}},
        {"name": "gone", "type": "INT"},
    ]
}
TEXT = r"""
# a comment with a } in it
feature {
  name: "item"
  type: INT
  int_domain { name: "item" min: 0 max: 331 is_categorical: true }
  annotation {
    tag: "item_id"
    extra_metadata {
      type_url: "type.googleapis.com/google.protobuf.Struct"
      value: "\n\021\n\013num_buckets\022\002\010\000 { \" }"
    }
  }
}
feature { name: "price" type: FLOAT float_domain { min: 0 max: 9.5 } annotation { tag: 'continuous' } }
feature { name: "genres" type: INT value_count: { min: 2, max: 2 } annotation: < tag: ["categorical"] >; }
feature { name: "label" type: INT annotation { tag: "target" tag: "binary_classification" } }
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train").mkdir()
    FRAME.write_parquet(tmp_path / "train" / "part_0.parquet")
    return tmp_path


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("form", ["json", "pbtxt"])
def test_a_table_that_nvtabular_wrote_keeps_its_tags(folder, form, above):
    place = folder if above else folder / "train"
    if form == "json":
        (place / ".merlin").mkdir()
        (place / ".merlin" / "schema.json").write_text(json.dumps(JSON))
    else:
        (place / "schema.pbtxt").write_text(TEXT)
    data = Dataset(folder / "train")
    assert data.schema.column_names == FRAME.columns
    item = data.schema["item"]
    assert item.tags == {"item", "id", "categorical"} and item.dtype == "int64"
    assert item.properties["domain"] == {"min": 0, "max": 331, "name": "item"}
    assert ("embedding_sizes" in item.properties) == (form == "json")
    if form == "json":
        assert item.properties["embedding_sizes"] == {"cardinality": 332, "dimension": 42}
    assert (item.int_domain.max, data.schema["price"].float_domain.max) == (331, 9.5)
    assert data.schema["price"].tags == {"continuous"} and data.schema["genres"].shape == Shape((None, 2))
    assert Tags.TARGET in data.schema["label"].tags and not data.schema["day"].tags
    features, target = Loader(data, 2).peek()
    assert "label" not in features and target.tolist() == [0, 1] and features["genres"].tolist() == [[1, 2], [3, 4]]


def test_names_with_escapes(folder):
    FRAME.rename({"label": 'é"{'}).write_parquet(folder / "train" / "part_0.parquet")
    (folder / "schema.pbtxt").write_text(r'feature { name: "\303\xa9\"\173" annotation { tag: "target" } }')
    assert Dataset(folder / "train").schema.select_by_tag("target").column_names == ['é"{']


def test_our_own_description_comes_first(folder):
    Dataset(folder / "train").with_tags({"price": Tags.TARGET}).to_parquet(folder / "out")
    (folder / "out" / "schema.pbtxt").write_text(TEXT)
    (folder / "schema.pbtxt").write_text("feature {")  # the one above is not even looked at
    assert Dataset(folder / "out").schema.select_by_tag("target").column_names == ["price"]


def test_of_two_forms_the_newer_one_counts(folder):
    (folder / "train" / ".merlin").mkdir()
    (folder / "train" / ".merlin" / "schema.json").write_text(json.dumps({"feature": []}))
    (folder / "train" / "schema.pbtxt").write_text(TEXT)
    assert not Dataset(folder / "train").schema["label"].tags


@pytest.mark.parametrize(
    "text",
    [
        "feature {",
        "feature { name: }",
        "}",
        'feature { name: "a',
        "feature { name { } }",
        "feature { name: 'a' annotation: 7 }",
        "feature [ { name: 'a' }",
        "feature { name: 'a' value_count { min: 3 max: 2 } }",
        "#" * 5000 + '\n"',
        "feature: 3",
        "feature { name: 'a' int_domain { min: x } }",
        "feature " + "{ a " * 5000,
        "\0\1",
    ],
)
def test_what_cannot_be_read_is_left_out_with_a_warning(folder, text):
    (folder / "train" / "schema.pbtxt").write_text(text)
    with pytest.warns(UserWarning, match=r"schema\.pbtxt.*opened without its tags"):
        data = Dataset(folder / "train")
    assert data.to_polars().equals(FRAME) and not data.schema["label"].tags


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"feature": [{"name": 5}]}', '{"feature": [{"name": "a", "annotation": 3}]}']
)
def test_damaged_json_is_left_out_with_a_warning(folder, text):
    (folder / ".merlin").mkdir()
    (folder / ".merlin" / "schema.json").write_text(text)
    with pytest.warns(UserWarning, match=r"schema\.json.*opened without its tags"):
        assert Dataset(folder / "train").to_polars().equals(FRAME)
