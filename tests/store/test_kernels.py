"""What runs over every byte of a store."""

from __future__ import annotations

import numpy as np
import pytest

from rowmill.feed.rows import copy_rows
from rowmill.store.kernels import STREAM_BYTES, gather_rows


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _orders(count: int, random: np.random.Generator) -> list[np.ndarray]:
    return [np.arange(count), np.roll(np.arange(count), count // 2), random.permutation(count)]


SIZES = [1, 2, 3, 4, 8, 12, 15, 16, 17, 31, 32, 33, 48, 52, 63, 64, 65, 80, 208, 255, 256, 257, 272, 1001, 4096, 20_000]


@pytest.mark.parametrize("row_bytes", SIZES)
def test_rows_of_any_size_come_whole_to_any_place(row_bytes):
    random = np.random.default_rng(row_bytes)
    source = random.integers(0, 256, (1000, row_bytes), np.uint8)
    many = STREAM_BYTES // row_bytes + 3 if row_bytes > 8 else 5000  # so many are written past the cache
    for count in (1, 2, 100, many):
        unit = count // 3 + 1  # so that places are in several pieces of memory
        memory = [np.empty(unit * row_bytes + 64, np.uint8) for _ in range(3)]
        rooms = [given[-_address(given) % 64 :][: unit * row_bytes] for given in memory]
        targets = np.array([_address(room) for room in rooms], np.uint64)
        for places in _orders(count, random):
            rows = random.integers(0, len(source), count)
            gather_rows(np.uint64(_address(source)), row_bytes, 1, rows, places.astype(np.uint32), unit, targets)
            found = np.concatenate([room.reshape(unit, row_bytes) for room in rooms])
            np.testing.assert_array_equal(found[places], source[rows])
            first = source[np.arange(count) % len(source)]
            copy_rows(np.uint64(_address(first)), row_bytes, 1, places.astype(np.uint32), unit, targets)
            found = np.concatenate([room.reshape(unit, row_bytes) for room in rooms])
            np.testing.assert_array_equal(found[places], first)


@pytest.mark.parametrize("row_bytes", [4, 17, 32, 52, 64, 208, 250, 256, 300, 1040])
def test_no_byte_beside_the_rows_is_touched(row_bytes):
    source = np.full((64, row_bytes), 7, np.uint8)
    memory = np.zeros(40 * row_bytes + 64, np.uint8)
    room = memory[-_address(memory) % 64 :][: 40 * row_bytes].reshape(40, row_bytes)
    places = np.arange(5, 25, dtype=np.uint32)
    gather_rows(
        np.uint64(_address(source)), row_bytes, 1, np.arange(20), places, 40, np.array([_address(room)], np.uint64)
    )
    assert (room[5:25] == 7).all()
    assert not room[:5].any()
    assert not room[25:].any()


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 13, 26, 32, 34, 64, 65, 101, 160])
def test_integers_of_four_bytes_become_such_of_eight(width):
    random = np.random.default_rng(width)
    source = random.integers(-(2**31), 2**31, (1000, width), np.int32)
    for count in (1, 100, STREAM_BYTES // (8 * width) + 3):
        memory = np.empty(count * width + 8, np.int64)
        room = memory[-_address(memory) % 64 // 8 :][: count * width].reshape(count, width)
        targets = np.array([_address(room)], np.uint64)
        for places in _orders(count, random):
            rows = random.integers(0, len(source), count)
            gather_rows(
                np.uint64(_address(source)), 4 * width, 2, rows, places.astype(np.uint32), max(1, count), targets
            )
            np.testing.assert_array_equal(room[places], source[rows])
            first = np.ascontiguousarray(source[np.arange(count) % len(source)])
            copy_rows(np.uint64(_address(first)), 4 * width, 2, places.astype(np.uint32), count, targets)
            np.testing.assert_array_equal(room[places], first)
