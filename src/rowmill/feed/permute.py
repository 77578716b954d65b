"""Randomness without a generator: keys made from integers, and the permutations those keys stand for.

Comes in: a key (64 bits, made by `key` from seed, epoch and place) and a count. Goes out: where each row goes. The same
key gives the same order on every machine, in every thread and in every release: `VERSION` changes if that ever must.
Called by `plan` and `stream`. The numbers are SplitMix64 (a counter put through a mixing function), so there is no
state to carry, to share or to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

VERSION = 3

Empty = Callable[[int, Any], Any]

# Each row draws a bin, and each bin is shuffled by itself (Rao-Sandelius shuffle). A bin's places stay in the cache
# while it is shuffled; a Fisher-Yates shuffle of a whole chunk would miss the cache at every step. No more bins than
# the cache has lines for, because rows draw them in turn.
BIN_ROWS = 1024
BINS = 512

EXACT_ROWS = 65_536  # a table of up to so many rows is shuffled in memory
TURNS = 6  # of a larger one, as `_turn` spells them out
TILE_PLACES = 1024  # that are worked out together

_STEP = 0x9E3779B97F4A7C15
_MUL1 = 0xBF58476D1CE4E5B9
_MUL2 = 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def key(*numbers: int) -> int:
    """One 64-bit key from any integers; near numbers give unrelated keys."""
    state = 0
    for number in numbers:
        state = _mix_int((state + _STEP + number) & _MASK)
    return state


def _mix_int(x: int) -> int:
    x = ((x ^ (x >> 30)) * _MUL1) & _MASK
    x = ((x ^ (x >> 27)) * _MUL2) & _MASK
    return x ^ (x >> 31)


def permutation(count: int, key: int) -> NDArray[np.uint32]:
    """A uniformly random order of `count` things."""
    order = np.arange(count, dtype=np.uint32)
    _shuffle(order, np.uint64(key))
    return order


def places(rows: int, key: int, empty: Empty = np.empty) -> NDArray[np.uint32]:
    """For each of `rows` rows its place in a uniformly random order: a Rao-Sandelius shuffle.

    Every row draws a bin. The bins stand one after another, and the rows of each are put in random order (Rao 1961,
    Sandelius 1962). All orders are equally likely. `empty` makes arrays.
    """
    bins = min(BINS, max(1, -(-rows // BIN_ROWS)))
    drawn = empty(-(-rows // 4) * 4, np.uint16)
    _draw(drawn, bins, np.uint64(key))
    shuffled: NDArray[np.uint32] = empty(rows, np.uint32)
    found: NDArray[np.uint32] = empty(rows, np.uint32)
    _place(found, drawn, shuffled, bins, np.uint64(key))
    return found


def order_within(batch_rows: int, rows: int, key: int) -> NDArray[np.uint32]:
    """For each of `rows` places in batches of `batch_rows`, another place in the same batch, at random."""
    order = np.arange(rows, dtype=np.uint32)
    _shuffle_batches(order, batch_rows, np.uint64(key))
    return order


def line(first: int, count: int, total: int, key: int) -> NDArray[np.int64]:
    """Rows `first` to `first + count` of a random order of `total` rows, worked out without the others.

    A table is a rectangle of about sqrt(total) by sqrt(total) places; in turn, rows and columns of it are moved by an
    amount drawn from the other coordinate, and the few places beyond the table are moved on until they are within. Up
    to `EXACT_ROWS` all orders are equally likely.
    """
    if total <= EXACT_ROWS:
        return permutation(total, key)[first : first + count].astype(np.int64)
    height = math.isqrt(total - 1) + 1
    width = -(-total // height)
    keys = tuple(np.uint32(_mix_int((key + _STEP * (turn + 1)) & _MASK) >> 32) for turn in range(TURNS))
    rows = np.empty(count, np.int64)
    _line(rows, first, total, height, width, keys)
    return rows


@njit(nogil=True, cache=True)
def _line(rows: Any, first: Any, total: Any, height: Any, width: Any, keys: Any) -> None:
    top, left, done = first // width, first % width, 0
    while done < rows.size:
        count = min(rows.size - done, width - left)
        _turn(rows[done : done + count], top, left, height, width, keys)
        top, left, done = top + 1, 0, done + count
    for i in range(rows.size):
        while rows[i] >= total:
            _turn(rows[i : i + 1], rows[i] // width, rows[i] % width, height, width, keys)


@njit(nogil=True, cache=True)
def _turn(rows: Any, top: Any, left: Any, height: Any, width: Any, keys: Any) -> None:
    """Where the places right of (top, left) go. Tile by tile, turn by turn, so that eight are worked out at once."""
    a, b, c, d, e, f = keys
    tile = min(TILE_PLACES, rows.size)
    y, x = np.empty(tile, np.uint32), np.empty(tile, np.uint32)
    for start in range(0, rows.size, tile):
        count = min(tile, rows.size - start)
        for i in range(count):
            y[i], x[i] = np.uint32(top), np.uint32(left + start + i)
        _move(y, x, a, height, count)
        _move(x, y, b, width, count)
        _move(y, x, c, height, count)
        _move(x, y, d, width, count)
        _move(y, x, e, height, count)
        _move(x, y, f, width, count)
        for i in range(count):
            rows[start + i] = np.int64(np.uint64(y[i]) * np.uint64(width) + np.uint64(x[i]))


@njit(nogil=True, cache=True)
def _move(places: Any, others: Any, key: Any, below: Any, count: Any) -> None:
    """Move coordinates on, around the end, by amounts below `below` (31 bits) that are drawn from the others."""
    limit = np.uint32(below)
    for i in range(count):
        z = np.uint32(np.uint32(others[i] ^ key) * np.uint32(0x85EBCA6B))
        z = np.uint32(np.uint32(z ^ (z >> np.uint32(15))) * np.uint32(0xC2B2AE35))
        moved = np.uint32(places[i] + np.uint32((np.uint64(z) * np.uint64(limit)) >> np.uint64(32)))
        places[i] = min(moved, np.uint32(moved - limit))  # the second is huge if it would be negative


@njit(nogil=True, cache=True)
def _shuffle(items: Any, key: Any) -> None:  # Fisher-Yates; the draw has 53 random bits, so its bias is below 2^-21
    x = key
    for i in range(items.size - 1, 0, -1):
        x += np.uint64(0x9E3779B97F4A7C15)
        z = _mix(x)
        j = np.int64(np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0) * (i + 1))
        items[i], items[j] = items[j], items[i]


@njit(nogil=True, cache=True)
def _draw(drawn: Any, bins: Any, key: Any) -> None:
    """Numbers below `bins` (16 bits), four from each mixing."""
    below, low = np.uint64(bins), np.uint64(0xFFFF)
    for i in range(drawn.size // 4):
        z = _mix(key + np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15))
        drawn[4 * i] = ((z & low) * below) >> np.uint64(16)
        drawn[4 * i + 1] = (((z >> np.uint64(16)) & low) * below) >> np.uint64(16)
        drawn[4 * i + 2] = (((z >> np.uint64(32)) & low) * below) >> np.uint64(16)
        drawn[4 * i + 3] = ((z >> np.uint64(48)) * below) >> np.uint64(16)


@njit(nogil=True, cache=True)
def _place(places: Any, drawn: Any, shuffled: Any, bins: Any, key: Any) -> None:
    """Put the places of each bin in random order into `shuffled`, and give them to the rows that drew the bin."""
    next_place = np.zeros(bins + 1, np.uint32)
    for row in range(places.size):
        next_place[drawn[row] + 1] += np.uint32(1)
    for number in range(bins):
        first, last = next_place[number], next_place[number] + next_place[number + 1]
        for place in range(first, last):
            shuffled[place] = place
        _shuffle(shuffled[first:last], _mix(key ^ np.uint64(number + 1)))
        next_place[number + 1] = last
    for row in range(places.size):
        bin_drawn = drawn[row]
        places[row] = shuffled[next_place[bin_drawn]]
        next_place[bin_drawn] += np.uint32(1)


@njit(nogil=True, cache=True)
def _shuffle_batches(order: Any, batch_rows: Any, key: Any) -> None:
    for batch in range(-(-order.size // batch_rows)):
        _shuffle(order[batch * batch_rows : (batch + 1) * batch_rows], _mix(key ^ np.uint64(batch + 1)))


@njit(nogil=True, cache=True)
def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
