"""What is TensorFlow's own: tensors, `tf.data`, feature columns, memory. Run by `test_keras.py`."""

import gc
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import tensorflow as tf

import rowmill
from rowmill.errors import ArgumentError, ColumnError, DtypeError, NoFilesError, NullError
from rowmill.feed.memory.block import Batch, Matrix
from rowmill.feed.pack.transpose import Transposer, is_aligned
from rowmill.loader._tf import gpu_memory
from rowmill.loader.ops import EmbeddingOperator, Padding
from rowmill.loader.tensorflow import KerasSequenceLoader, Loader
from tests.conftest import make_table, write_files


@pytest.fixture
def paths(tmp_path):
    return write_files(tmp_path / "table", make_table(1003))


COMMON = {"cat_names": ["id", "cat_a"], "cont_names": ["x1", "x2"], "label_names": ["label"]}


def test_paths_patterns_folders_and_datasets_are_the_same(paths):
    folder = paths[0].parent
    found = [
        [x["id"].numpy().tolist() for x, _ in KerasSequenceLoader(given, 100, **COMMON)]
        for given in (paths, [str(p) for p in paths], str(folder / "*.parquet"), folder, rowmill.Dataset(paths))
    ]
    assert all(each == found[0] for each in found)
    assert sorted(i for batch in found[0] for (i,) in batch) == list(range(1003))
    assert KerasSequenceLoader(str(folder / "*.parquet"), 100, engine="parquet", **COMMON).shuffle
    with pytest.raises(NoFilesError):
        KerasSequenceLoader(str(folder / "*.nothing"), 100, **COMMON)


@pytest.mark.parametrize("batch_size", [64, 100, 7, 512, 515])
def test_every_value_whatever_the_alignment(paths, batch_size):
    table, at = make_table(1003), 0
    for features, labels in KerasSequenceLoader(paths, batch_size, shuffle=False, **COMMON):
        rows = table[at : at + batch_size]
        for name, tensor in {**features, "label": labels}.items():
            assert isinstance(tensor, tf.Tensor) and tensor.shape == (rows.height, 1)
            assert np.array_equal(
                tensor.numpy()[:, 0], rows[name].cast(pl.Float32 if "x" in name else rows[name].dtype)
            )
        at += batch_size
    assert at >= 1003


@pytest.mark.parametrize("batch_size", [100, 515])
def test_keras_and_tf_data_get_what_iteration_gets(paths, batch_size):
    one, other, third = (KerasSequenceLoader(paths, batch_size, **COMMON) for _ in range(3))
    asked = (other[i] for i in range(len(other)))
    for ours, theirs, (features, labels) in zip(one, third.to_tf_dataset(), asked, strict=True):
        for name, tensor in ours[0].items():
            assert np.array_equal(tensor, theirs[0][name]) and np.array_equal(tensor, features[name])
        assert np.array_equal(ours[1], theirs[1]) and np.array_equal(ours[1], labels)


def test_every_dtype_of_the_modern_loader():
    names = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool"]
    arrays = {name: (np.arange(128) % 2).astype(name) for name in names}
    features, target = next(iter(Loader(rowmill.Dataset(pl.DataFrame(arrays)), 128)))
    assert list(features) == names and target is None
    for name in names:
        assert features[name].dtype.name == name and features[name].shape == (128,)
        assert np.array_equal(features[name].numpy(), arrays[name])


def test_turned_memory_is_aligned_and_lent_once():
    names, matrix = tuple(map(str, range(26))), np.arange(26 * 1024, dtype=np.int64).reshape(1024, 26)
    sides = Transposer([Matrix("cats", matrix.dtype, names)])

    def turned(values):
        return sides.of(Batch(1024, [values]))[0]

    first = turned(matrix)
    assert is_aligned(first) and np.array_equal(first, matrix.T)
    tensor = tf.experimental.dlpack.from_dlpack(first.__dlpack__())
    column = tf.raw_ops.Unpack(value=tensor, num=26, axis=0)[3]
    address = first.__array_interface__["data"][0]
    del first, tensor
    gc.collect()
    second = turned(matrix + 1)
    assert second.__array_interface__["data"][0] != address
    assert column.numpy().tolist() == matrix[:, 3].tolist()
    del column
    assert turned(matrix).__array_interface__["data"][0] == address


def test_arrays_that_are_not_aligned_are_copied_and_do_not_abort():
    from rowmill.loader._tf.tensors import TfTensors

    make, room = TfTensors((), keep_dims=True), np.arange(100, dtype=np.int64)
    for start in range(16):
        assert make.array(room[start:]).numpy().tolist() == list(range(start, 100))
    assert make.array(room[::2]).numpy().tolist() == list(range(0, 100, 2))
    assert make.array(room[:0]).shape == (0,)


LISTS = pl.DataFrame({"l": [[1, 2, 3], [], [4]], "s": ["a", "b", "ü"], "x": [1.0, 2.0, 3.0], "y": [0.0, 1.0, 0.0]})


def test_lists_are_ragged_sparse_or_dense_and_strings_are_strings():
    data, common = rowmill.Dataset(LISTS), {"cont_names": ["x"], "label_names": ["y"], "shuffle": False}
    features, _ = next(iter(KerasSequenceLoader(data, 3, cat_names=["l", "s"], **common)))
    assert features["l"].to_list() == [[1, 2, 3], [], [4]] and features["l"].dtype == tf.int64
    assert features["s"].dtype == tf.string and features["s"].shape == (3, 1)
    assert features["s"].numpy()[2, 0].decode() == "ü"
    sparse = {"sparse_names": ["l"], "sparse_max": {"l": 4}}
    features, _ = next(iter(KerasSequenceLoader(data, 3, cat_names=["l"], **common, **sparse)))
    assert features["l"].shape == (3, 4) and tf.sparse.to_dense(features["l"]).numpy().tolist() == [
        [1, 2, 3, 0], [0] * 4, [4, 0, 0, 0]
    ]  # fmt: skip
    features, _ = next(iter(Loader(data, 3, columns=["l", "s"], lists="ragged")))
    assert features["l"].to_list() == [[1, 2, 3], [], [4]] and features["s"].shape == (3,)
    holes = rowmill.Dataset(pl.DataFrame({"s": ["a", None], "y": [1.0, 2.0]}))
    with pytest.raises(NullError, match="'s' holds nulls"):
        next(iter(Loader(holes, 2)))
    assert next(iter(Loader(holes, 2, nulls={"s": "-"})))[0]["s"].numpy().tolist() == [b"a", b"-"]


def test_vectors_looked_up_by_id_and_padded_lists():
    data = rowmill.Dataset({"l": [[1, 2], [], [3]], "id": [2, 0, 1]})
    vectors = tf.constant([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]])
    loader = Loader(data, 3, transforms=[Padding(2), EmbeddingOperator(vectors)])
    features, _ = loader.peek()
    assert isinstance(features["embeddings"], tf.Tensor) and features["l"].numpy().tolist() == [[1, 2], [0, 0], [3, 0]]
    assert features["embeddings"].numpy().tolist() == [[2.0, 2.5], [0.0, 0.5], [1.0, 1.5]]
    assert loader.output_schema.column_names == ["l", "id", "embeddings"]


def test_lists_of_any_length_have_no_shape():
    data = rowmill.Dataset(pl.DataFrame({"l": [[1.0, 2.0], [3.0]], "y": [0.0, 1.0]}))
    columns = [tf.feature_column.numeric_column("l", (2, 3))]
    features, _ = next(iter(KerasSequenceLoader(data, 2, ["y"], feature_columns=columns, shuffle=False)))
    assert features["l"].to_list() == [[1.0, 2.0], [3.0]]


def test_ragged_and_strings_train():
    data = rowmill.Dataset(pl.concat([LISTS] * 10))
    loader = KerasSequenceLoader(data, 4, ["y"], cat_names=["l", "s"], cont_names=["x"])
    import keras

    inputs = {
        "l": keras.Input((None,), name="l", dtype="int64", ragged=True),
        "s": keras.Input((1,), name="s", dtype="string"),
        "x": keras.Input((1,), name="x"),
    }

    class Longest(keras.layers.Layer):
        def call(self, ragged):
            return tf.cast(
                ragged.row_lengths()[:, None] if hasattr(ragged, "row_lengths") else ragged[:, :1], "float32"
            )

        def compute_output_shape(self, shape):
            return (shape[0], 1)

    words = keras.layers.StringLookup(vocabulary=["a", "b", "ü"], output_mode="one_hot")(inputs["s"])
    output = keras.layers.Dense(1)(keras.layers.Concatenate()([words, inputs["x"], Longest()(inputs["l"])]))
    model = keras.Model(inputs, output)
    model.compile("sgd", "mse")
    model.fit(loader, epochs=2, verbose=0)
    assert loader.epoch == 2


@pytest.mark.parametrize("last", ["short", "pad", "drop"])
@pytest.mark.parametrize("form", [KerasSequenceLoader, Loader])
def test_as_a_tf_dataset(paths, form, last):
    options = COMMON if form is KerasSequenceLoader else {"columns": ["id", "cat_a", "x1", "x2"], "targets": "label"}
    loader = form(rowmill.Dataset(paths), 100, shuffle=True, last=last, **options)
    dataset = loader.to_tf_dataset()
    assert loader.epoch == 0
    rows = None if last == "short" else 100
    spec, label = dataset.element_spec[:2]
    shape = [rows, 1] if form is KerasSequenceLoader else [rows]
    assert spec["id"] == tf.TensorSpec(shape, tf.int64) and label == tf.TensorSpec(shape, tf.float32)
    assert int(dataset.cardinality()) == len(loader) == (10 if last == "drop" else 11)
    again = form(rowmill.Dataset(paths), 100, shuffle=True, last=last, **options)
    for _ in range(2):
        for made, batch in zip(dataset, again, strict=True):
            tf.nest.map_structure(lambda a, b: np.testing.assert_array_equal(a.numpy(), b.numpy()), made, batch)
    assert loader.epoch == 2


def test_a_tf_dataset_for_a_strategy_of_two_devices(paths):
    import keras

    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.list_logical_devices("CPU")) < 2:
        pytest.skip(f"{cpu.name} was initialised as one device")
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    loader = KerasSequenceLoader(paths, 100, drop_last=True, **COMMON)
    rows = []
    for features, _ in strategy.experimental_distribute_dataset(loader.to_tf_dataset()):
        rows += [int(i) for part in strategy.experimental_local_results(features["id"]) for i in part.numpy().ravel()]
    assert len(rows) == len(set(rows)) == 1000
    with strategy.scope():
        inputs = {name: keras.Input((1,), name=name) for name in ("x1", "x2", "id", "cat_a")}
        model = keras.Model(inputs, keras.layers.Dense(1)(inputs["x1"]))
        model.compile("sgd", "mse")
    model.fit(loader.to_tf_dataset(), verbose=0)


fc = tf.feature_column


def test_feature_columns_name_the_inputs():
    table = pl.DataFrame(
        {
            "a": [1, 2], "h": ["u", "v"], "v": ["x", "y"], "n": [1, 5], "f": [0.5, 1.5], "b": [3.0, 4.0],
            "w": [[1.0, 2.0], [3.0, 4.0]], "g": [1.0, 2.0], "y": [0.0, 1.0],
        },
        schema_overrides={"w": pl.Array(pl.Float32, 2)},
    )  # fmt: skip
    bucketized = fc.bucketized_column(fc.numeric_column("b"), [3.5])
    columns = [
        fc.embedding_column(fc.categorical_column_with_identity("a", 10), 4),
        fc.indicator_column(fc.categorical_column_with_vocabulary_list("v", ["x", "y"])),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("h", 10), 2),
        fc.numeric_column("f", (1,)),
        fc.numeric_column("w", (2,)),
        bucketized,
        fc.indicator_column(fc.crossed_column(["n", bucketized], 10)),
        fc.weighted_categorical_column(fc.categorical_column_with_identity("a", 10), "g"),
    ]
    loader = KerasSequenceLoader(rowmill.Dataset(table), 2, ["y"], feature_columns=columns, shuffle=False)
    assert (loader.cat_names, loader.cont_names) == (["a", "h", "n", "v"], ["b", "f", "g", "w"])
    features, _ = next(iter(loader))
    assert {n: (t.dtype.name, tuple(t.shape)) for n, t in features.items()} == {
        "a": ("int64", (2, 1)), "h": ("string", (2, 1)), "n": ("int64", (2, 1)), "v": ("string", (2, 1)),
        "b": ("float32", (2, 1)), "f": ("float32", (2, 1)), "g": ("float32", (2, 1)), "w": ("float32", (2, 2)),
    }  # fmt: skip
    data = rowmill.Dataset(table)
    with pytest.raises(ColumnError, match=r"'w' has shape \(3,\), and the table has 2 values a row"):
        KerasSequenceLoader(data, 2, ["y"], feature_columns=[fc.numeric_column("w", (3,))])
    with pytest.raises(ColumnError, match="no column 'zz'"):
        KerasSequenceLoader(data, 2, ["y"], feature_columns=[fc.numeric_column("zz")])
    with pytest.raises(DtypeError, match="'v' holds string"):
        KerasSequenceLoader(data, 2, ["y"], feature_columns=[fc.numeric_column("v")])
    with pytest.raises(ColumnError, match="'a' as a category and as a number"):
        KerasSequenceLoader(data, 2, ["y"], feature_columns=[columns[0], fc.numeric_column("a")])
    with pytest.raises(ColumnError, match="feature_columns is EmbeddingColumn; wanted a list"):
        KerasSequenceLoader(data, 2, ["y"], feature_columns=columns[0])


def test_a_matrix_shaped_numeric_column():
    table = pl.DataFrame({"w": [[1.0] * 6] * 4, "y": [0.0] * 4}, schema_overrides={"w": pl.Array(pl.Float32, 6)})
    columns = [fc.numeric_column("w", (2, 3))]
    features, _ = next(iter(KerasSequenceLoader(rowmill.Dataset(table), 4, ["y"], feature_columns=columns)))
    assert features["w"].shape == (4, 2, 3)


@pytest.mark.parametrize("text", ["much", "", "-1", "0", "nan", "inf"])
def test_a_malformed_allocation_is_an_error(text):
    with pytest.raises(ArgumentError, match=r"TF_MEMORY_ALLOCATION is .*; wanted megabytes"):
        gpu_memory.parse_allocation(text)


def test_allocation_limits_a_gpu_before_it_is_used(monkeypatch):
    assert gpu_memory.parse_allocation(None) is None
    seen = []

    class Config:
        gpus = ("gpu0", "gpu1")

        def list_physical_devices(self, kind):
            return list(self.gpus)

        def LogicalDeviceConfiguration(self, memory_limit):  # noqa: N802 - TensorFlow's name
            return memory_limit

        def set_logical_device_configuration(self, device, limits):
            seen.append((device, limits))

    class Fake:
        config = Config()

    monkeypatch.setattr(gpu_memory, "free_megabytes", lambda number: 10_000.0)
    for text, device in (("8192", "0"), ("0.5", "1")):
        monkeypatch.setenv("TF_MEMORY_ALLOCATION", text)
        monkeypatch.setenv("TF_VISIBLE_DEVICE", device)
        gpu_memory.limit_memory(Fake)
    assert seen == [("gpu0", [8192]), ("gpu1", [5000])]
    monkeypatch.setenv("TF_VISIBLE_DEVICE", "2")
    with pytest.raises(ArgumentError, match="TF_VISIBLE_DEVICE is 2, and there are 2 GPUs"):
        gpu_memory.limit_memory(Fake)
    gpu_memory.limit_memory(tf)  # this machine has none: harmless


def test_a_malformed_allocation_stops_the_import():
    found = subprocess.run(
        [sys.executable, "-c", "import rowmill.loader.tensorflow"],
        env={**os.environ, "TF_MEMORY_ALLOCATION": "lots"}, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 1 and "ArgumentError: TF_MEMORY_ALLOCATION is 'lots'" in found.stderr


def test_a_tf_dataset_has_weights_and_declared_shapes():
    data = rowmill.Dataset({"a": [1, 2, 3], "w": [1, 0, 2], "y": [True, False, True]})
    data.schema["a"] = data.schema["a"].with_shape((None, 1))
    for last in ("short", "pad"):
        loader = Loader(data, 2, columns=["a"], targets="y", sample_weight="w", last=last)
        first, _ = loader.to_tf_dataset().as_numpy_iterator()
        features, target, weight = first
        assert features["a"].tolist() == [[1], [2]] and target.tolist() == [1, 0] and weight.tolist() == [1, 0]
