"""Rows that are packed in one layout become the matrices of another."""

import numpy as np

from rowmill.feed.memory.block import Layout, Matrix
from rowmill.feed.pack.copy_plan import parts
from rowmill.store.format import StoreShape, by_dtype

INT32, INT64, FLOAT = np.dtype("int32"), np.dtype("int64"), np.dtype("float32")
WANTED = Layout(
    (
        Matrix("cats", INT64, ("c1", "c2")),
        Matrix("conts", FLOAT, ("x1", "vec"), (1, 3)),
        Matrix("codes", INT32, ("k1", "k2", "k3")),
        Matrix("none", FLOAT, ()),
        Matrix("labels", FLOAT, ("y",)),
    ),
    ragged=("tags",),
)


def test_a_layout_of_its_own():
    assert parts(WANTED, WANTED).tolist() == [
        [0, 0, 0, 16, 1],
        [1, 1, 0, 16, 1],
        [2, 2, 0, 12, 1],
        [3, 3, 0, 0, 1],
        [4, 4, 0, 4, 1],
    ]


def test_names_do_not_matter_where_nothing_moves():
    twice = Layout((Matrix("leaf_0", FLOAT, ("a.b",)), Matrix("leaf_1", FLOAT, ("a.b",))))
    assert parts(twice, twice).tolist() == [[0, 0, 0, 4, 1], [1, 1, 0, 4, 1]]


def test_a_matrix_for_each_dtype():
    stored = by_dtype(WANTED)
    assert [(m.name, m.columns, m.widths) for m in stored.matrices] == [
        ("int64", ("c1", "c2"), ()),
        ("float32", ("x1", "vec", "y"), (1, 3, 1)),
        ("int32", ("k1", "k2", "k3"), ()),
    ]
    assert stored.ragged == ("tags",) and stored.row_bytes == WANTED.row_bytes
    assert parts(stored, WANTED).tolist() == [
        [0, 0, 0, 16, 1],
        [1, 1, 0, 16, 1],
        [4, 1, 16, 4, 1],
        [2, 2, 0, 12, 1],
    ]


def test_ids_in_four_bytes_stand_beside_others_of_four():
    stored = StoreShape(by_dtype(WANTED), 10).narrow.layout
    assert [(m.name, m.columns) for m in stored.matrices] == [
        ("int32", ("c1", "c2", "k1", "k2", "k3")),
        ("float32", ("x1", "vec", "y")),
    ]
    assert parts(stored, WANTED).tolist() == [
        [0, 0, 0, 8, 2],
        [2, 0, 8, 12, 1],
        [1, 1, 0, 16, 1],
        [4, 1, 16, 4, 1],
    ]


def test_a_table_without_matrices():
    assert parts(Layout(()), Layout(())).shape == (0, 5)
