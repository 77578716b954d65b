"""How fast are Keras and TensorFlow fed? Question `keras_feed`: bare iteration, and `fit` of one small dense layer.

Peers as their documentation shows them: `tf.data` over arrays in RAM, `tf.data` over TFRecord of the same table, a
`PyDataset` that indexes arrays in RAM, one that gathers rows item by item, a generator of rows in their order. All that
are compared read tables of the same size, because starting an epoch costs the same whatever its length (item by item it
takes so long that a part is enough); all hand the model the same dict of 39 columns. `fit ready` is a `PyDataset` whose
batches lie ready in RAM: what Keras leaves to be gained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

import contestants
import tables
from clock import read, rounds
from contestants import Run
from journal import Journal
from race import BATCH
from tables import Table

FIT_BATCH = 8_192
EPOCHS = 3  # of a `fit`: a call takes 0.1 s to begin. Those that take seconds an epoch get one.
SEQUENCE_ROWS = 10 * FIT_BATCH


def ask(journal: Journal, *, quick: bool) -> None:
    """Iterate, then fit, all from the same table."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    table = tables.criteo(1_000_000 if quick else 4_000_000)
    small = tables.criteo(100_000 if quick else 500_000, row_group_rows=62_500)
    frame = pl.read_parquet(list(small.paths), columns=table.columns)
    arrays = {name: frame[name].to_numpy().reshape(-1, 1) for name in table.columns}
    record = _records(arrays)
    iterations: dict[str, Run] = {
        "torch": contestants.rowmill_run(table, BATCH),
        "tensorflow": _drained(_loader(table, BATCH)),
        "to_tf_dataset": _drained(_loader(table, BATCH).to_tf_dataset()),
        "tensorflow, small": _drained(_loader(small, BATCH)),
        "slices": _drained(_slices(arrays, table.label, BATCH)),
        "tfrecord": _drained(_tfrecord(record, table, BATCH)),
    }
    fits: dict[str, Run] = {
        "fit rowmill": _fitted(small, _loader(small, FIT_BATCH), EPOCHS),
        "fit to_tf_dataset": _fitted(small, _loader(small, FIT_BATCH).to_tf_dataset(), EPOCHS),
        "fit model only": _fitted(small, _one_batch(arrays, small), EPOCHS),
        "fit ready": _fitted(small, _ready(arrays, small.label), EPOCHS),
        "fit pydataset": _fitted(small, _indexed(arrays, small.label), EPOCHS),
        "fit sequence": _fitted(small, _item_by_item(arrays, small.label), rows=SEQUENCE_ROWS),
        "fit slices": _fitted(small, _slices(arrays, small.label, FIT_BATCH)),
        "fit tfrecord": _fitted(small, _tfrecord(record, small, FIT_BATCH)),
        "fit generator": _fitted(small, _row_generator(arrays, small.label)),
    }
    for run in (*iterations.values(), *fits.values()):
        read(run)
    for runs in (iterations, fits):
        for number, name, reading in rounds(runs, 2 if quick else 3):
            journal.add("keras_feed", name, number, reading)


def _loader(table: Table, batch_size: int) -> Any:
    from rowmill.loader.tensorflow import KerasSequenceLoader

    names = {"cat_names": list(table.cats), "cont_names": list(table.conts), "label_names": [table.label]}
    return KerasSequenceLoader([str(path) for path in table.paths], batch_size, **names)


def _drained(batches: Any) -> Run:
    return lambda: sum(int(labels.shape[0]) for _, labels in batches)


def _fitted(table: Table, data: Any, epochs: int = 1, rows: int | None = None) -> Run:
    """Epochs of a model of one dense layer over all 39 columns."""
    import keras

    inputs = {name: keras.Input((1,), name=name, dtype="int64") for name in table.cats}
    inputs |= {name: keras.Input((1,), name=name) for name in table.conts}
    joined = keras.layers.Concatenate()([keras.ops.cast(column, "float32") for column in inputs.values()])
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(joined))
    model.compile("sgd", "binary_crossentropy")

    def run() -> int:
        model.fit(data() if callable(data) else data, verbose=0, epochs=epochs)
        return (rows or table.rows) * epochs

    return run


def _slices(arrays: dict[str, Any], label: str, batch_size: int) -> Any:
    import tensorflow as tf

    features = {name: array for name, array in arrays.items() if name != label}
    data = tf.data.Dataset.from_tensor_slices((features, arrays[label]))
    return data.shuffle(100_000).batch(batch_size).prefetch(tf.data.AUTOTUNE)


def _records(arrays: dict[str, Any]) -> str:
    """The rows as a TFRecord file of `tf.train.Example`s."""
    import tensorflow as tf

    path = str(tables.cache() / "keras-feed.tfrecord")
    with tf.io.TFRecordWriter(path) as out:
        for row in zip(*(array[:, 0].tolist() for array in arrays.values()), strict=True):
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
                if isinstance(value, int)
                else tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                for name, value in zip(arrays, row, strict=True)
            }
            out.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return path


def _tfrecord(path: str, table: Table, batch_size: int) -> Any:
    import tensorflow as tf

    spec = {name: tf.io.FixedLenFeature([1], tf.int64) for name in table.cats}
    spec |= {name: tf.io.FixedLenFeature([1], tf.float32) for name in (*table.conts, table.label)}

    def parse(rows: Any) -> Any:
        features = tf.io.parse_example(rows, spec)
        return features, features.pop(table.label)

    data = tf.data.TFRecordDataset(path).shuffle(100_000).batch(batch_size)
    return data.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _indexed(arrays: dict[str, Any], label: str) -> Any:
    import keras

    class Indexed(keras.utils.PyDataset):
        """Arrays in RAM, indexed with pieces of a permutation."""

        def __init__(self) -> None:
            super().__init__()
            self.on_epoch_end()

        def __len__(self) -> int:
            return -(-len(arrays[label]) // FIT_BATCH)

        def on_epoch_end(self) -> None:
            self.order = np.random.default_rng(0).permutation(len(arrays[label]))

        def __getitem__(self, index: int) -> Any:
            rows = self.order[index * FIT_BATCH : (index + 1) * FIT_BATCH]
            return {name: array[rows] for name, array in arrays.items() if name != label}, arrays[label][rows]

    return Indexed()


def _ready(arrays: dict[str, Any], label: str) -> Any:
    import keras

    batches = []
    for start in range(0, len(arrays[label]), FIT_BATCH):
        features = {name: array[start : start + FIT_BATCH].copy() for name, array in arrays.items()}
        batches.append((features, features.pop(label)))

    class Ready(keras.utils.PyDataset):
        """All batches, made before."""

        def __len__(self) -> int:
            return len(batches)

        def __getitem__(self, index: int) -> Any:
            return batches[index]

    return Ready()


def _item_by_item(arrays: dict[str, Any], label: str) -> Any:
    import keras

    class Items(keras.utils.PyDataset):
        """Rows in random order, each fetched by itself, then put together."""

        def __init__(self) -> None:
            super().__init__()
            self.order = np.random.default_rng(0).permutation(len(arrays[label]))[:SEQUENCE_ROWS]

        def __len__(self) -> int:
            return -(-len(self.order) // FIT_BATCH)

        def __getitem__(self, index: int) -> Any:
            chosen = self.order[index * FIT_BATCH : (index + 1) * FIT_BATCH]
            rows = [{name: array[row] for name, array in arrays.items()} for row in chosen]
            features = {name: np.stack([row[name] for row in rows]) for name in arrays}
            return features, features.pop(label)

    return Items()


def _one_batch(arrays: dict[str, Any], table: Table) -> Any:
    """The same batch again and again: what the model costs if data cost nothing."""
    import tensorflow as tf

    batch = {name: tf.constant(array[:FIT_BATCH]) for name, array in arrays.items()}
    label = batch.pop(table.label)
    return tf.data.Dataset.from_tensors((batch, label)).cache().repeat(-(-table.rows // FIT_BATCH))


def _row_generator(arrays: dict[str, Any], label: str) -> Any:
    def batches() -> Iterator[Any]:
        rows = iter(zip(*(array[:, 0].tolist() for array in arrays.values()), strict=True))
        while piece := list(islice(rows, FIT_BATCH)):
            columns = dict(zip(arrays, map(np.asarray, zip(*piece, strict=True)), strict=True))
            features = {name: column.reshape(-1, 1) for name, column in columns.items()}
            yield features, features.pop(label)

    return batches
