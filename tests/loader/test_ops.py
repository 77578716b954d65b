"""Vectors looked up by id and lists padded in `transforms=`, in the forms in which Merlin's loader takes them."""

import numpy as np
import polars as pl
import pytest
import torch

from rowmill import Dataset, Tags
from rowmill.dtypes import Shape
from rowmill.errors import ArgumentError, ColumnError
from rowmill.loader import numpy as arrays
from rowmill.loader.ops import EmbeddingOperator, Padding
from rowmill.loader.torch import Loader

VECTORS = np.array([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5], [3.0, 3.5]], np.float32)


def test_a_row_of_vectors_for_each_id():
    loader = Loader(Dataset({"id": [2, 0, 3], "y": [1, 0, 1]}), 2, targets="y", transforms=[EmbeddingOperator(VECTORS)])
    (first, target), (second, _) = loader
    assert first["id"].tolist() == [2, 0] and target.tolist() == [1, 0]
    assert first["embeddings"].tolist() == [[2.0, 2.5], [0.0, 0.5]] and first["embeddings"].dtype == torch.float32
    assert second["embeddings"].tolist() == [[3.0, 3.5]]
    assert "embeddings" in loader.output_schema and "embeddings" not in loader.input_schema
    made = loader.output_schema["embeddings"]
    assert made.shape == Shape((None, 2)) and made.dtype == "float32" and Tags.EMBEDDING in made.tags


@pytest.mark.parametrize("stored", [False, True])
def test_ids_that_are_no_row_numbers(tmp_path, stored):
    vectors, ids = VECTORS, np.array([[30], [10], [20], [10]])
    if stored:
        np.save(tmp_path / "vectors.npy", vectors)
        np.save(tmp_path / "ids.npy", ids)
        vectors, ids = str(tmp_path / "vectors.npy"), tmp_path / "ids.npy"
    operator = EmbeddingOperator(vectors, "user", "vector", ids, mmap=stored)
    features, _ = arrays.Loader(Dataset({"user": [10, 20, 30]}), 3, transforms=[operator]).peek()
    assert features["vector"].tolist() == [[1.0, 1.5], [2.0, 2.5], [0.0, 0.5]]  # the first row of an id counts


@pytest.mark.parametrize("types", [(np.int64, np.uint64), (np.uint64, np.int64), (np.int64, np.int64)])
def test_large_ids_are_told_apart(types):
    ids = np.array([2**60 + 1, 2**60, 2**60 + 2, 3], types[0])
    wanted = np.array([2**60, 2**60 + 1, 2**60 + 2], types[1])
    features, _ = arrays.Loader(
        Dataset({"id": wanted}), 3, transforms=[EmbeddingOperator(VECTORS, id_lookup_table=ids)]
    ).peek()
    assert features["embeddings"][:, 0].tolist() == [1.0, 0.0, 2.0]
    small = EmbeddingOperator(VECTORS, id_lookup_table=np.array([0.0, 1.0, 2.0, 3.0]))
    with pytest.raises(ArgumentError, match=f"no row of embeddings for id {2**60}"):
        arrays.Loader(Dataset({"id": wanted}), 3, transforms=[small]).peek()


def test_vectors_of_lists_stay_lists():
    data = Dataset(pl.DataFrame({"id": [[1, 2], [], [0]]}))
    loader = Loader(data, 3, transforms=[EmbeddingOperator(torch.from_numpy(VECTORS), id_lookup_table=[2, 1, 0, 9])])
    features, _ = loader.peek()
    assert features["embeddings__values"].tolist() == [[1.0, 1.5], [0.0, 0.5], [2.0, 2.5]]
    assert features["embeddings__offsets"].tolist() == features["id__offsets"].tolist() == [0, 2, 2, 3]
    assert loader.output_schema["embeddings"].shape == Shape((None, None, 2))


@pytest.mark.parametrize("loader", [Loader, arrays.Loader])
def test_padding_and_then_vectors(loader):
    data = Dataset(pl.DataFrame({"x": [7, 8, 9], "id": [[1, 2], [], [3]], "l": [[1.5], [2.5, 3.5], []]}))
    steps = ["id"] >> Padding(3, 0) >> EmbeddingOperator(VECTORS)
    made = loader(data, 3, transforms=steps)
    features, _ = made.peek()
    assert features["id"].tolist() == [[1, 2, 0], [0, 0, 0], [3, 0, 0]]
    assert features["embeddings"].shape == (3, 3, 2) and features["embeddings"][2, 0].tolist() == [3.0, 3.5]
    assert features["x"].tolist() == [7, 8, 9] and "id__values" not in features and "l__values" in features
    assert made.output_schema["id"].shape == Shape((None, 3)) and not made.output_schema["id"].is_ragged
    assert made.output_schema["embeddings"].shape == Shape((None, 3, 2))
    every, _ = loader(data, 3, transforms=[Padding(2, -1)]).peek()
    assert every["id"].tolist() == [[1, 2], [-1, -1], [3, -1]]
    assert every["l"].tolist() == [
        [1.5, -1],
        [2.5, 3.5],
        [-1] * 2,
    ]


def test_rows_that_only_fill_up_a_batch_need_no_vector():
    operator = EmbeddingOperator(VECTORS, id_lookup_table=[5, 6, 7, 8])
    features, _ = Loader(Dataset({"id": [8]}), 2, last="pad", transforms=[operator]).peek()
    assert features["__mask"].tolist() == [True, False] and features["embeddings"][0].tolist() == [3.0, 3.5]


@pytest.mark.parametrize(
    ("operator", "error", "message"),
    [
        (EmbeddingOperator(VECTORS), ArgumentError, "no row of embeddings for id 4"),
        (EmbeddingOperator(VECTORS, id_lookup_table=[1, 2, 3, 5]), ArgumentError, "no row of embeddings for id 4"),
        (EmbeddingOperator(VECTORS[:0], id_lookup_table=[]), ArgumentError, "no row of embeddings for id 1"),
        (EmbeddingOperator(VECTORS, "ids"), ColumnError, "lookup_key='ids' is no feature.*did you mean 'id'"),
        (EmbeddingOperator(VECTORS, "x"), ArgumentError, "'x' is float64; wanted whole numbers"),
        (Padding(1), ArgumentError, "'l' has a list of 2 values, and padding_size is 1"),
        (Padding(3, columns=["id"]), ColumnError, "Padding of 'id', which comes as no values and offsets"),
    ],
)
def test_what_cannot_be_looked_up_or_padded(operator, error, message):
    data = Dataset(pl.DataFrame({"id": [1, 4], "x": [1.5, 2.5], "l": [[1, 2], [3]]}))
    with pytest.raises(error, match=message):
        arrays.Loader(data, 2, transforms=[operator]).peek()


def test_tables_that_do_not_fit(tmp_path):
    with pytest.raises(ArgumentError, match="2 ids, and embeddings 4 rows"):
        EmbeddingOperator(VECTORS, id_lookup_table=[1, 2])
    with pytest.raises(ArgumentError, match="id_lookup_table is float64; wanted whole numbers"):
        EmbeddingOperator(VECTORS, id_lookup_table=[1.0, 1.5, 2.0, np.nan])
    with pytest.raises(ArgumentError, match="1 dimensions; wanted a matrix"):
        EmbeddingOperator(VECTORS[0])
    np.save(tmp_path / "code.npy", np.array([{}], object))
    with pytest.raises(ValueError, match="allow_pickle"):
        EmbeddingOperator(tmp_path / "code.npy")


@pytest.mark.parametrize("unknown", [0, 7.5, np.array([8.0, 9.0])])
def test_ids_without_a_row_get_the_unknown_value(unknown):
    operator = EmbeddingOperator(VECTORS, unknown_value=unknown)
    features, _ = Loader(Dataset({"id": [1, 99, -1]}), 3, transforms=[operator]).peek()
    wanted = np.broadcast_to(unknown, 2).tolist()
    assert features["embeddings"].tolist() == [[1.0, 1.5], wanted, wanted]
    assert VECTORS[-1].tolist() == [3.0, 3.5]  # the table itself is unchanged


def test_an_unknown_value_of_another_size_is_refused():
    with pytest.raises(ArgumentError, match=r"unknown_value has the shape \(3,\)"):
        EmbeddingOperator(VECTORS, unknown_value=np.zeros(3))


@pytest.mark.parametrize("kind", [str, object])
def test_ids_that_are_strings(kind):
    ids = np.array(["a", "b", "long name", "d"], kind)
    operator = EmbeddingOperator(VECTORS, id_lookup_table=ids, unknown_value=-1)
    data = Dataset({"id": ["long name", "a", "long nameless", "d"]})
    features, _ = arrays.Loader(data, 4, transforms=[operator]).peek()
    assert features["embeddings"][:, 0].tolist() == [2.0, 0.0, -1.0, 3.0]
    with pytest.raises(ArgumentError, match="wanted strings"):
        arrays.Loader(Dataset({"id": [1, 2]}), 2, transforms=[operator]).peek()


def test_vectors_keep_what_the_ids_are_about():
    data = Dataset({"id": [1, 2]}).with_tags({"id": [Tags.ITEM_ID, Tags.CATEGORICAL]})
    loader = Loader(data, 2, transforms=[EmbeddingOperator(VECTORS)])
    assert set(loader.output_schema["embeddings"].tags) == {Tags.EMBEDDING, Tags.ITEM}


@pytest.mark.parametrize("size", [{"genres": 3}, 0, "3", None])
def test_a_padding_size_that_is_no_length(size):
    with pytest.raises(ArgumentError, match="wanted the length of padded lists"):
        Padding(size)
