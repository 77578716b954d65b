"""Keras 2 (`tf_keras`, with TF_USE_LEGACY_KERAS=1): a real `Sequence`. Run by `test_keras.py`."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import rowmill
from rowmill.loader.tensorflow import KerasSequenceLoader, KerasSequenceValidater
from tests.conftest import make_table, write_files
from tests.counts import THOROUGH

keras = tf.keras
slow = pytest.mark.skipif(not THOROUGH, reason="takes 15 s; ROWMILL_THOROUGH=1 runs it")
COMMON = {"cat_names": ["id"], "cont_names": ["x2"], "label_names": ["label"], "batch_size": 100}


class Watched(KerasSequenceLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.given = []

    def __getitem__(self, index):
        batch = super().__getitem__(index)
        self.given.append(np.asarray(batch[0]["id"]).ravel().tolist())
        return batch


@pytest.fixture
def data(tmp_path):
    write_files(tmp_path / "table", make_table(1003))
    return rowmill.Dataset(tmp_path / "table")


def model(echo=False, **compiled):
    inputs = {"id": keras.Input((1,), name="id", dtype="int64"), "x2": keras.Input((1,), name="x2")}
    output = keras.layers.Dense(1, kernel_initializer="zeros")(inputs["x2"])
    made = keras.Model(inputs, tf.cast(inputs["id"], tf.float32) if echo else output)
    made.compile(keras.optimizers.SGD(0.0), "mse", **compiled)
    return made


def planned(data, epochs, **options):
    loader = KerasSequenceLoader(data, **COMMON, **options)
    return [[x["id"].numpy().ravel().tolist() for x, _ in loader] for _ in range(epochs)]


def test_this_is_keras_2():
    assert tf_keras.__version__.startswith("2.") and issubclass(KerasSequenceLoader, keras.utils.Sequence)


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, pytest.param({"workers": 2}, marks=slow)])
def test_fit(data, options):
    loader = Watched(data, **COMMON)
    history = model().fit(loader, epochs=3, verbose=0, **options)
    assert history.history["loss"] == pytest.approx([501 / 1003] * 3, rel=1e-5)
    assert loader.epoch == 3 and len(loader) == 11
    handed = [sorted(map(tuple, loader.given[-11 * k - 11 : len(loader.given) - 11 * k])) for k in (2, 1, 0)]
    assert handed == [sorted(map(tuple, epoch)) for epoch in planned(data, 3)]
    if "shuffle" in options:
        assert loader.given[-33:] == [batch for epoch in planned(data, 3) for batch in epoch]


@pytest.mark.parametrize("options", [{}, pytest.param({"workers": 3}, marks=slow)])
def test_predict_comes_in_order(data, options):
    loader = Watched(data, **COMMON, shuffle=False)
    for _ in range(3):
        assert model(echo=True).predict(loader, verbose=0, **options).ravel().tolist() == list(range(1003))


def test_validation_data_and_the_validater_agree(data):
    train, valid = Watched(data, **COMMON), Watched(data, **COMMON, shuffle=False)
    plain = model(metrics=["mae"]).fit(train, validation_data=valid, epochs=2, verbose=0).history
    called = model(metrics=["mae"]).fit(train, callbacks=[KerasSequenceValidater(valid)], epochs=2, verbose=0).history
    assert set(plain) == set(called) == {"loss", "mae", "val_loss", "val_mae"}
    assert all(called[name] == pytest.approx(plain[name], rel=1e-6) for name in plain)


def test_batches_by_number(data):
    loader = Watched(data, **COMMON)
    expected = planned(data, 1)[0]
    for index in (5, 0, 10, 3):
        assert len(loader) == 11
        assert loader[index][0]["id"].numpy().ravel().tolist() == expected[index]


def test_dense_features_of_keras_2_take_the_batches(data):
    fc = tf.feature_column
    columns = [
        fc.embedding_column(fc.categorical_column_with_identity("cat_a", 77), 4),
        fc.numeric_column("x2"),
    ]
    loader = KerasSequenceLoader(data, 100, ["label"], feature_columns=columns)
    inputs = {"cat_a": keras.Input((1,), name="cat_a", dtype="int64"), "x2": keras.Input((1,), name="x2")}
    trained = keras.Model(inputs, keras.layers.Dense(1)(tf_keras.layers.DenseFeatures(columns)(inputs)))
    trained.compile("adam", "mse")
    assert np.isfinite(trained.fit(loader, epochs=2, verbose=0).history["loss"]).all()


def test_as_a_tf_dataset(data):
    loader = KerasSequenceLoader(data, **COMMON)
    assert model().fit(loader.to_tf_dataset(), epochs=2, verbose=0).history["loss"] == pytest.approx([501 / 1003] * 2)
    assert loader.epoch == 2
