"""What users pass to the PyTorch and NumPy loaders, and what a batch is then: expected values written out."""

import numpy as np
import polars as pl
import pytest
import torch

import rowmill
from rowmill.errors import ArgumentError, ColumnError, DtypeError, NullError, StartedError
from rowmill.loader.numpy import Loader as NumpyLoader
from rowmill.loader.numpy import LoaderBase
from rowmill.loader.torch import Loader, TorchAsyncItr
from rowmill.schema import Schema, Tags

LOADERS = [Loader, NumpyLoader]


def table():
    return rowmill.Dataset(
        pl.DataFrame(
            {
                "a": [1, 2, 3, 4, 5],
                "x": [0.5, 1.5, 2.5, 3.5, 4.5],
                "w": [1, 0, 2, 1, 3],
                "genres": [[7], [8, 9], [], [1, 2, 3], [4]],
                "clicked": [True, False, True, True, False],
            }
        )
    )


@pytest.mark.parametrize("loader", LOADERS)
def test_a_boolean_target_is_float32_and_a_boolean_feature_stays_boolean(loader):
    features, target = loader(table(), 3, columns=["a", "clicked"], targets="clicked").peek()
    assert str(target.dtype).endswith("float32") and target.tolist() == [1.0, 0.0, 1.0] and list(features) == ["a"]
    features, _ = loader(table(), 3, columns=["clicked"], targets=[]).peek()
    assert str(features["clicked"].dtype).endswith("bool") and features["clicked"].tolist() == [True, False, True]


def test_a_boolean_target_by_row_number_is_float32():
    view = table().as_map_style(["a"], "clicked")
    features, target = view[[0, 1, 2]]
    assert target.dtype == torch.float32 and target.tolist() == [1.0, 0.0, 1.0] and features["a"].tolist() == [1, 2, 3]


def test_a_boolean_target_goes_into_a_loss():
    _, target = Loader(table(), 5, columns=["a"], targets="clicked").peek()
    assert torch.nn.functional.binary_cross_entropy(torch.full((5,), 0.5), target).item() == pytest.approx(0.6931472)


@pytest.mark.parametrize("loader", LOADERS)
def test_the_mask_of_a_target_is_never_a_feature(loader):
    data = rowmill.Dataset(pl.DataFrame({"a": [1, None, 3], "y": [1.0, None, 0.0]}))
    features, target = loader(data, 3, targets="y", nulls={"a": "mask", "y": "mask"}).peek()
    assert sorted(features) == ["a", "a__null"] and sorted(target) == ["y", "y__null"]
    assert target["y__null"].tolist() == [False, True, False] and target["y"].tolist() == [1.0, 0.0, 0.0]
    features, target = loader(data, 3, targets="y", nulls={"a": "mask", "y": 0.5}).peek()
    assert sorted(features) == ["a", "a__null"] and target.tolist() == [1.0, 0.5, 0.0]
    with pytest.raises(NullError, match="column 'y' has 1 nulls"):
        loader(data, 3, targets="y", nulls="mask").peek()


@pytest.mark.parametrize("loader", [*LOADERS, TorchAsyncItr])
def test_padding_and_dropping_the_last_batch_are_refused_together(loader):
    named = {"cats": ["a"]} if loader is TorchAsyncItr else {"columns": ["a"]}
    with pytest.raises(ArgumentError, match="last='pad' fills up the last batch, and drop_last=True drops it"):
        loader(table(), batch_size=2, last="pad", drop_last=True, **named)
    assert len(loader(table(), batch_size=2, drop_last=True, **named)) == 2


@pytest.mark.parametrize("loader", LOADERS)
def test_a_look_at_one_batch_uses_up_no_epoch(loader):
    made = loader(rowmill.Dataset({"a": np.arange(40)}), 10, True)
    first = made.peek()[0]["a"].tolist()
    assert next(iter(made))[0]["a"].tolist() == first and made.epoch == 0
    assert next(iter(made))[0]["a"].tolist() == first
    for features, _ in made:
        assert features["a"].tolist() == first
        del features
        break
    iter(made)
    whole = [row for features, _ in made for row in features["a"].tolist()]
    assert whole[:10] == first and sorted(whole) == list(range(40)) and made.epoch == 1


def test_an_iterator_that_is_held_keeps_its_epoch():
    made = Loader({"a": np.arange(40)}, 10, True)
    one, two = iter(made), iter(made)
    first, second = next(one)[0]["a"].tolist(), next(two)[0]["a"].tolist()
    assert first != second
    del one, two


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(("taken", "epoch", "following"), [(0, 0, 0), (1, 0, 0), (2, 0, 1), (4, 1, 1)])
def test_epoch_and_state_agree(loader, taken, epoch, following):
    made = loader({"a": np.arange(40)}, 10, True)
    planned = loader({"a": np.arange(40)}, 10, True)
    batches = iter(made)
    for _ in range(taken):
        next(batches)
    if taken == 4:
        assert next(batches, None) is None
    del batches
    state = made.state_dict()
    assert made.epoch == state["epoch"] == epoch and state["batch"] == taken % 4
    planned.set_epoch(following)
    assert next(iter(made))[0]["a"].tolist() == planned.peek()[0]["a"].tolist()


def test_a_position_after_one_batch_still_resumes_with_the_second():
    made = Loader({"a": np.arange(40)}, 10, True)
    epoch = [features["a"].tolist() for features, _ in Loader({"a": np.arange(40)}, 10, True)]
    next(iter(made))
    again = Loader({"a": np.arange(40)}, 10, True)
    again.load_state_dict(made.state_dict())
    assert [features["a"].tolist() for features, _ in again] == epoch[1:]


@pytest.mark.parametrize("loader", LOADERS)
def test_pad_makes_lists_dense(loader):
    features, _ = loader(table(), 3, columns=["a", "genres"], targets=[], pad={"genres": 4}).peek()
    assert list(features) == ["a", "genres"]
    assert features["genres"].tolist() == [[7, 0, 0, 0], [8, 9, 0, 0], [0, 0, 0, 0]]
    with pytest.raises(
        ArgumentError, match="a row of 'genres' has 3 values, and 2 are allowed; raise the limit in pad="
    ):
        list(loader(table(), 5, columns=["genres"], targets=[], pad={"genres": 2}))
    with pytest.raises(ColumnError, match="pad names 'genre', which is no column; did you mean 'genres'"):
        loader(table(), 3, pad={"genre": 4})
    with pytest.raises(ColumnError, match="pad names 'a', which is int64; wanted a list column"):
        loader(table(), 3, pad={"a": 4})
    for wrong in ({"genres": 0}, {"genres": True}, {"genres": "4"}, 4):
        with pytest.raises(ArgumentError, match="pad="):
            loader(table(), 3, pad=wrong)


def test_pad_in_matrices_beside_the_older_arguments():
    old = {"sparse_names": ["genres"], "sparse_max": {"genres": 4}}
    common = {"cats": ["a", "genres"], "conts": ["x"], "labels": ["clicked"], "batch_size": 2}
    (scalars, lists), _, _ = TorchAsyncItr(table(), **common, pad={"genres": 4}).peek()
    assert scalars.tolist() == [[1], [2]] and lists["genres"].tolist() == [[7, 0, 0, 0], [8, 9, 0, 0]]
    (_, lists), _, _ = TorchAsyncItr(table(), **common, **old, sparse_as_dense=True).peek()
    assert lists["genres"].tolist() == [[7, 0, 0, 0], [8, 9, 0, 0]]
    (_, lists), _, _ = TorchAsyncItr(table(), **common, **old).peek()
    assert lists["genres"].is_sparse
    with pytest.raises(ArgumentError, match="'genres' is in pad and in sparse_names"):
        TorchAsyncItr(table(), **common, **old, pad={"genres": 4})


@pytest.mark.parametrize("loader", LOADERS)
def test_settings_by_position_as_merlin_has_them(loader):
    made = loader({"a": np.arange(40)}, 10, True, lambda: 5, 2, 2, 1, True)
    assert (made.batch_size, made.shuffle, made.global_size, made.global_rank, made.drop_last) == (10, True, 2, 1, True)
    assert len(made) == 2


@pytest.mark.parametrize("loader", LOADERS)
def test_sample_weights_are_the_third_part(loader):
    features, target, weight = loader(table(), 3, columns=["a"], targets="clicked", sample_weight="w").peek()
    assert list(features) == ["a"] and target.tolist() == [1.0, 0.0, 1.0]
    assert weight.tolist() == [1.0, 0.0, 2.0] and str(weight.dtype).endswith("float32")
    features, _, _ = loader(table(), 3, targets="clicked", sample_weight="w").peek()
    assert "w" not in features
    *_, last = loader(table(), 3, columns=["a"], targets="clicked", sample_weight="w", last="pad")
    assert last[2].tolist() == [1.0, 3.0, 0.0] and last[0]["__mask"].tolist() == [True, True, False]


def test_sample_weights_of_matrices():
    common = {"cats": ["a"], "labels": ["clicked"], "batch_size": 5}
    x_cat, x_cont, y, w = TorchAsyncItr(table(), **common, sample_weight="w").peek()
    assert x_cont is None and y.tolist() == [1, 0, 1, 1, 0] and w.tolist() == [1, 0, 2, 1, 3]
    assert w.dtype == torch.float32 and x_cat.shape == (5, 1)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"sample_weight": "v"}, ColumnError, "sample_weight='v' is no column"),
        ({"sample_weight": ["w"]}, ArgumentError, "wanted the name of one column"),
        ({"sample_weight": "genres"}, DtypeError, "sample_weight column 'genres' is list of int64; wanted one number"),
        ({"sample_weight": "clicked"}, ColumnError, "column 'clicked' is sample_weight, and a feature or target too"),
        ({"sample_weight": "a", "columns": ["a"]}, ColumnError, "column 'a' is sample_weight, and a feature"),
        ({"sample_weight": "w", "nulls": {"w": "mask"}}, ArgumentError, "nulls='mask' for sample_weight column 'w'"),
    ],
)
@pytest.mark.parametrize("loader", LOADERS)
def test_weights_that_cannot_weigh_are_refused(loader, settings, error, match):
    with pytest.raises(error, match=match):
        loader(table(), 3, **{"columns": ["x"], "targets": "clicked", **settings})


@pytest.mark.parametrize("loader", LOADERS)
def test_input_schema_narrows_the_columns_until_iteration_begins(loader):
    data = table()
    made = loader(data, 2, targets="clicked").map(lambda x, y: (x, y, "mapped"))
    assert made.input_schema.column_names == ["a", "x", "w", "genres", "clicked"]
    made.peek()
    made.input_schema = data.schema[["x", "clicked"]]
    features, target, mapped = made.peek()
    assert list(features) == ["x"] and target.tolist() == [1.0, 0.0] and mapped == "mapped"
    assert made.input_schema.column_names == made.output_schema.column_names == ["x", "clicked"]
    made.input_schema = Schema([data.schema["x"].with_tags(Tags.TARGET), data.schema["a"]])
    features, target, _ = next(iter(made))
    assert list(features) == ["a"] and target.tolist() == [0.5, 1.5]
    with pytest.raises(StartedError, match="Setting the input_schema after the dataloader has started"):
        made.input_schema = data.schema[["x"]]
    assert issubclass(StartedError, RuntimeError)


def test_input_schema_of_matrices():
    data = table()
    made = TorchAsyncItr(data, cats=["a", "w"], conts=["x"], labels=["clicked"], batch_size=2, workflow=None)
    made.input_schema = data.schema[["w", "clicked"]]
    x_cat, x_cont, y = made.peek()
    assert x_cat.tolist() == [[1], [0]] and x_cont is None and y.tolist() == [1, 0]
    made.input_schema = Schema([data.schema["w"], data.schema["x"].with_tags(Tags.CONTINUOUS)])
    x_cat, x_cont, y = made.peek()
    assert x_cat.tolist() == [[1], [0]] and x_cont.tolist() == [[0.5], [1.5]] and y is None


@pytest.mark.parametrize(
    ("schema", "match"),
    [(["x"], "input_schema is list; wanted rowmill.Schema"), (Schema(), "has no columns"), (Schema(["z"]), "has 'z'")],
)
def test_an_input_schema_that_cannot_be_is_refused(schema, match):
    made = Loader(table(), 2)
    with pytest.raises((DtypeError, ColumnError), match=match):
        made.input_schema = schema


def test_numpy_batches_as_one_matrix_train_a_model_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.Generator(np.random.Philox(0))
    x = rng.normal(size=(4000, 2))
    data = rowmill.Dataset({"x1": x[:, 0], "x2": x[:, 1].astype(np.float32), "y": (x[:, 0] - x[:, 1] > 0)})
    model = linear_model.SGDClassifier(random_state=0)
    loader = NumpyLoader(data, 500, True, targets="y", batch_format="matrix")
    for features, target in loader:
        assert features.shape == (500, 2) and features.dtype == np.float64
        model.partial_fit(features, target, classes=[0, 1])
    assert model.score(x, x[:, 0] > x[:, 1]) > 0.95


def test_numpy_batches():
    assert LoaderBase is NumpyLoader
    made = NumpyLoader(table(), 3, columns=["a", "x", "genres"], targets="clicked", device="cpu")
    (one, target), (two, _) = made
    assert {name: array.tolist() for name, array in one.items()} == {
        "a": [1, 2, 3], "x": [0.5, 1.5, 2.5], "genres__values": [7, 8, 9], "genres__offsets": [0, 1, 3, 3]
    }  # fmt: skip
    assert all(type(array) is np.ndarray for array in one.values()) and target.tolist() == [1, 0, 1]
    assert two["a"].tolist() == [4, 5]
    with pytest.raises(DtypeError, match="column 'genres' holds lists, and batch_format='matrix'"):
        NumpyLoader(table(), 3, batch_format="matrix")
    x, _ = NumpyLoader(table(), 3, columns=["a", "genres"], pad={"genres": 3}, targets=[], batch_format="matrix").peek()
    assert x.tolist() == [[1, 7, 0, 0], [2, 8, 9, 0], [3, 0, 0, 0]]
    with pytest.raises(DtypeError, match="column 's' holds text"):
        NumpyLoader({"s": ["u", "v"]}, 2, batch_format="matrix")
    with pytest.raises(ArgumentError, match="wanted 'dict' or 'matrix'"):
        NumpyLoader(table(), 3, batch_format="array")
    with pytest.raises(ArgumentError, match="NumPy arrays are in the memory of the CPU"):
        NumpyLoader(table(), 3, device="cuda")
