"""From columns to rows, value by value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rowmill.feed.kernels import TILE_ROWS, deal, scatter, stack, stack_wide, stacker


def _address(array: np.ndarray) -> np.uint64:
    return np.uint64(array.__array_interface__["data"][0])


def dealt(where, source, target, first, places, found, strip):
    """What `deal` says of rows that it writes to places in one matrix, packed in a strip."""
    columns, slots = where
    order = [stacker(source, target, False).address, _address(columns), 0, _address(slots), len(slots), 0]
    packed, targets = np.array([_address(strip)]), np.array([[_address(found)]])
    sizes, parts = np.array([strip.strides[0]]), np.array([[0, 0, 0, strip.strides[0], 1]])
    return deal(np.array([order], np.uint64), first, len(strip), packed, sizes, parts, places, len(found), targets)


@pytest.mark.parametrize(
    "slots", [[0], [0, 1, 2, 3], [1, 2, 3, 4, 5, 6, 7], [0, 2, 4, 6], [0, 1, 2, 3, 5, 6, 7, 8, 10]]
)
@pytest.mark.parametrize("dtypes", ["u1 u1", "u2 u2", "u4 u4", "u8 u8", "f4 f4", "i4 i8", "i8 i4", "f8 f4"])
def test_every_value_comes_to_its_row_and_slot(dtypes, slots):
    source, target = (np.dtype(name) for name in dtypes.split())
    random, width, first = np.random.default_rng(len(slots)), slots[-1] + 2, 5
    for rows in (1, 3, 4, 6, 8, 19, TILE_ROWS, 2 * TILE_ROWS + 7):
        columns = [random.integers(0, 100, first + rows).astype(source) for _ in slots]
        where = np.array([_address(column) for column in columns], np.uint64), np.array(slots, np.uint64)
        likes = np.empty(0, source), np.empty(0, target)
        wanted = np.full((rows, width), 77, target)
        wanted[:, slots] = np.stack([column[first:] for column in columns], 1)
        found = np.full_like(wanted, 77)
        stack(*where, width * target.itemsize, first, rows, _address(found), *likes)
        np.testing.assert_array_equal(found, wanted)
        for strip in (rows, 5):
            places, found = random.permutation(rows).astype(np.uint32), np.zeros_like(wanted)
            assert dealt(where, source, target, first, places, found, np.full((strip, width), 77, target)) == 0
            np.testing.assert_array_equal(found[places], wanted)
        found = np.full_like(wanted, 77)
        targets = np.array([_address(found)])
        assert scatter(*where, width * target.itemsize, first, places, rows, targets, *likes) == 0
        np.testing.assert_array_equal(found[places], wanted)


LIMITS = {
    "i8 i4": [-(2**31) - 1, 2**31, 2**62, -(2**63)],
    "i8 u4": [-1, 2**32],
    "u8 i8": [2**63, 2**64 - 1],
    "i8 u8": [-1, -(2**63)],
    "i4 i2": [-(2**15) - 1, 2**15],
    "u4 i4": [2**31],
}


@pytest.mark.parametrize("width", [1, 4, 6])
@pytest.mark.parametrize("dtypes", LIMITS)
def test_a_value_that_does_not_fit_is_seen_and_no_other(dtypes, width):
    source, target = (np.dtype(name) for name in dtypes.split())
    low = max(np.iinfo(source).min, np.iinfo(target).min)
    high = min(np.iinfo(source).max, np.iinfo(target).max)
    columns = [np.resize(np.array([low, high, 0, 1, 5], source), 23) for _ in range(width)]
    where = np.array([_address(column) for column in columns], np.uint64), np.arange(width, dtype=np.uint64)
    found, likes = np.empty((23, width), target), (np.empty(0, source), np.empty(0, target))
    row_bytes, to = width * target.itemsize, _address(found)

    def stacked():
        return stack(*where, row_bytes, 0, 23, to, *likes)

    def moved():
        return dealt(where, source, target, 0, np.arange(23, dtype=np.uint32), found, np.empty((10, width), target))

    def scattered():
        return scatter(*where, row_bytes, 0, np.arange(23, dtype=np.uint32), 23, np.array([to]), *likes)

    for write in (stacked, moved, scattered):
        found[...] = 7
        assert write() == 0
        np.testing.assert_array_equal(found, np.stack(columns, 1).astype(target))
        for value in LIMITS[dtypes]:
            for column, row in itertools.product(range(width), range(23)):
                kept, columns[column][row] = columns[column][row], value
                assert write() != 0, (value, column, row)
                columns[column][row] = kept


@pytest.mark.parametrize("dtypes", ["u4 u4", "f8 f4"])
def test_columns_of_several_values_a_row(dtypes):
    source, target = (np.dtype(name) for name in dtypes.split())
    random, first, rows = np.random.default_rng(1), 3, TILE_ROWS + 9
    one, two = (random.integers(0, 100, (first + rows, width)).astype(source) for width in (2, 3))
    columns = [_address(one) + np.uint64(i * source.itemsize) for i in range(2)]
    columns += [_address(two) + np.uint64(i * source.itemsize) for i in range(3)]
    strides, slots = np.array([2, 2, 3, 3, 3], np.uint64), np.array([0, 1, 3, 4, 5], np.uint64)
    found = np.full((rows, 6), 77, target)
    likes = np.empty(0, source), np.empty(0, target)
    given = (np.array(columns), strides, slots, found.strides[0], first, rows, _address(found), *likes)
    assert stack_wide(*given) == 0
    np.testing.assert_array_equal(found[:, [0, 1]], one[first:])
    np.testing.assert_array_equal(found[:, [3, 4, 5]], two[first:])
    assert (found[:, 2] == 77).all()
    if target.itemsize < source.itemsize:
        two[-1, 2] = 1e300
        assert stack_wide(*given) != 0
