"""Days of data, one after another, with Keras on whichever backend this process runs with: see `test_keras.py`."""

import keras
import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill import ops
from rowmill.errors import ArgumentError, StartedError
from rowmill.loader.keras import KerasSequenceLoader, Loader, grow_embedding, grow_embeddings


def day(number, rows=300):
    ids = np.arange(rows) % (10 + 5 * number)
    return pl.DataFrame({"user": [f"u{i}" for i in ids], "label": (ids % 2).astype(np.float32)})


def model(cardinality):
    inputs = {"user": keras.Input((1,), name="user", dtype="int64")}
    embedded = keras.layers.Flatten()(keras.layers.Embedding(cardinality, 4, name="users")(inputs["user"]))
    made = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid", name="head")(embedded))
    made.compile("adam", "binary_crossentropy")
    return made


def weights(layer):
    return [keras.ops.convert_to_numpy(weight) for weight in layer.weights]


def test_three_days(tmp_path):
    (tmp_path / "t").mkdir()
    day(0).write_parquet(tmp_path / "t" / "0.parquet")
    workflow = rowmill.Workflow((["user"] >> ops.Categorify()) + ["label"]).fit(rowmill.Dataset(tmp_path / "t"))
    loader = KerasSequenceLoader(
        rowmill.Dataset(tmp_path / "t"), 64, ["label"], cat_names=["user"], cont_names=[], workflow=workflow
    )
    trained = model(13)
    for number in (1, 2):
        trained.fit(loader, epochs=2, verbose=0)
        day(number).write_parquet(tmp_path / "t" / f"{number}.parquet")
        more = rowmill.Dataset(tmp_path / "t", since=loader.state_dict())
        rows = workflow.update(more)["user"]
        assert rows == (8 + 5 * number, 13 + 5 * number)
        loader.extend(more)
        before = trained
        trained = grow_embeddings(before, {"users": rows[1]})
        old, new = weights(before.get_layer("users"))[0], weights(trained.get_layer("users"))[0]
        assert new.shape == (rows[1], 4) and (new[: rows[0]] == old).all() and np.isfinite(new).all()
        for one, two in zip(weights(before.get_layer("head")), weights(trained.get_layer("head")), strict=True):
            assert (one == two).all()
        known = workflow.transform(day(0).head(8))["user"].to_numpy()[:, None]
        assert np.allclose(before.predict({"user": known}, verbose=0), trained.predict({"user": known}, verbose=0))
        trained.compile("adam", "binary_crossentropy")
    seen = []
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    trained.fit(loader, verbose=0, callbacks=[count])
    assert len(seen) == len(loader) == 15 and loader.state_dict()["epoch"] == 5


def test_an_epoch_under_way_is_not_extended():
    loader = Loader(rowmill.Dataset(day(0)), 64, columns=["label"], targets="label")
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.raises(StartedError):
        loader.extend(day(1))


def test_what_cannot_grow():
    layer = keras.layers.Embedding(5, 2)
    with pytest.raises(ArgumentError, match="has been built"):
        grow_embedding(layer, 7)
    layer.build()
    assert weights(grow_embedding(layer, 7))[0].shape == (7, 2)
    for rows in (4, 5.5, True):
        with pytest.raises(ArgumentError, match="5 rows"):
            grow_embedding(layer, rows)
    with pytest.raises(ArgumentError, match="Dense"):
        grow_embedding(keras.layers.Dense(1), 7)
    with pytest.raises(ArgumentError, match="no layer 'items'"):
        grow_embeddings(model(5), {"items": 6})
