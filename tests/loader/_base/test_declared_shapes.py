"""Shapes that a schema declares, honoured by the PyTorch and NumPy loaders: expected values written out."""

import polars as pl
import pytest

import rowmill
from rowmill.errors import ArgumentError, NullError
from rowmill.loader.numpy import Loader as NumpyLoader
from rowmill.loader.torch import Loader, TorchAsyncItr

LOADERS = [Loader, NumpyLoader]


def dataset(**columns):
    return rowmill.Dataset(pl.DataFrame(columns))


def declare(data, **shapes):
    for name, shape in shapes.items():
        data.schema[name] = data.schema[name].with_shape(shape)
    return data


@pytest.mark.parametrize("loader", LOADERS)
def test_lists_of_a_declared_length_are_dense(loader):
    data = declare(dataset(l=[[1, 2], [3, 4], [5, 6]], y=[[0], [1], [0]]), l=(None, 2), y=(3, 1))
    (one, target), (two, _) = loader(data, 2, targets="y")
    assert one["l"].tolist() == [[1, 2], [3, 4]] and two["l"].tolist() == [[5, 6]] and list(one) == ["l"]
    assert target.tolist() == [[0], [1]]


@pytest.mark.parametrize("loader", LOADERS)
def test_lists_of_lists_of_a_declared_shape_are_dense(loader):
    rows = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[7.0, 8.0, 9.0], [0.0, 1.0, 2.0]]]
    arrays = pl.Series(rows, dtype=pl.Array(pl.Array(pl.Float64, 3), 2))
    for column in (rows, arrays):
        features, _ = loader(declare(dataset(m=column), m=(None, 2, 3)), 2, shuffle=False).peek()
        assert features["m"].tolist() == rows and tuple(features["m"].shape) == (2, 2, 3)
    deep = [[[[1, 2]], [[3, 4]], [[5, 6]]], [[[7, 8]], [[9, 0]], [[1, 2]]]]
    features, _ = loader(declare(dataset(m=deep), m=(None, 3, 1, 2)), 2).peek()
    assert features["m"].tolist() == deep


@pytest.mark.parametrize("loader", LOADERS)
def test_single_values_may_be_columns_of_one(loader):
    data = declare(dataset(a=[1, 2], b=[3.0, 4.0]), a=(None, 1), b=(None,))
    features, _ = loader(data, 2).peek()
    assert features["a"].tolist() == [[1], [2]] and features["b"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("loader", LOADERS)
def test_fixed_lists_of_the_table_take_another_shape(loader):
    stored = pl.Series([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=pl.Array(pl.Int64, 4))
    features, _ = loader(declare(dataset(l=stored), l=(None, 2, 2)), 2).peek()
    assert features["l"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    features, _ = loader(declare(dataset(l=stored), l=(None, None)), 2).peek()
    assert features["l__values"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8] and features["l__offsets"].tolist() == [0, 4, 8]


@pytest.mark.parametrize("loader", LOADERS)
def test_ragged_shapes_stay_values_and_offsets(loader):
    for shape in ((None, None), (None, (1, 3))):
        features, _ = loader(declare(dataset(l=[[1], [2, 3]]), l=shape), 2).peek()
        assert features["l__values"].tolist() == [1, 2, 3] and features["l__offsets"].tolist() == [0, 1, 3]


@pytest.mark.parametrize("loader", LOADERS)
def test_padding_rows_have_the_declared_shape(loader):
    data = declare(dataset(l=[[1, 2], [3, 4], [5, 6]]), l=(None, 2))
    *_, (last, _) = loader(data, 2, last="pad")
    assert last["l"].tolist() == [[5, 6], [0, 0]] and last["__mask"].tolist() == [True, False]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("column", "shape", "match"),
    [
        ([[1, 2], [3]], (None, 2), r"a row of 'l' has 1 values in lists of the right length.*\(None, 2\)"),
        ([[1, 2], []], (None, 2), "a row of 'l' has 0 values"),
        ([[[1, 2, 3], [4]]] * 2, (None, 2, 2), r"a row of 'l' has 0 values.*\(None, 2, 2\)"),
        ([1, 2], (None, 3), r"the shape \(None, 3\), and the table holds int64"),
        (pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)), (None, 3), r"\(None, 3\), and the table holds lists of 2"),
    ],
)
def test_rows_of_another_shape_are_refused(loader, column, shape, match):
    with pytest.raises(ArgumentError, match=match):
        list(loader(declare(dataset(l=column), l=shape), 2))


@pytest.mark.parametrize("loader", LOADERS)
def test_nulls_within_lists_of_lists_are_refused(loader):
    with pytest.raises(NullError, match="column 'l' has 1 nulls"):
        list(loader(declare(dataset(l=[[[1, None]], [[2, 3]]]), l=(None, 1, 2)), 2))


def test_matrices_beside_columns_with_a_shape():
    data = declare(dataset(a=[1, 2], l=[[1, 2], [3, 4]], x=[0.5, 1.5]), l=(None, 2))
    (scalars, lists), x_cont, _ = TorchAsyncItr(data, cats=["a", "l"], conts=["x"], batch_size=2).peek()
    assert scalars.tolist() == [[1], [2]] and lists["l"].tolist() == [[1, 2], [3, 4]] and x_cont.shape == (2, 1)


@pytest.mark.parametrize("loader", LOADERS)
def test_a_wrong_shape_of_a_column_that_is_left_out_matters_not(loader):
    data = declare(dataset(a=[1, 2], b=[3, 4]), b=(None, 3))
    assert loader(data, 2, columns=["a"]).peek()[0]["a"].tolist() == [1, 2]
    with pytest.raises(ArgumentError, match="column 'b' the shape"):
        loader(data, 2)
