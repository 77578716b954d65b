import datetime

import numpy as np
import polars as pl
import pytest
import torch

import rowmill
from rowmill import Tags
from rowmill.errors import ArgumentError, ColumnError, DtypeError, ForkedError, MemoryLimitError, NullError
from rowmill.loader.torch import DLDataLoader, Loader, TorchAsyncItr
from tests.conftest import make_table, write_files


def frame(**columns):
    return rowmill.Dataset(pl.DataFrame(columns))


def test_shapes_dtypes_and_order_of_columns(folder):
    loader = TorchAsyncItr(
        rowmill.Dataset(folder), cats=["id", "cat_b", "cat_a"], conts=["x2", "x1"], labels=["label"], batch_size=10
    )
    x_cat, x_cont, y = next(iter(loader))
    assert (x_cat.dtype, x_cat.shape) == (torch.int64, (10, 3))
    assert (x_cont.dtype, x_cont.shape) == (torch.float32, (10, 2))
    assert (y.dtype, y.shape) == (torch.float32, (10,))
    assert (loader.cat_names, loader.cont_names, loader.label_names) == (
        ["cat_a", "cat_b", "id"],
        ["x1", "x2"],
        ["label"],
    )
    assert x_cat[:, 2].tolist() == list(range(10))


def test_groups_without_columns_are_none_and_several_labels_are_a_matrix():
    data = frame(a=[1, 2, 3], x=[1.0, 2.0, 3.0], y=[0, 1, 0], z=[5, 6, 7])
    x_cat, x_cont, y = next(iter(TorchAsyncItr(data, cats=["a"], conts=[], labels=[], batch_size=3)))
    assert x_cat.shape == (3, 1) and x_cont is None and y is None
    x_cat, x_cont, y = next(iter(TorchAsyncItr(data, cats=[], conts=["x"], labels=["z", "y"], batch_size=3)))
    assert x_cat is None and x_cont.shape == (3, 1)
    assert y.tolist() == [[0, 5], [1, 6], [0, 7]]


def test_columns_by_tag():
    data = frame(a=[1, 2], b=[3, 4], x=[0.5, 0.25], y=[0, 1]).with_tags(
        {"a": Tags.CATEGORICAL, "b": Tags.CATEGORICAL, "x": Tags.CONTINUOUS, "y": Tags.TARGET}
    )
    x_cat, x_cont, y = next(iter(TorchAsyncItr(data, batch_size=2)))
    assert x_cat.tolist() == [[1, 3], [2, 4]] and x_cont.tolist() == [[0.5], [0.25]] and y.tolist() == [0, 1]
    features, target = next(iter(Loader(data, 2)))
    assert list(features) == ["a", "b", "x"] and target.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"^Neither Categorical or Continuous columns were found by the dataloader\. "):
        TorchAsyncItr(frame(a=[1]), batch_size=1)


def test_a_column_may_serve_twice():
    data = frame(a=[1, 2], x=[0.5, 1.5])
    x_cat, x_cont, y = next(iter(TorchAsyncItr(data, cats=["a"], conts=["a", "x"], labels=["a"], batch_size=2)))
    assert x_cat.tolist() == [[1], [2]] and x_cont.tolist() == [[1.0, 0.5], [2.0, 1.5]] and y.tolist() == [1.0, 2.0]
    data = frame(**{"a": [1, 2], "conts.a": [3, 4]})
    x_cat, x_cont, _ = next(iter(TorchAsyncItr(data, cats=["a", "conts.a"], conts=["a"], labels=[], batch_size=2)))
    assert x_cat.tolist() == [[1, 3], [2, 4]] and x_cont.tolist() == [[1.0], [2.0]]


def test_the_dict_loader_keeps_dtypes_and_order():
    data = frame(
        b=np.array([1, 2], np.int8),
        a=np.array([2**63 - 1, 5], np.int64),
        f=np.array([0.1, 0.2]),
        t=np.array([True, False]),
    )
    features, target = next(iter(Loader(data, 2, targets="f", columns=["t", "b", "a"])))
    assert list(features) == ["t", "b", "a"]
    assert [v.dtype for v in features.values()] == [torch.bool, torch.int8, torch.int64]
    assert features["a"].tolist() == [2**63 - 1, 5] and features["t"].tolist() == [True, False]
    assert target.dtype == torch.float64 and target.shape == (2,)
    features, target = next(iter(Loader(data, 2, targets=["a", "f"])))
    assert list(features) == ["b", "t"] and list(target) == ["a", "f"]


def test_ids_beyond_float_precision_are_exact():
    ids = np.array([2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63), 0], np.int64)
    x_cat, _, _ = next(
        iter(TorchAsyncItr(frame(a=ids, b=ids.astype(np.int32)), cats=["a"], conts=["b"], labels=[], batch_size=5))
    )
    assert x_cat.flatten().tolist() == ids.tolist()


def test_int32_ids_and_what_does_not_fit():
    data = frame(a=np.array([1, 2**31 - 1]), b=np.array([1, 2**31]), u=np.array([1, 2**63], np.uint64))
    x_cat, _, _ = next(iter(TorchAsyncItr(data, cats=["a"], labels=[], batch_size=2, index_dtype="int32")))
    assert x_cat.dtype == torch.int32 and x_cat.flatten().tolist() == [1, 2**31 - 1]
    with pytest.raises(DtypeError, match="'b' has values from 1 to 2147483648, which do not fit int32"):
        next(iter(TorchAsyncItr(data, cats=["a", "b"], labels=[], batch_size=2, index_dtype="int32")))
    with pytest.raises(DtypeError, match="'u' has values from 1 to 9223372036854775808, which do not fit int64"):
        next(iter(TorchAsyncItr(data, cats=["u"], labels=[], batch_size=2)))


def test_what_does_not_fit_is_named_beside_a_column_of_nothing():
    data = frame(a=np.full(3, np.nan), b=np.array([1.0, 1e300, 2.0]))
    with pytest.raises(DtypeError, match=r"'b' has values from 1.0 to 1e\+300, which do not fit float32"):
        list(TorchAsyncItr(data, conts=["a", "b"], labels=[], batch_size=2))


LISTS = {"l": [[1, 2, 3], [], [4]], "x": [1.0, 2.0, 3.0], "y": [0, 1, 0], "a": [7, 8, 9]}


def test_list_columns_as_values_and_offsets():
    data = frame(**LISTS)
    (scalars, lists), x_cont, _ = next(
        iter(TorchAsyncItr(data, cats=["a", "l"], conts=["x"], labels=["y"], batch_size=3))
    )
    values, offsets = lists["l"]
    assert scalars.tolist() == [[7], [8], [9]] and x_cont.shape == (3, 1)
    assert values.tolist() == [1, 2, 3, 4] and values.dtype == torch.int64
    assert offsets.tolist() == [[0], [3], [3]]
    (scalars, _), _, _ = next(iter(TorchAsyncItr(data, cats=["l"], conts=["x"], labels=["y"], batch_size=3)))
    assert scalars is None
    features, _ = next(iter(Loader(data, 3, columns=["l", "a"])))
    assert features["l__values"].tolist() == [1, 2, 3, 4] and features["l__offsets"].tolist() == [0, 3, 3, 4]


def test_sparse_and_dense_lists():
    data, common = (
        frame(**LISTS),
        {"cats": ["l"], "conts": ["x"], "labels": ["y"], "batch_size": 3, "sparse_names": ["l"]},
    )
    (_, lists), _, _ = next(iter(TorchAsyncItr(data, **common, sparse_max={"l": 4}, sparse_as_dense=True)))
    assert lists["l"].tolist() == [[1, 2, 3, 0], [0, 0, 0, 0], [4, 0, 0, 0]]
    (_, lists), _, _ = next(iter(TorchAsyncItr(data, **common, sparse_max={"l": 3})))
    assert lists["l"].is_sparse and lists["l"].to_dense().tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
    with pytest.raises(ValueError, match="a row of 'l' has 3 values, and 2 are allowed"):
        list(TorchAsyncItr(data, **common, sparse_max={"l": 2}))
    with pytest.raises(ValueError, match="no limit for list column 'l'"):
        TorchAsyncItr(data, **common)
    with pytest.raises(ColumnError, match="wanted a list column"):
        TorchAsyncItr(data, **{**common, "sparse_names": ["a"]}, sparse_max={"a": 2})
    features, _ = next(iter(Loader(data, 3, sparse_names=["l"], sparse_max={"l": 3}, sparse_as_dense=True)))
    assert features["l"].shape == (3, 3)


def test_null_and_empty_lists():
    data = frame(l=[[1, None], None, []], x=[1, 2, 3])
    with pytest.raises(NullError, match="'l' has 2 nulls"):
        list(Loader(data, 3))
    features, _ = next(iter(Loader(data, 3, nulls=9)))
    assert features["l__values"].tolist() == [1, 9] and features["l__offsets"].tolist() == [0, 2, 2, 2]


def test_lists_of_fixed_length_are_matrices():
    numbers = np.arange(12, dtype=np.float32).reshape(4, 3)
    data = frame(v=numbers, w=numbers * 2, x=np.ones(4, np.float32))
    features, _ = next(iter(Loader(data, 4)))
    assert features["v"].tolist() == np.arange(12).reshape(4, 3).tolist()
    assert torch.equal(features["w"], features["v"] * 2)


def test_nulls_beside_large_integers_stay_exact():
    data = frame(a=[2**53 + 1, None, 2**63 - 1], x=[0.5, None, 1.5])
    with pytest.raises(NullError, match=r"'a' has 1 nulls.*nulls=\{'a': 0\}.*mask"):
        list(Loader(data, 3))
    features, _ = next(iter(Loader(data, 3, nulls={"a": -1, "x": float("nan")})))
    assert features["a"].tolist() == [2**53 + 1, -1, 2**63 - 1]
    assert features["x"][1].isnan()
    features, _ = next(iter(Loader(data, 3, nulls="mask")))
    assert features["a"].tolist() == [2**53 + 1, 0, 2**63 - 1]
    assert features["a__null"].dtype == torch.bool
    assert features["a__null"].tolist() == features["x__null"].tolist() == [False, True, False]
    both = frame(a=[1, None], a__null=[5, 6])
    assert next(iter(Loader(both, 2, columns=["a"], nulls="mask")))[0]["a__null"].tolist() == [False, True]
    with pytest.raises(ArgumentError, match="makes a column 'a__null', and the table has one"):
        Loader(both, 2, nulls="mask")
    x_cat, x_cont, _ = next(iter(TorchAsyncItr(data, cats=["a"], conts=["x"], labels=[], batch_size=3, nulls=0)))
    assert x_cat.flatten().tolist() == [2**53 + 1, 0, 2**63 - 1] and x_cont.flatten().tolist() == [0.5, 0, 1.5]


@pytest.mark.parametrize("nulls", ["zero", {"nope": 0}, {"a": 0.5}, {"a": "mask"}])
def test_null_policies_that_cannot_be_meant(nulls):
    with pytest.raises(ValueError, match=r"wanted|no column|no place"):
        TorchAsyncItr(frame(a=[1, None]), cats=["a"], labels=[], batch_size=1, nulls=nulls)


def test_strings_pass_through_the_loader_and_are_refused_by_the_tensor_loader():
    data = frame(s=["a", None, "c"], b=[b"x", b"y", b"z"], x=[1.0, 2.0, 3.0])
    features, _ = next(iter(Loader(data, 2)))
    assert isinstance(features["s"], np.ndarray) and features["s"].tolist() == ["a", None]
    assert features["b"].tolist() == [b"x", b"y"]
    with pytest.raises(DtypeError, match=r"'s' holds string values.*encode it first"):
        TorchAsyncItr(data, cats=["s"], conts=["x"], labels=[], batch_size=1)


def test_times_come_as_integers_in_their_unit():
    day = datetime.date(2026, 11, 15)
    moment = datetime.datetime(2026, 11, 15, 12, 30)
    data = frame(d=[day], t=[moment], s=[datetime.timedelta(seconds=2)], c=[datetime.time(0, 0, 1)])
    features, _ = next(iter(Loader(data, 1)))
    assert features["d"].item() == (day - datetime.date(1970, 1, 1)).days and features["d"].dtype == torch.int32
    assert features["t"].item() == int(moment.replace(tzinfo=datetime.UTC).timestamp() * 10**6)
    assert features["s"].item() == 2_000_000 and features["c"].item() == 10**9


def test_peek_map_transforms_and_next(folder):
    data = rowmill.Dataset(folder)
    loader = Loader(data, 100, columns=["id"], shuffle=True, transforms=[lambda x: {**x, "twice": x["id"] * 2}])
    first = loader.peek()[0]["id"]
    assert torch.equal(next(iter(loader))[0]["id"], first)
    assert loader.epoch == 0
    mapped = Loader(data, 100, columns=["id"], targets=["label"]).map(lambda x, y: (x["id"] + 1, y))
    assert next(iter(mapped))[0].tolist() == list(range(1, 101))
    features, _ = next(loader)
    assert torch.equal(features["twice"], features["id"] * 2)
    count = 1
    with pytest.raises(StopIteration):
        while True:
            next(loader)
            count += 1
    assert count == 11
    next(loader)
    loader.stop()
    with loader:
        next(loader)


def test_batch_size_may_change_between_epochs(folder):
    loader = TorchAsyncItr(rowmill.Dataset(folder), cats=["id"], labels=[], batch_size=100)
    assert len(loader) == 11
    loader.batch_size = 500
    assert len(loader) == 3 and [len(b[0]) for b in loader] == [500, 500, 3]
    with pytest.raises(ArgumentError, match="batch_size"):
        loader.batch_size = 0
    assert loader.batch_size == 500


def test_seed_function_is_asked_once_an_epoch_and_only_when_shuffling(folder):
    asked = []
    loader = TorchAsyncItr(
        rowmill.Dataset(folder),
        cats=["id"],
        labels=[],
        batch_size=100,
        shuffle=True,
        seed_fn=lambda: asked.append(1) or 5,
    )
    list(loader), list(loader)
    assert len(asked) == 2
    list(TorchAsyncItr(rowmill.Dataset(folder), cats=["id"], labels=[], batch_size=100, seed_fn=lambda: 1 / 0))


def test_global_generators_are_left_alone(folder):
    torch.manual_seed(1)
    before, state = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    list(Loader(rowmill.Dataset(folder), 100, shuffle=True))
    assert torch.equal(before, torch.random.get_rng_state())
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_ranks_share_the_rows(folder):
    data, seen, steps = rowmill.Dataset(folder), [], set()
    for rank in range(3):
        loader = Loader(data, 32, columns=["id"], shuffle=True, global_size=3, global_rank=rank)
        batches = [features["id"] for features, _ in loader]
        steps.add(len(batches))
        assert len(batches) == len(loader)
        seen += torch.cat(batches).tolist()
    assert sorted(seen) == list(range(1003)) and len(steps) == 1


def test_rows_processed_does_not_count_columns(folder):
    loader = Loader(rowmill.Dataset(folder), 100)
    for number, _ in enumerate(loader, 1):
        assert loader.num_rows_processed == min(number * 100, 1003)
        if number == 3:
            break
    list(loader)
    assert loader.num_rows_processed == 1003 and loader.waited > 0


def test_two_loaders_at_once(tmp_path):
    write_files(tmp_path / "a", make_table(3000))
    write_files(tmp_path / "b", make_table(2000))
    train, valid = (Loader(rowmill.Dataset(tmp_path / n), 50, columns=["id"], shuffle=True, memory="1MB") for n in "ab")
    rows = {"train": [], "valid": []}
    for number, (features, _) in enumerate(train):
        rows["train"] += features["id"].tolist()
        if number % 20 == 0:
            rows["valid"] = [i for f, _ in valid for i in f["id"].tolist()]
            assert sorted(rows["valid"]) == list(range(2000))
    assert sorted(rows["train"]) == list(range(3000))


def test_forked_workers_are_told_what_to_do(folder):
    loader = Loader(rowmill.Dataset(folder), 100, columns=["id"])
    list(loader)
    with pytest.raises(ForkedError, match="num_workers=0"):
        list(DLDataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context="fork", timeout=20))


BAD = [
    ({"cats": ["nope"]}, ColumnError, "no column 'nope'"),
    ({"cats": ["ids"]}, ColumnError, "did you mean 'id'"),
    ({"cats": ["x1"]}, DtypeError, "'x1' is float64"),
    ({"batch_size": 0}, ArgumentError, "batch_size"),
    ({"batch_size": -5}, ArgumentError, "batch_size"),
    ({"batch_size": 2.5}, ArgumentError, "batch_size"),
    ({"global_size": 2, "global_rank": 2}, ArgumentError, "rank 2 of 2"),
    ({"global_size": 0}, ArgumentError, "rank"),
    ({"memory": "much"}, ArgumentError, "memory is 'much'"),
    ({"memory": -1}, ArgumentError, "memory"),
    ({"threads": 0}, ArgumentError, "threads"),
    ({"parts_per_chunk": 0}, ArgumentError, "parts_per_chunk"),
    ({"batch_size": 1000, "memory": "10KB"}, MemoryLimitError, "pass memory="),
]


@pytest.mark.parametrize(("wrong", "error", "message"), BAD)
def test_bad_settings_are_refused_at_construction(folder, wrong, error, message):
    with pytest.raises(error, match=message):
        TorchAsyncItr(rowmill.Dataset(folder), **{"cats": ["id"], "labels": ["label"], "batch_size": 10, **wrong})
