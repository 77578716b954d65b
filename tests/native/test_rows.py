"""Packing, copying, gathering and transposing rows, compared with NumPy over random shapes, offsets and dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from rowmill import _native
from rowmill._native import reference

PAIRS = [
    "u1 u1", "i2 i2", "u4 u4", "u8 u8", "f2 f2", "f4 f4", "f8 f8", "?1 ?1", "u1 ?1", "i1 i8", "i4 i8", "i8 i4", "u4 i4",
    "i8 u8", "u8 i8", "i8 i1", "u2 i4", "i8 f4", "u1 f4", "f8 f4", "f4 f8", "u8 f8", "i4 u2",
]  # fmt: skip
WHOLE = [0, -1, 1, 127, -128, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**63 - 1, -(2**63), 2**64 - 1]
FLOATS = [0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, 3.4028235e38, 1e300, -1e300]


def dtype(name):
    return np.dtype(bool) if name == "?1" else np.dtype(name)


def column(random, kind, rows, width, *, extreme):
    """A column of small numbers, some of them extreme."""
    shape = (rows,) if width == 1 else (rows, width)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    values = random.integers(0, 2 if kind == np.uint8 else 100, shape).astype(kind)  # a byte may become a bool
    if extreme and kind != np.uint8 and values.size:
        limits = None if kind.kind == "f" else np.iinfo(kind)
        some = FLOATS if limits is None else [value for value in WHOLE if limits.min <= value <= limits.max]
        with np.errstate(over="ignore"):
            chosen = np.array(some, kind if limits else np.float64).astype(kind)
        values.flat[random.integers(0, values.size, 3)] = chosen[random.integers(0, len(chosen), 3)]
    return values


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def table(random, pair, first, rows, *, extreme):
    """Columns of one matrix in random slots, a few of them lists, and of a second matrix of bytes."""
    source, target = (dtype(name) for name in pair.split())
    widths = random.choice([1, 1, 1, 1, 1, 2, 3], random.integers(1, 12))
    order = random.permutation(len(widths)) if random.random() < 0.5 else np.arange(len(widths))
    starts = (np.cumsum(widths) - widths)[order]
    columns = [column(random, source, first + rows, int(widths[i]), extreme=extreme) for i in order]
    flags = column(random, np.dtype("u1"), first + rows, 1, extreme=False)
    kinds = [(int(widths.sum()) + int(random.integers(0, 3)), target), (1, np.dtype("u1"))]
    return [*columns, flags], [0] * len(columns) + [1], [*starts.tolist(), 0], kinds


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("extreme", [False, True])
def test_pack(pair, extreme):
    random = np.random.default_rng(PAIRS.index(pair))
    for rows in (0, 1, 7, 8, 9, 64, 65, 301):
        first = int(random.integers(0, 9))
        columns, numbers, slots, kinds = table(random, pair, first, rows, extreme=extreme)
        found = [np.full((rows, width), 77, kind) for width, kind in kinds]
        wanted = [matrix.copy() for matrix in found]
        lost = _native.pack(_native.Columns(columns, numbers, slots), first, found)
        expected = reference.pack(columns, numbers, slots, first, wanted)
        assert (lost is None) == (expected is None)
        assert lost is None or reference.lost(columns[lost][first : first + rows], found[numbers[lost]].dtype)
        if lost is None:
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(bits(one), bits(other))


def destination(random, kinds, unit, units):
    """Outputs whose units lie in two blocks with a gap behind each unit, and the rows of each output in one array."""
    blocks = [
        [np.full((count, unit, width), 55, kind) for count in (units - units // 2, units // 2) if count]
        for width, kind in kinds
    ]
    made = _native.Destination(blocks, [False] * len(kinds), unit)
    return made, lambda: [
        np.concatenate([block.reshape(-1, width) for block in one])
        for one, (width, _) in zip(blocks, kinds, strict=True)
    ]


@pytest.mark.parametrize("pair", ["u8 u8", "i8 i4", "f4 f4", "?1 ?1", "i4 i8"])
@pytest.mark.parametrize("tile", [1, 8, 40, 1000])
def test_pack_and_copy(pair, tile):
    random = np.random.default_rng(tile)
    for rows in (0, 1, 30, 177):
        columns, numbers, slots, kinds = table(random, pair, 3, rows, extreme=False)
        unit, units = rows // 3 + 1, 4
        places = random.permutation(unit * units)[:rows].astype(np.uint32)
        plan = np.array([[i, i, 0, width * kind.itemsize, 1] for i, (width, kind) in enumerate(kinds)])
        packed = [np.full((rows, width), 77, kind) for width, kind in kinds]
        reference.pack(columns, numbers, slots, 3, packed)
        for room in (tile, max(tile, rows)):
            made, found = destination(random, kinds, unit, units)
            wanted = found()
            tiles = [np.full((room, width), 77, kind) for width, kind in kinds]
            assert (
                _native.pack_and_copy(_native.Columns(columns, numbers, slots), 3, tile, tiles, plan, places, made)
                is None
            )
            reference.copy_rows(packed, np.arange(rows), plan, places, wanted)
            for one, other, kept, whole in zip(found(), wanted, tiles, packed, strict=True):
                np.testing.assert_array_equal(one, other)
                if room >= rows:
                    np.testing.assert_array_equal(kept[:rows], whole)


SIZES = [1, 2, 3, 4, 8, 12, 15, 16, 17, 31, 32, 33, 48, 52, 63, 64, 65, 80, 104, 208, 255, 256, 257, 1001, 4096, 20_000]


@pytest.mark.parametrize("size", SIZES)
def test_copy_and_gather_rows_of_any_size(size):
    random = np.random.default_rng(size)
    before, behind = (int(n) for n in random.integers(0, 9, 2))
    packed = [random.integers(0, 256, (1000, before + size + behind), np.uint8)]
    plan = np.array([[0, 0, before, size, 1]])
    for count in (0, 1, 2, 100, 1000):
        unit = count // 3 + 1
        for places in (np.arange(count), np.roll(np.arange(count), count // 2), random.permutation(3 * unit)[:count]):
            places = places.astype(np.uint32)
            for how in ("copy", "gather", "stream"):
                made, found = destination(random, [(size, np.dtype("u1"))], unit, 3)
                wanted = found()
                rows = np.arange(count) + (1000 - count) if how == "copy" else random.integers(0, 1000, count)
                if how == "copy":
                    _native.copy_rows(packed, 1000 - count, plan, places, made)
                else:
                    _native.gather_rows(packed, rows, plan, places, made, how == "stream")
                reference.copy_rows(packed, rows, plan, places, wanted)
                np.testing.assert_array_equal(found()[0], wanted[0])


@pytest.mark.parametrize("width", [1, 3, 4, 5, 26, 1000])
def test_rows_are_cut_and_widened_on_the_way(width):
    random = np.random.default_rng(width)
    packed = [random.integers(-(2**31), 2**31, (300, width + 2), np.int64).astype(np.int32), random.random((300, 5))]
    plan = np.array([[1, 0, 0, 4, 1], [0, 0, 4, 4 * width, 2], [2, 0, 4 * width + 4, 4, 2], [3, 1, 8, 16, 1]])
    kinds = [(width, np.dtype("i8")), (1, np.dtype("i4")), (1, np.dtype("i8")), (2, np.dtype("f8"))]
    rows, places = random.integers(0, 300, 200), random.permutation(201)[:200].astype(np.uint32)
    for how in ("copy", "gather", "stream"):
        made, found = destination(random, kinds, 67, 3)
        wanted = found()
        if how == "copy":
            rows = np.arange(50, 250)
            _native.copy_rows(packed, 50, plan, places, made)
        else:
            _native.gather_rows(packed, rows, plan, places, made, how == "stream")
        reference.copy_rows(packed, rows, plan, places, wanted)
        for one, other in zip(found(), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("pair", ["u8 u8", "i8 i4", "f4 f4", "f2 f2", "u1 ?1", "i8 f4"])
def test_columns_go_straight_to_column_major_matrices(pair):
    source, target = (dtype(name) for name in pair.split())
    random, unit, padded = np.random.default_rng(1), 20, 32
    columns = [column(random, source, 70, 1, extreme=False) for _ in range(5)]
    row_major = random.integers(0, 9, (70, 2)).astype("i4")
    blocks = [np.zeros((2, 5, padded), target), np.zeros((1, 5, padded), target)]
    others = [np.zeros((2, unit, 2), "i4"), np.zeros((1, unit, 2), "i4")]
    made = _native.Destination([blocks, others], [True, False], unit)
    places = random.permutation(60)[:55].astype(np.uint32)
    given = _native.Columns([*columns, row_major], [0] * 5 + [1], [*range(5), 0])
    assert _native.scatter_columns(given, 9, places, made) is None
    wanted = np.zeros((60, 5), target)
    wanted[places] = np.stack([each[9:64] for each in columns], 1)
    found = np.concatenate(blocks)[:, :, :unit].transpose(0, 2, 1).reshape(60, 5)
    np.testing.assert_array_equal(found, wanted)
    assert not np.concatenate(blocks)[:, :, unit:].any() and not others[0].any()


def test_a_value_that_does_not_fit_is_seen_when_it_goes_straight():
    blocks = [np.zeros((1, 2, 16), np.int32)]
    made = _native.Destination([blocks], [True], 16)
    given = [np.arange(16), np.full(16, 2**40)]
    places = np.arange(16, dtype=np.uint32)
    assert _native.scatter_columns(_native.Columns(given, [0, 0], [0, 1]), 0, places, made) == 1


@pytest.mark.parametrize("kind", ["u1", "?", "f2", "i4", "f8"])
def test_transpose(kind):
    random = np.random.default_rng(5)
    for rows, width in ((0, 3), (1, 1), (7, 3), (8, 8), (100, 26), (513, 5)):
        matrix = random.integers(0, 100, (rows, width)).astype(kind)
        room = np.zeros((width, rows + 9), kind)
        _native.transpose(matrix, room[:, :rows])
        np.testing.assert_array_equal(room[:, :rows], matrix.T)
        assert not room[:, rows:].any()


def test_copy_lists():
    random = np.random.default_rng(6)
    for kind in ("u1", "f2", "i4", "f8"):
        lengths = random.integers(0, 6, 50)
        starts = np.concatenate([[2], 2 + np.cumsum(lengths)])
        source = random.integers(0, 100, starts[-1] + 3).astype(kind)
        places = random.permutation(60)[:50].astype(np.uint32)
        offsets = np.zeros(61, np.int64)
        offsets[1:][places] = lengths
        offsets = np.cumsum(offsets)
        found, wanted = np.zeros(offsets[-1], kind), np.zeros(offsets[-1], kind)
        _native.copy_lists(source, starts, places, offsets, found)
        reference.copy_lists(source, starts, places, offsets, wanted)
        np.testing.assert_array_equal(found, wanted)


def good():
    columns = [np.arange(10), np.arange(10.0)]
    outputs = [[np.zeros((1, 10, 1), np.int64)], [np.zeros((1, 10, 1))]]
    return {
        "columns": _native.Columns(columns, [0, 1], [0, 0]),
        "matrices": [np.zeros((10, 1), np.int64), np.zeros((10, 1))],
        "plan": np.array([[0, 0, 0, 8, 1], [1, 1, 0, 8, 1]]),
        "places": np.arange(10, dtype=np.uint32),
        "destination": _native.Destination(outputs, [False, False], 10),
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"places": np.array([10], np.uint32)},
        {"places": np.array([2**32 - 1], np.uint32)},
        {"places": np.zeros(11, np.uint32)},
        {"plan": np.array([[2, 0, 0, 8, 1]])},
        {"plan": np.array([[0, 2, 0, 8, 1]])},
        {"plan": np.array([[0, 0, 1, 8, 1]])},
        {"plan": np.array([[0, 0, 0, 4, 1]])},
        {"plan": np.array([[0, 0, -8, 8, 1]])},
        {"plan": np.array([[0, 0, 0, 8, 3]])},
        {"matrices": [np.zeros((10, 1), np.int64), np.zeros((9, 1))]},
        {"columns": _native.Columns([np.arange(10)], [2], [0])},
        {"columns": _native.Columns([np.arange(10)], [0], [1])},
        {"columns": _native.Columns([np.arange(10.0)], [0], [0])},
        {"columns": _native.Columns([np.zeros((10, 2), np.int64)], [0], [0])},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_does_not_fit_is_refused(changed):
    given = {**good(), **changed}
    with pytest.raises(ValueError):
        _native.pack_and_copy(
            given["columns"], 0, 10, *(given[name] for name in ("matrices", "plan", "places", "destination"))
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native.Columns([np.arange(10)[::2]], [0], [0]),
        lambda: _native.Columns([np.arange(10), np.arange(9)], [0, 0], [0, 1]),
        lambda: _native.Columns([np.arange(10)], [0, 1], [0]),
        lambda: _native.Columns([np.zeros((2, 2, 2))], [0], [0]),
        lambda: _native.Destination([[np.zeros((1, 5, 2))]], [False], 6),
        lambda: _native.Destination([[np.zeros((1, 5, 2))[:, :, ::2]]], [False], 5),
        lambda: _native.Destination([[np.zeros((1, 5, 2)), np.zeros((1, 5, 3))]], [False], 5),
        lambda: _native.Destination([[np.zeros((1, 5, 2))]], [False, True], 5),
        lambda: _native.Destination([[np.zeros((1, 5, 2))]], [False], 0),
        lambda: _native.pack(_native.Columns([np.arange(10)], [0], [0]), 1, [np.zeros((10, 1), np.int64)]),
        lambda: _native.pack(_native.Columns([np.arange(10)], [0], [0]), 2**63, [np.zeros((1, 1), np.int64)]),
        lambda: _native.pack(_native.Columns([np.zeros(3, "f2")], [0], [0]), 0, [np.zeros((3, 1), "f4")]),
        lambda: _native.transpose(np.zeros((3, 2)), np.zeros((3, 2))),
        lambda: _native.transpose(np.zeros((3, 2)), np.zeros((2, 3), "f4")),
        lambda: _native.copy_lists(
            np.arange(3), np.array([0, 4]), np.zeros(1, "u4"), np.array([0, 3]), np.zeros(3, int)
        ),
        lambda: _native.copy_lists(
            np.arange(3), np.array([0, 3]), np.zeros(1, "u4"), np.array([1, 3]), np.zeros(3, int)
        ),
        lambda: _native.copy_lists(np.arange(3), np.array([0, 3]), np.ones(1, "u4"), np.array([0]), np.zeros(3, int)),
    ],
)
def test_arrays_of_wrong_shapes_are_refused(call):
    with pytest.raises(ValueError):
        call()


def test_rows_that_are_not_there_are_refused():
    given = good()
    rest = given["plan"], given["places"][:1], given["destination"]
    for rows in (np.array([10]), np.array([-1]), np.array([], np.int64)):
        with pytest.raises(ValueError):
            _native.gather_rows(given["matrices"], rows, *rest, True)
    with pytest.raises(ValueError):
        _native.copy_rows(given["matrices"], 10, *rest)


def test_arrays_of_other_dtypes_are_refused_and_never_copied():
    given = good()
    for wrong in (given["places"].astype(np.int64), given["places"][::2], given["places"].tolist()):
        with pytest.raises(TypeError):
            _native.copy_rows(given["matrices"], 0, given["plan"], wrong, given["destination"])
    frozen = np.zeros((10, 1), np.int64)
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        _native.pack(_native.Columns([np.arange(10)], [0], [0]), 0, [frozen])
