"""From columns to rows, value by value."""

from __future__ import annotations

import numpy as np
import pytest

from rowmill.feed.kernels import TILE_ROWS, scatter, stack


def _address(array: np.ndarray) -> np.uint64:
    return np.uint64(array.__array_interface__["data"][0])


@pytest.mark.parametrize(
    "slots", [[0], [0, 1, 2, 3], [1, 2, 3, 4, 5, 6, 7], [0, 2, 4, 6], [0, 1, 2, 3, 5, 6, 7, 8, 10]]
)
@pytest.mark.parametrize("dtypes", ["u1 u1", "u2 u2", "u4 u4", "u8 u8", "f4 f4", "i4 i8", "i8 i4", "f8 f4"])
def test_every_value_comes_to_its_row_and_slot(dtypes, slots):
    source, target = (np.dtype(name) for name in dtypes.split())
    random, width, first = np.random.default_rng(len(slots)), slots[-1] + 2, 5
    for rows in (1, 3, 4, 6, TILE_ROWS, 2 * TILE_ROWS + 7):
        columns = [random.integers(0, 100, first + rows).astype(source) for _ in slots]
        where = np.array([_address(column) for column in columns], np.uint64), np.array(slots, np.uint64)
        likes = np.empty(0, source), np.empty(0, target)
        wanted = np.full((rows, width), 77, target)
        wanted[:, slots] = np.stack([column[first:] for column in columns], 1)
        found = np.full_like(wanted, 77)
        stack(*where, width * target.itemsize, first, rows, _address(found), *likes)
        np.testing.assert_array_equal(found, wanted)
        places, found = random.permutation(rows).astype(np.uint32), np.full_like(wanted, 77)
        targets = np.array([_address(found)], np.uint64)
        scatter(*where, width * target.itemsize, first, places, rows, targets, *likes)
        np.testing.assert_array_equal(found[places], wanted)
