"""JAX without Keras: arrays, constant shapes, checked casts, shardings. Run by `test_keras.py`."""

import jax
import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill.errors import ArgumentError, DtypeError
from rowmill.loader.jax import Loader
from rowmill.loader.ops import EmbeddingOperator, Padding
from tests.conftest import make_table, write_files


@pytest.fixture
def data(tmp_path):
    write_files(tmp_path / "table", make_table(1003))
    return rowmill.Dataset(tmp_path / "table")


def test_all_batches_have_one_shape_and_a_step_compiles_once(data):
    traced = []

    @jax.jit
    def step(features, target):
        traced.append(1)
        real = features["__mask"]
        return (target * real).sum(), real.sum()

    loader = Loader(data, 100, targets="label", shuffle=True)
    totals = [step(features, target) for features, target in loader]
    assert len(traced) == 1 and len(totals) == len(loader) == 11
    assert (sum(int(t) for t, _ in totals), sum(int(n) for _, n in totals)) == (501, 1003)
    assert {features["id"].shape for features, _ in loader} == {(100,)}
    assert [f["id"].shape[0] for f, _ in Loader(data, 100, last="short")][-1] == 3
    assert len(Loader(data, 100, drop_last=True)) == 10
    assert "__mask" not in next(iter(Loader(data, 100, last="short")))[0]


@pytest.mark.parametrize("shuffle", [True, "full"])
def test_batches_and_rows_by_number(data, tmp_path, shuffle):
    loader = Loader(data, 100, targets="label", shuffle=shuffle, cache=tmp_path / "cache").build_cache()
    by_number = [loader[index] for index in range(len(loader))]
    for (features, target), (wanted, other) in zip(by_number, loader, strict=True):
        assert features["id"].tolist() == wanted["id"].tolist() and target.tolist() == other.tolist()
    assert loader[-1][0]["__mask"].tolist() == [True] * 3 + [False] * 97
    assert loader.take([7, 5])[0]["id"].tolist() == [7, 5]
    with pytest.raises(IndexError, match="batch 11 of an epoch of 11"):
        loader[11]


def test_dtypes_are_narrow_without_x64_and_integers_are_checked(data):
    features, target = next(iter(Loader(data, 100, targets="label")))
    assert {n: str(a.dtype) for n, a in features.items()} == {
        "id": "int32", "cat_b": "int32", "cat_a": "int32", "x2": "float32", "x1": "float32", "__mask": "bool"
    }  # fmt: skip
    assert all(isinstance(a, jax.Array) for a in (*features.values(), target))
    limits = {"low": [-(2**31), 0], "high": [2**31 - 1, 0], "u": pl.Series([2**32 - 1, 0], dtype=pl.UInt64)}
    features, _ = next(iter(Loader(rowmill.Dataset(pl.DataFrame(limits)), 2)))
    assert [int(features[n][0]) for n in limits] == [-(2**31), 2**31 - 1, 2**32 - 1]
    for value in (2**31, -(2**31) - 1, 2**62):
        with pytest.raises(DtypeError, match=f"'big' has values from .*{value}.*, which do not fit int32"):
            next(iter(Loader(rowmill.Dataset(pl.DataFrame({"ok": [1, 2], "big": [value, 0]})), 2)))
    with pytest.raises(DtypeError):
        next(iter(Loader(rowmill.Dataset(pl.DataFrame({"l": [[1], [2**40]]})), 2)))


def test_floats_are_rounded_and_never_made_infinite():
    floats = pl.DataFrame({"f": [0.1, float("inf"), float("nan")], "g": [1.0, -1e300, float("inf")]})
    ((features, _),) = Loader(floats, 3, columns=["f"])
    assert np.asarray(features["f"]).tolist()[:2] == [float(np.float32(0.1)), float("inf")]
    with pytest.raises(DtypeError, match=r"'g' has values from -1e\+300 to 1.0, which do not fit float32"):
        list(Loader(floats, 3))


def test_dtypes_are_kept_with_x64(data):
    jax.config.update("jax_enable_x64", True)
    try:
        features, _ = next(iter(Loader(data, 100)))
        assert (features["id"].dtype, features["x1"].dtype) == (np.int64, np.float64)
        big = rowmill.Dataset(pl.DataFrame({"a": [2**62, -1]}))
        assert next(iter(Loader(big, 2)))[0]["a"].tolist() == [2**62, -1]
    finally:
        jax.config.update("jax_enable_x64", False)


def test_rows_are_spread_over_a_sharding(data):
    mesh = jax.make_mesh((2,), ("rows",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    seen = []
    for features, target in Loader(data, 100, targets="label", sharding=sharding):
        assert features["id"].sharding.is_equivalent_to(sharding, 1) and len(target.addressable_shards) == 2
        assert features["__mask"].sharding.is_equivalent_to(sharding, 1)
        seen += np.asarray(features["id"])[np.asarray(features["__mask"])].tolist()
    assert seen == list(range(1003))
    with pytest.raises(ArgumentError, match="batch_size=101 cannot be spread"):
        Loader(data, 101, targets="label", sharding=sharding)


def test_batches_that_are_kept_stay_as_they_were(tmp_path):
    write_files(tmp_path / "t", make_table(20_000), row_group=1000)
    loader = Loader(rowmill.Dataset(tmp_path / "t"), 128, columns=["id", "x2"], shuffle=True, memory="200KB")
    one = Loader(rowmill.Dataset(tmp_path / "t"), 128, columns=["id"], shuffle=True, memory="200KB")
    kept = [features for each in (loader, one, loader, one) for features, _ in each]
    for features in kept[:157] + kept[314:471]:
        assert np.array_equal(features["x2"], np.asarray(features["id"]) * np.float32(0.5))
    rows = [np.asarray(f["id"])[np.asarray(f["__mask"])] for f in kept]
    for start in range(0, 628, 157):
        assert sorted(np.concatenate(rows[start : start + 157])) == list(range(20_000))


def test_position_counts_what_was_handed_out_not_what_is_on_the_device(data):
    loader = Loader(data, 100, columns=["id"], shuffle=True)
    rest = [features["id"].tolist() for features, _ in loader]
    loader.set_epoch(0)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    state = loader.state_dict()
    batches.close()
    assert state["batch"] == 4
    again = Loader(data, 100, columns=["id"], shuffle=True)
    again.load_state_dict(state)
    assert [features["id"].tolist() for features, _ in again] == rest[4:]


def test_lists_strings_and_transforms():
    table = pl.DataFrame(
        {"l": [[1, 2], [], [3]], "s": ["a", "b", "c"], "w": [[1.0, 2.0]] * 3},
        schema_overrides={"w": pl.Array(pl.Float32, 2)},
    )
    data = rowmill.Dataset(table)
    features, _ = next(iter(Loader(data, 4)))
    assert features["l__values"].tolist() == [1, 2, 3] and features["l__offsets"].tolist() == [0, 2, 2, 3, 3]
    assert features["l__values"].dtype == features["l__offsets"].dtype == np.int32
    assert features["s"].tolist()[:3] == ["a", "b", "c"] and features["w"].shape == (4, 2)
    dense = Loader(data, 3, columns=["l"], sparse_names=["l"], sparse_max={"l": 3})
    assert next(iter(dense))[0]["l"].tolist() == [[1, 2, 0], [0, 0, 0], [3, 0, 0]]
    with pytest.raises(ArgumentError, match="dense"):
        Loader(data, 3, columns=["l"], sparse_names=["l"], sparse_max={"l": 3}, sparse_as_dense=False)
    twice = Loader(data, 3, columns=["w"], transforms=[lambda x: {**x, "twice": x["w"] * 2}])
    assert next(iter(twice))[0]["twice"].tolist() == [[2, 4]] * 3
    steps = ["l"] >> Padding(2) >> EmbeddingOperator(np.arange(8, dtype=np.float32).reshape(4, 2), "l")
    looked_up, _ = next(iter(Loader(data, 4, columns=["l"], transforms=steps)))
    assert isinstance(looked_up["embeddings"], jax.Array) and looked_up["l"].tolist() == [
        [1, 2],
        [0, 0],
        [3, 0],
        [0, 0],
    ]
    assert looked_up["embeddings"].tolist()[2] == [[6, 7], [0, 1]]


def test_weights_padded_lists_boolean_targets_and_the_last_batch():
    data = rowmill.Dataset({"a": [1, 2, 3], "w": [1, 0, 2], "l": [[7], [8, 9], []], "y": [True, False, True]})
    settings = {"columns": ["a", "l"], "targets": "y", "sample_weight": "w", "pad": {"l": 2}}
    features, target, weight = Loader(data, 4, **settings).peek()
    assert weight.tolist() == [1.0, 0.0, 2.0, 0.0] and target.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert features["l"].tolist() == [[7, 0], [8, 9], [0, 0], [0, 0]]
    assert features["__mask"].tolist() == [True, True, True, False]
    assert len(Loader(data, 2, True, drop_last=True)) == 1
    with pytest.raises(ValueError, match="last='pad'"):
        Loader(data, 2, drop_last=True, last="pad")
    loader = Loader(data, 2, targets="y")
    loader.input_schema = data.schema[["a", "y"]]
    assert sorted(next(iter(loader))[0]) == ["__mask", "a"]
    with pytest.raises(RuntimeError, match="after the dataloader has started"):
        loader.input_schema = data.schema[["a"]]


def test_shapes_that_the_schema_declares_are_honoured():
    data = rowmill.Dataset({"a": [1, 2, 3], "l": [[1, 2], [3, 4], [5, 6]]})
    data.schema["a"], data.schema["l"] = data.schema["a"].with_shape((None, 1)), data.schema["l"].with_shape((None, 2))
    *_, (last, _) = Loader(data, 2)
    assert last["a"].tolist() == [[3], [0]] and last["l"].tolist() == [[5, 6], [0, 0]]
