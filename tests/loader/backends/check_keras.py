"""What Keras's users rely on, on whichever backend this process runs with: see `test_keras.py`."""

import threading

import keras
import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill.errors import ArgumentError, ColumnError, DtypeError, NullError, StateError
from rowmill.loader.keras import KerasSequenceLoader, KerasSequenceValidater, Loader
from tests.conftest import make_table, write_files

BACKEND = keras.backend.backend()
ROWS, BATCH = 1003, 100


@pytest.fixture
def data(tmp_path):
    write_files(tmp_path / "table", make_table(ROWS))
    return rowmill.Dataset(tmp_path / "table")


@pytest.fixture
def large(tmp_path):
    """Several chunks of several batches: memory is small."""
    write_files(tmp_path / "large", make_table(20_000), row_group=1000)
    return rowmill.Dataset(tmp_path / "large")


def array(tensor):
    return np.asarray(keras.ops.convert_to_numpy(tensor))


class Watched(KerasSequenceLoader):
    """Writes down the ids of every batch that is handed out, and by which index."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.given = []

    def __getitem__(self, index):
        batch = super().__getitem__(index)
        self.given.append((index, np.asarray(batch[0]["id"]).ravel().tolist()))
        return batch


def watched(data, **options):
    wanted = {"cat_names": ["id"], "cont_names": ["x2"], "label_names": ["label"], "batch_size": BATCH, **options}
    return Watched(data, **wanted)


def ids(batches):
    return [array(features["id"]).ravel().tolist() for features, *_ in batches]


def model(loss="mse", **compiled):
    """One weight, 0 and never changed: the loss is the mean of the squared labels, whatever the model."""
    inputs = {"id": keras.Input((1,), name="id", dtype="int32"), "x2": keras.Input((1,), name="x2")}
    output = keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False)(inputs["x2"])
    made = keras.Model(inputs, output + 0.0 * keras.ops.cast(inputs["id"], "float32"))
    made.compile(keras.optimizers.SGD(0.0), loss, **compiled)
    return made


def planned(data, epochs, first=0, **options):
    """The ids of each epoch in the plan's order, from an iteration."""
    loader = watched(data, **options)
    loader.set_epoch(first)
    return [ids(loader) for _ in range(epochs)]


def passes(given, steps):
    """What was handed out, without the looks at the shapes: cut into passes from the back."""
    handed = [rows for _, rows in given]
    return [
        handed[i : i + steps] for i in range(len(handed) % steps if BACKEND != "tensorflow" else 2, len(handed), steps)
    ]


@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_each_epoch_of_fit_is_the_next_epoch_of_the_plan(data, shuffled, workers):
    loader = watched(data, workers=workers)
    history = model().fit(loader, epochs=3, verbose=0, shuffle=shuffled)
    assert passes(loader.given, 11) == planned(data, 3)
    assert loader.epoch == 3
    assert history.history["loss"] == pytest.approx([501 / 1003] * 3, rel=1e-5)


def test_fit_over_many_chunks_reads_each_once(large):
    loader = watched(large, memory="200KB")
    assert loader.plan().chunks >= 5
    model().fit(loader, epochs=2, verbose=0)
    assert passes(loader.given, 200) == planned(large, 2, memory="200KB")
    assert loader.stats().rows == 20_000


def test_evaluate_and_predict_come_in_order(data):
    inputs = {"id": keras.Input((1,), name="id", dtype="int32"), "x2": keras.Input((1,), name="x2")}
    echo = keras.Model(inputs, keras.ops.cast(inputs["id"], "float32"))
    echo.compile(loss="mse")
    for shuffle in (False, True):
        loader = watched(data, shuffle=shuffle, workers=2)
        expected = [i for batch in planned(data, 1, shuffle=shuffle)[0] for i in batch]
        assert echo.predict(loader, verbose=0).ravel().tolist() == expected
        assert loader.epoch == 1
    loss = echo.evaluate(watched(data, shuffle=False), verbose=0)
    table = make_table(ROWS)
    assert loss == pytest.approx(float(((table["id"] - table["label"]) ** 2).mean()), rel=1e-5)


def test_two_fits_go_on_counting(data):
    loader, trained = watched(data), model()
    trained.fit(loader, epochs=1, verbose=0)
    trained.fit(loader, epochs=2, verbose=0)
    assert loader.epoch == 3
    first, second = planned(data, 3)[0], planned(data, 3)[2]
    handed = [rows for _, rows in loader.given]
    assert handed[-11:] == second and handed[-11:] != first


def test_validation_data_and_the_validater_agree(data):
    train, valid = watched(data), watched(data, shuffle=False)
    metrics = {"metrics": ["mae", keras.metrics.MeanSquaredError(name="squared")]}
    plain = model(**metrics).fit(train, validation_data=valid, epochs=2, verbose=0).history
    assert (train.epoch, valid.epoch) == (2, 2)
    other = watched(data, shuffle=False)
    called = model(**metrics).fit(train, callbacks=[KerasSequenceValidater(other)], epochs=2, verbose=0).history
    assert set(called) == set(plain) == {f"{v}{n}" for v in ("", "val_") for n in ("loss", "mae", "squared")}
    for name in called:
        assert called[name] == pytest.approx(plain[name], rel=1e-6)
    assert called["val_loss"] == pytest.approx([501 / 1003] * 2, rel=1e-5)


@pytest.mark.filterwarnings("ignore:Your input ran out")
def test_steps_per_epoch_goes_on_where_it_stood(data):
    loader, trained, saved = watched(data), model(), []

    class Save(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            try:
                saved.append(loader.state_dict(step=batch + 1)["batch"])
            except ArgumentError as error:
                saved.append("leave step= out" in str(error))

    trained.fit(loader, epochs=2, steps_per_epoch=5, verbose=0, callbacks=[Save()])
    assert saved == [1, 2, 3, 4, 5, *([True] * 5 if BACKEND == "tensorflow" else range(6, 11))]
    handed = [rows for _, rows in loader.given]
    if BACKEND == "tensorflow":
        handed = handed[2:]
    elif len(handed) == 11:
        handed = handed[1:]
    assert handed[:10] == planned(data, 1)[0][:10]
    assert loader.epoch == loader.state_dict()["epoch"]
    loader.stop()


def test_an_epoch_left_in_its_middle_is_followed_by_a_whole_one(data):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch >= 3

    loader, trained = watched(data), model()
    trained.fit(loader, epochs=2, verbose=0, callbacks=[Stop()])
    loader.given.clear()
    trained.fit(loader, epochs=1, verbose=0)
    handed = [rows for _, rows in loader.given][-11:]
    assert handed == planned(data, 2)[1] and loader.epoch == 2


def test_batches_by_number(large):
    loader = watched(large, memory="200KB")
    expected = planned(large, 1, memory="200KB")[0]
    for index in (0, 1, 150, 3, 199, -1, 4, 5):
        assert ids([loader[index]]) == [expected[index]]
    assert ids([loader[i] for i in range(200)]) == expected
    for index in (200, -201):
        with pytest.raises(IndexError, match="of an epoch of 200"):
            loader[index]
    assert loader.epoch == 0 and ids(loader) == expected
    loader.stop()


def test_batches_by_number_from_many_threads(large):
    loader = watched(large, memory="200KB")
    expected, found = planned(large, 1, memory="200KB")[0], {}

    def ask(start):
        for index in range(start, 200, 4):
            found[index] = ids([loader[index]])[0]

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(200)] == expected
    loader.stop()


def test_looking_at_a_batch_in_the_middle_of_an_epoch_takes_none_from_it(data):
    if BACKEND != "tensorflow":
        pytest.skip("on this backend Keras asks in the thread of the callbacks")
    loader = watched(data)

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            assert len(loader) == 11
            KerasSequenceLoader.__getitem__(loader, 7)

    model().fit(loader, epochs=2, verbose=0, callbacks=[Look()])
    assert passes(loader.given, 11) == planned(data, 2)


def test_resume_in_the_middle_of_an_epoch(data):
    whole, saved = planned(data, 2), []
    loader = watched(data)

    class Save(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 4:
                saved.append(loader.state_dict(step=batch + 1))

    model().fit(loader, epochs=1, verbose=0, callbacks=[Save()])
    assert (saved[0]["epoch"], saved[0]["batch"]) == (0, 5)
    resumed = watched(data)
    resumed.load_state_dict(saved[0])
    trained = model()
    trained.fit(resumed, epochs=1, verbose=0)
    assert [rows for _, rows in resumed.given][-6:] == whole[0][5:]
    resumed.given.clear()
    trained.fit(resumed, epochs=1, verbose=0)
    assert [rows for _, rows in resumed.given][-11:] == whole[1]
    resumed.load_state_dict(saved[0])
    with pytest.raises(StateError, match=r"fit\(loader, epochs=1\), then call fit again"):
        trained.fit(resumed, epochs=3, verbose=0)
    resumed.given.clear()
    trained.fit(resumed, epochs=2, verbose=0)
    assert [rows for _, rows in resumed.given][-22:-11] == whole[1]
    resumed.load_state_dict(saved[0])
    trained.fit(resumed, steps_per_epoch=3, epochs=2, verbose=0)  # Keras asks for no length
    with pytest.raises(StateError):
        watched(data, seed=1).load_state_dict(saved[0])
    with pytest.raises(ArgumentError, match="no epoch of Keras is under way"):
        loader.state_dict(step=3)


def test_shapes_and_dtypes(data):
    loader = KerasSequenceLoader(
        data, BATCH, ["label"], cat_names=["cat_a", "id"], cont_names=["x1", "x2"], shuffle=False
    )
    features, labels = next(iter(loader))
    index = "int32" if BACKEND == "jax" else "int64"
    assert {n: (tuple(t.shape), keras.backend.standardize_dtype(t.dtype)) for n, t in features.items()} == {
        "cat_a": ((100, 1), index), "id": ((100, 1), index), "x1": ((100, 1), "float32"), "x2": ((100, 1), "float32")
    }  # fmt: skip
    assert tuple(labels.shape) == (100, 1)
    table = make_table(ROWS)[:100]
    for name in features:
        assert np.allclose(array(features[name])[:, 0], table[name].to_numpy())
    _, labels = next(iter(KerasSequenceLoader(data, 10, ["label", "x1"], cat_names=["id"], cont_names=[])))
    assert [tuple(t.shape) for t in labels] == [(10, 1), (10, 1)]


def test_several_labels_no_labels_and_weights(data):
    inputs = {"id": keras.Input((1,), name="id", dtype="int32"), "x2": keras.Input((1,), name="x2")}
    two = keras.Model(inputs, [keras.layers.Dense(1)(inputs["x2"]) for _ in range(2)])
    two.compile("sgd", ["mse", "mse"])
    two.fit(watched(data, label_names=["label", "x1"]), verbose=0)
    blank = watched(data, label_names=[], shuffle=False)
    assert model().predict(blank, verbose=0).shape == (ROWS, 1)
    assert next(iter(blank))[1] is None
    padded = watched(data, last="pad")
    assert len(padded) == 11
    assert {tuple(x["x2"].shape) for x, _, _ in padded} == {(BATCH, 1)}
    weighted = model(weighted_metrics=["mse"]).fit(padded, verbose=0).history
    assert weighted["mse"] == pytest.approx([501 / 1003], rel=1e-5)


def test_the_modern_loader_trains_too(data):
    loader = Loader(data, BATCH, columns=["x2", "id"], targets="label", shuffle=True)
    features, target = next(iter(loader))
    assert tuple(features["x2"].shape) == tuple(target.shape) == (BATCH,)
    inputs = {"x2": keras.Input((), name="x2"), "id": keras.Input((), name="id", dtype="int32")}
    output = keras.layers.Dense(1, kernel_initializer="zeros")(inputs["x2"][:, None])
    trained = keras.Model(inputs, output)
    trained.compile(keras.optimizers.SGD(0.0), "mse")
    assert trained.fit(loader, verbose=0).history["loss"] == pytest.approx([501 / 1003], rel=1e-5)
    assert loader.epoch == 1, "a look at one batch uses up no epoch"


def test_ranks_share_the_rows(data):
    seen = [i for rank in range(3) for b in ids(watched(data, global_size=3, global_rank=rank)) for i in b]
    assert sorted(seen) == list(range(ROWS))


def test_batches_that_are_kept_stay_as_they_were(large):
    loader = watched(large, memory="200KB", batch_size=104)
    kept, copies = [], []
    for _ in range(2):
        for features, labels in loader:
            kept.append((features, labels))
            copies.append(({n: array(t).copy() for n, t in features.items()}, array(labels).copy()))
    for (features, labels), (expected, wanted) in zip(kept, copies, strict=True):
        assert all((array(features[n]) == expected[n]).all() for n in features)
        assert (array(labels) == wanted).all()
        assert (expected["x2"] == expected["id"] * 0.5).all()


LISTS = pl.DataFrame(
    {"l": [[1, 2, 3], [], [4]], "x": [1.0, 2.0, 3.0], "y": [0.0, 1.0, 0.0], "w": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]},
    schema_overrides={"w": pl.Array(pl.Float32, 2)},
)


def test_lists_as_values_and_offsets_dense_and_wide():
    common = {"cat_names": ["l"], "cont_names": ["x", "w"], "label_names": ["y"], "shuffle": False}
    features, _ = next(iter(KerasSequenceLoader(rowmill.Dataset(LISTS), 3, **common)))
    if BACKEND == "tensorflow":
        assert features["l"].to_list() == [[1, 2, 3], [], [4]]
    features, _ = next(iter(KerasSequenceLoader(rowmill.Dataset(LISTS), 3, lists="offsets", **common)))
    assert array(features["l__values"]).tolist() == [1, 2, 3, 4]
    assert array(features["l__offsets"]).tolist() == [0, 3, 3, 4]
    assert array(features["w"]).tolist() == [[1, 2], [3, 4], [5, 6]]
    dense = {"sparse_names": ["l"], "sparse_max": {"l": 4}, "sparse_as_dense": True}
    features, _ = next(iter(KerasSequenceLoader(rowmill.Dataset(LISTS), 3, **common, **dense)))
    assert array(features["l"]).tolist() == [[1, 2, 3, 0], [0] * 4, [4, 0, 0, 0]]
    if BACKEND != "tensorflow":
        with pytest.raises(ArgumentError, match="sparse_names without sparse_as_dense=True"):
            next(iter(KerasSequenceLoader(rowmill.Dataset(LISTS), 3, **common, **{**dense, "sparse_as_dense": False})))
        words = rowmill.Dataset(pl.DataFrame({"s": ["a"], "x": [1.0]}))
        with pytest.raises(DtypeError, match=f"'s' holds strings, and Keras on {BACKEND} takes numbers"):
            KerasSequenceLoader(words, 1, [], cat_names=["s"], cont_names=["x"])
    with pytest.raises(ArgumentError, match="a row of 'l' has 3 values, and 2 are allowed"):
        next(iter(KerasSequenceLoader(rowmill.Dataset(LISTS), 3, **common, **{**dense, "sparse_max": {"l": 2}})))


def test_ids_that_do_not_fit_are_an_error_and_never_another_number():
    ids = rowmill.Dataset(pl.DataFrame({"a": [1, 2**31], "y": [0.0, 1.0]}))
    loader = KerasSequenceLoader(ids, 2, ["y"], cat_names=["a"], cont_names=[], shuffle=False)
    if BACKEND == "jax":
        with pytest.raises(DtypeError, match="'a' has values from 1 to 2147483648, which do not fit int32"):
            next(iter(loader))
    else:
        assert array(next(iter(loader))[0]["a"]).ravel().tolist() == [1, 2**31]


BAD = [
    ({"cat_names": ["ids"]}, ColumnError, "did you mean 'id'"),
    ({"label_names": ["lable"]}, ColumnError, "did you mean 'label'"),
    ({"cat_names": ["x1"]}, DtypeError, "'x1' is float64"),
    ({"cat_names": ["id"], "cont_names": ["id"]}, ColumnError, "'id' is in cat_names and in cont_names"),
    ({"cat_names": [], "cont_names": []}, ColumnError, "^Neither Categorical or Continuous columns were found"),
    ({"feature_columns": [1]}, ColumnError, "feature_columns and cat_names"),
    ({"buffer_size": 0.1, "memory": "1GB"}, ArgumentError, "give one"),
    ({"buffer_size": -1}, ArgumentError, "memory is -1"),
    ({"batch_size": 0}, ArgumentError, "batch_size"),
    ({"lists": "rugged"}, ArgumentError, "lists='rugged'"),
    ({"global_size": 2, "global_rank": 2}, ArgumentError, "rank 2 of 2"),
    ({"global_size": 2}, ArgumentError, "global_size=2 without global_rank"),
    ({"index_dtype": "int33"}, ArgumentError, "dtype 'int33'; wanted one of NumPy's"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), BAD)
def test_bad_settings_are_refused_at_construction(data, wrong, error, message):
    with pytest.raises(error, match=message):
        watched(data, **wrong)


def test_a_table_without_rows_is_refused_by_fit(data):
    empty = rowmill.Dataset(pl.DataFrame(schema={"id": pl.Int64, "x2": pl.Float32, "label": pl.Float32}))
    with pytest.raises(ArgumentError, match="an epoch without batches"):
        model().fit(watched(empty), verbose=0)


def test_feature_columns_that_are_none(data):
    for wrong in (["x1"], [3], "x1", 5):
        with pytest.raises(ColumnError, match=r"wanted (a list|columns) of tf\.feature_column"):
            KerasSequenceLoader(data, 10, ["label"], feature_columns=wrong)


def test_buffer_size_is_memory(data):
    assert watched(data, buffer_size="64MB").plan().memory == 64_000_000
    half, whole = (watched(data, buffer_size=f).plan().memory for f in (0.25, 0.5))
    assert 2 * half == pytest.approx(whole, abs=2)


def test_failures_reach_fit(data):
    holes = pl.DataFrame({"id": [1, 2, 3, None], "x2": [1.0] * 4, "label": [0.0] * 4})
    with pytest.raises(NullError if BACKEND != "tensorflow" else Exception, match="null"):
        model().fit(watched(rowmill.Dataset(holes), batch_size=2, shuffle=False), verbose=0)
