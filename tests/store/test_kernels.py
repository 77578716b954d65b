"""What runs over every byte of a store."""

from __future__ import annotations

import numpy as np
import pytest

from rowmill.feed.rows import copy_parts
from rowmill.store.gather import STREAM_BYTES, gather_parts


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _orders(count: int, random: np.random.Generator) -> list[np.ndarray]:
    return [np.arange(count), np.roll(np.arange(count), count // 2), random.permutation(count)]


def _aligned(count: int) -> np.ndarray:
    memory = np.empty(count + 64, np.uint8)
    return memory[-_address(memory) % 64 :][:count]


class Room:
    """Room for rows of each of some parts, a unit after another, each in a piece of memory of its own."""

    def __init__(self, sizes: list[int], unit: int, units: int) -> None:
        self.sizes, self.unit = sizes, unit
        self.pieces = [[_aligned(unit * size) for _ in range(units)] for size in sizes]
        self.targets = np.array([[_address(piece) for piece in pieces] for pieces in self.pieces], np.uint64)

    def rows(self, part: int) -> np.ndarray:
        return np.concatenate([piece.reshape(self.unit, -1) for piece in self.pieces[part]])


def _gather(sources, lines, rows, places, room) -> None:
    sizes = np.array([source.shape[1] * source.itemsize for source in sources])
    begins = np.array([_address(source) for source in sources], np.uint64)
    gather_parts(begins, sizes, np.array(lines), rows, places.astype(np.uint32), room.unit, room.targets)


def _copy(sources, lines, places, room) -> None:
    sizes = np.array([source.shape[1] * source.itemsize for source in sources])
    begins = np.array([_address(source) for source in sources], np.uint64)
    copy_parts(begins, sizes, np.array(lines), places.astype(np.uint32), room.unit, room.targets)


SIZES = [1, 2, 3, 4, 8, 12, 15, 16, 17, 31, 32, 33, 48, 52, 63, 64, 65, 80, 208, 255, 256, 257, 272, 1001, 4096, 20_000]


@pytest.mark.parametrize("row_bytes", SIZES)
def test_rows_of_any_size_come_whole_to_any_place(row_bytes):
    random = np.random.default_rng(row_bytes)
    source = random.integers(0, 256, (1000, row_bytes), np.uint8)
    many = STREAM_BYTES // row_bytes + 3 if row_bytes > 8 else 5000  # so many are written past the cache
    whole = [[0, 0, 0, row_bytes, 1]]
    for count in (1, 2, 100, many):
        room = Room([row_bytes], count // 3 + 1, 3)
        for places in _orders(count, random):
            rows = random.integers(0, len(source), count)
            _gather([source], whole, rows, places, room)
            np.testing.assert_array_equal(room.rows(0)[places], source[rows])
            first = source[np.arange(count) % len(source)]
            _copy([first], whole, places, room)
            np.testing.assert_array_equal(room.rows(0)[places], first)


@pytest.mark.parametrize("sizes", [[1, 1], [52, 4], [4, 52, 8], [16, 32, 2], [104, 3, 300], [8, 40]])
def test_parts_of_a_row_come_to_matrices_of_their_own(sizes):
    """In another order than they stand in, beside a matrix that is one part, and with gaps that belong to nobody."""
    random = np.random.default_rng(sum(sizes))
    rows_there = [
        random.integers(0, 256, (700, sum(sizes) + 5), np.uint8),
        random.integers(0, 256, (700, 24), np.uint8),
    ]
    lines, offset = [[len(sizes), 1, 0, 24, 1]], 0
    for number, size in enumerate(sizes):
        lines.append([len(sizes) - 1 - number, 0, offset, size, 1])
        offset += size
    wanted = [rows_there[1], *(rows_there[0][:, at : at + size] for _, _, at, size, _ in lines[1:])]
    for count in (3, 700, STREAM_BYTES // 40):
        room = Room([*sizes[::-1], 24], count // 2 + 1, 2)
        for places in _orders(count, random):
            rows = random.integers(0, 700, count)
            _gather(rows_there, lines, rows, places, room)
            for line, values in zip(lines, wanted, strict=True):
                np.testing.assert_array_equal(room.rows(line[0])[places], values[rows])
            first = np.arange(count) % 700
            _copy([source[first] for source in rows_there], lines, places, room)
            for line, values in zip(lines, wanted, strict=True):
                np.testing.assert_array_equal(room.rows(line[0])[places], values[first])


@pytest.mark.parametrize("row_bytes", [4, 17, 32, 52, 64, 208, 250, 256, 300, 1040])
def test_no_byte_beside_the_rows_is_touched(row_bytes):
    source = np.full((64, row_bytes), 7, np.uint8)
    room = Room([row_bytes], 40, 1)
    room.pieces[0][0][:] = 0
    _gather([source], [[0, 0, 0, row_bytes, 1]], np.arange(20), np.arange(5, 25), room)
    found = room.rows(0)
    assert (found[5:25] == 7).all()
    assert not found[:5].any()
    assert not found[25:].any()


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 13, 26, 32, 34, 64, 65, 101, 160])
def test_integers_of_four_bytes_become_such_of_eight(width):
    random = np.random.default_rng(width)
    source = random.integers(-(2**31), 2**31, (1000, width), np.int32)
    whole = [[0, 0, 0, 4 * width, 2]]
    for count in (1, 100, STREAM_BYTES // (8 * width) + 3):
        room = Room([8 * width], count, 1)
        for places in _orders(count, random):
            rows = random.integers(0, len(source), count)
            _gather([source], whole, rows, places, room)
            np.testing.assert_array_equal(room.rows(0).view(np.int64)[places], source[rows])
            first = np.ascontiguousarray(source[np.arange(count) % len(source)])
            _copy([first], whole, places, room)
            np.testing.assert_array_equal(room.rows(0).view(np.int64)[places], first)
