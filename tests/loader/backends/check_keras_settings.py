"""Settings that change what a batch of Keras is, on whichever backend this process runs with: see `test_keras.py`."""

import keras
import pytest

import rowmill
from rowmill.errors import ArgumentError
from rowmill.loader.keras import KerasSequenceLoader, Loader

WEIGHED = {"a": [1, 2, 3], "w": [1, 0, 2], "l": [[7], [8, 9], []], "y": [True, False, True]}


def listed(tensor):
    return keras.ops.convert_to_numpy(tensor).tolist()


def test_sample_weights_padded_lists_and_boolean_targets():
    data = rowmill.Dataset(WEIGHED)
    for last, rows in (("short", 3), ("pad", 4)):
        loader = Loader(data, 4, columns=["a", "l"], targets="y", sample_weight="w", pad={"l": 2}, last=last)
        features, target, weight = loader.peek()
        assert listed(weight) == [1.0, 0.0, 2.0, 0.0][:rows] and listed(target) == [1.0, 0.0, 1.0, 0.0][:rows]
        assert listed(features["l"]) == [[7, 0], [8, 9], [0, 0], [0, 0]][:rows]
        named = {"cat_names": ["a", "l"], "cont_names": [], "sample_weight": "w", "pad": {"l": 2}, "last": last}
        features, target, weight = KerasSequenceLoader(data, 4, "y", shuffle=False, **named).peek()
        assert listed(weight) == [1.0, 0.0, 2.0, 0.0][:rows] and listed(target)[:3] == [[1.0], [0.0], [1.0]]
        assert listed(features["l"]) == [[7, 0], [8, 9], [0, 0], [0, 0]][:rows]


def test_a_fit_weighs_rows():
    data = rowmill.Dataset({"x": [0.0, 0.0, 0.0], "w": [1, 0, 3], "y": [True, True, False]})
    loader = Loader(data, 3, columns=["x"], targets="y", sample_weight="w")
    inputs = {"x": keras.Input((), name="x")}
    trained = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs["x"][:, None]))
    trained.compile(keras.optimizers.SGD(0.0), "mse")
    assert trained.fit(loader, verbose=0).history["loss"] == pytest.approx([1 / 3])  # (1 * 1 + 0 * 1 + 3 * 0) / 3 rows


def test_the_input_schema_narrows_the_columns_until_iteration_begins():
    data = rowmill.Dataset(WEIGHED)
    for loader in (Loader(data, 3, targets="y"), KerasSequenceLoader(data, 3, "y", cat_names=["a", "w", "l"])):
        loader.input_schema = data.schema[["a", "y"]]
        assert list(loader.peek()[0]) == ["a"] and loader.input_schema.column_names == ["a", "y"]
        next(iter(loader))
        with pytest.raises(RuntimeError, match="after the dataloader has started"):
            loader.input_schema = data.schema[["a"]]
    with pytest.raises(ArgumentError, match="last='pad'"):
        Loader(data, 3, last="pad", drop_last=True)
    assert Loader(data, 1, True).shuffle


def test_shapes_that_the_schema_declares_are_honoured():
    data = rowmill.Dataset({"a": [1, 2], "l": [[1, 2], [3, 4]], "m": [[[5, 6]], [[7, 8]]], "y": [0.0, 1.0]})
    for name, shape in {"a": (None, 1), "l": (None, 2), "m": (None, 1, 2)}.items():
        data.schema[name] = data.schema[name].with_shape(shape)
    names = ["a", "l", "m"]
    for loader in (Loader(data, 2, targets="y"), KerasSequenceLoader(data, 2, "y", cat_names=names, shuffle=False)):
        features = loader.peek()[0]
        assert [listed(features[name]) for name in names] == [[[1], [2]], [[1, 2], [3, 4]], [[[5, 6]], [[7, 8]]]]
