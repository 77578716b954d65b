"""`DenseFeatures` and `LinearFeatures` on whichever backend this process runs with: see `test_keras.py`."""

import keras
import numpy as np
import pytest

from rowmill.errors import ArgumentError, ColumnError
from rowmill.loader.feature_columns import Bucketized, Embedding, Hashed, Identity, Indicator, Numeric
from rowmill.loader.keras_layers import DenseFeatures, LinearFeatures

INPUTS = {
    "a": np.array([[1], [0], [2]], "int32"),
    "x": np.array([[0.5], [1.5], [9.0]], "float32"),
    "w": np.array([[1, 2], [3, 4], [5, 6]], "float32"),
    "m": np.array([[1, 2], [0, -1], [-1, -1]], "int32"),
}


def run(layer, **inputs):
    return np.asarray(keras.ops.convert_to_numpy(layer({**INPUTS, **inputs})))


def test_columns_stand_in_the_order_of_their_names():
    a = Identity("a", 3)
    layer = DenseFeatures([Numeric("x"), Numeric("w", (2,)), Embedding(a, 4), Indicator(a)])
    found = run(layer)
    assert [column.name for column in layer.columns] == ["a_embedding", "a_indicator", "w", "x"]
    assert found.shape == (3, 10) and layer.compute_output_shape({"a": (3, 1)}) == (3, 10)
    table = np.asarray(keras.ops.convert_to_numpy(layer.tables["a_embedding"]))
    assert table.shape == (3, 4) and np.array_equal(found[:, :4], table[[1, 0, 2]])
    assert found[:, 4:7].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert found[:, 7:].tolist() == [[1, 2, 0.5], [3, 4, 1.5], [5, 6, 9]]


@pytest.mark.parametrize(("combiner", "by"), [("sum", 1.0), ("mean", 2.0), ("sqrtn", 2**0.5)])
def test_several_ids_a_row_are_combined_and_negative_ones_count_for_nothing(combiner, by):
    layer = DenseFeatures([Embedding(Identity("m", 3), 4, combiner)])
    found = run(layer)
    table = np.asarray(keras.ops.convert_to_numpy(layer.tables["m_embedding"]))
    assert np.allclose(found, [(table[1] + table[2]) / by, table[0], np.zeros(4)])
    assert run(DenseFeatures([Indicator(Identity("m", 3))])).tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0]]


def test_buckets_defaults_and_normalizers():
    buckets = Bucketized(Numeric("x"), (0.5, 2.0))
    assert run(DenseFeatures([buckets])).tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 1]]
    wide = Bucketized(Numeric("w", (2,)), (3.0,))
    assert run(DenseFeatures([wide])).tolist() == [[1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 0, 1]]
    clipped = Indicator(Identity("a", 2, default=0))
    assert run(DenseFeatures([clipped])).tolist() == [[0, 1], [1, 0], [1, 0]]
    assert run(DenseFeatures([Numeric("x", (1,), lambda x: x * 2)])).tolist() == [[1], [3], [18]]


def test_stacked():
    columns = [Embedding(Identity("a", 3), 4), Embedding(Identity("m", 3), 4)]
    assert run(DenseFeatures(columns, aggregation="stack")).shape == (3, 2, 4)
    with pytest.raises(ArgumentError, match="one size"):
        DenseFeatures([*columns, Numeric("x")], aggregation="stack")
    with pytest.raises(ArgumentError, match="wanted 'concat' or 'stack'"):
        DenseFeatures(columns, aggregation="sum")


def test_linear_starts_at_zero_and_learns_a_weight_each():
    columns = [Identity("a", 3), Numeric("x"), Bucketized(Numeric("w", (2,)), (3.0,))]
    layer = LinearFeatures(columns)
    assert run(layer).tolist() == [[0], [0], [0]]
    layer.tables["a"].assign([[1], [2], [3]])
    layer.tables["x"].assign([[10]])
    layer.bias.assign([100])
    assert run(layer).ravel().tolist() == [107, 116, 193]
    with pytest.raises(ColumnError, match="embedding column 'a_embedding' in LinearFeatures"):
        LinearFeatures([Embedding(Identity("a", 3), 4)])


@pytest.mark.parametrize("kind", [DenseFeatures, LinearFeatures])
def test_a_model_with_such_a_layer_is_saved_and_loaded(tmp_path, kind):
    columns = [Bucketized(Numeric("x"), (0.5, 2.0)), Numeric("w", (2,)), Bucketized(Numeric("w", (2,)), (3.0,))]
    if kind is DenseFeatures:
        columns += [Embedding(Identity("a", 3, default=0), 4, "sum"), Indicator(Identity("m", 3))]
    inputs = {name: keras.Input(array.shape[1:], name=name, dtype=str(array.dtype)) for name, array in INPUTS.items()}
    model = keras.Model(inputs, keras.layers.Dense(1)(kind(columns, name="features")(inputs)))
    for weight in model.get_layer("features").weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert again.get_layer("features").columns == model.get_layer("features").columns
    assert np.array_equal(again.predict(INPUTS, verbose=0), model.predict(INPUTS, verbose=0))


def test_a_function_cannot_be_saved():
    with pytest.raises(ColumnError, match="'x' has a normalizer, and a function cannot be saved"):
        DenseFeatures([Numeric("x", (1,), abs)]).get_config()
    with pytest.raises(ColumnError, match="found 'system' among feature_columns"):
        DenseFeatures([{"kind": "system"}])


def test_what_has_to_be_transformed_first_is_refused():
    with pytest.raises(ColumnError, match="embedding column 'h_embedding' over hashed column 'h'"):
        DenseFeatures([Embedding(Hashed("h", 10), 4)])
    with pytest.raises(ColumnError, match="wrap it in an embedding_column"):
        DenseFeatures([Identity("a", 3)])
    with pytest.raises(ColumnError, match="no input 'aa' among the 4 given; did you mean 'a'"):
        run(DenseFeatures([Indicator(Identity("aa", 3))]))


def test_columns_that_transform_become_a_workflow(tmp_path):
    from rowmill import Dataset
    from rowmill.loader.feature_columns import Crossed, Vocabulary
    from rowmill.loader.keras import KerasSequenceLoader, make_feature_column_workflow

    draw = np.random.default_rng(0)
    data = Dataset(
        {
            "age": draw.integers(18, 80, 400),
            "city": draw.choice(["rome", "oslo", "lima", "bonn"], 400),
            "site": draw.choice(["a", "b", "c"], 400),
            "x": draw.normal(size=400),
            "y": draw.integers(0, 2, 400),
        }
    )
    age = Bucketized(Numeric("age"), (30.0, 50.0))
    columns = [
        Numeric("x"),
        Embedding(age, 4),
        Embedding(Vocabulary("city", ("oslo", "rome", "lima")), 4),
        Indicator(Hashed("site", 10)),
        Embedding(Crossed((age, "city"), 50), 4),
    ]
    workflow, new = make_feature_column_workflow(columns, "y")
    workflow.fit(data)
    made = workflow.transform(data).to_polars()
    assert set(made.columns) == {"x", "age_bucketized", "city", "site", "age_bucketized_X_city", "y"}
    assert made["age_bucketized"].to_list() == [int(a >= 30) + int(a >= 50) for a in data.to_polars()["age"]]
    assert set(zip(data.to_polars()["city"], made["city"], strict=True)) == {
        ("oslo", 3),
        ("rome", 4),
        ("lima", 5),
        ("bonn", 2),
    }
    loader = KerasSequenceLoader(data, 100, "y", feature_columns=new, workflow=workflow, shuffle=True)
    inputs = {
        name: keras.Input((1,), name=name, dtype="float32" if name in loader.cont_names else "int32")
        for name in [*loader.cat_names, *loader.cont_names]
    }
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(DenseFeatures(new)(inputs)))
    model.compile("adam", "binary_crossentropy")
    history = model.fit(loader, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
