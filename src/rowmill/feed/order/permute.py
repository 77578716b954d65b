"""How the rows of a chunk are shuffled: keys made from integers, and the permutations that follow from them.

Comes in: a key (64 bits, made by `key` from seed, epoch and place) and a count. Goes out: where each row goes. The same
key gives the same order on every machine, in every thread and in every release: `VERSION` changes if that ever must.
Called by `plan` and `run.stream`. The numbers are SplitMix64 (a counter put through a mixing function), so there is no
state to carry, to share or to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmill import _native

VERSION = 3

Empty = Callable[[int, Any], Any]

# Each row draws a bin, and each bin is shuffled by itself (Rao-Sandelius shuffle). A bin's places stay in the cache
# while it is shuffled; a Fisher-Yates shuffle of a whole chunk would miss the cache at every step. No more bins than
# the cache has lines for, because rows draw them in turn.
BIN_ROWS = 1024
BINS = 512

EXACT_ROWS = 65_536  # a table of up to this many rows is shuffled in memory
ROUNDS = 6  # of the permutation of a larger one

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
    _native.shuffle(order, key)
    return order


def places(rows: int, key: int, empty: Empty = np.empty) -> NDArray[np.uint32]:
    """For each of `rows` rows its place in a uniformly random order: a Rao-Sandelius shuffle.

    Every row draws a bin. The bins stand one after another, and the rows of each are put in random order (Rao 1961,
    Sandelius 1962). All orders are equally likely. `empty` makes arrays.
    """
    bins = min(BINS, max(1, -(-rows // BIN_ROWS)))
    drawn = empty(-(-rows // 4) * 4, np.uint16)
    shuffled: NDArray[np.uint32] = empty(rows, np.uint32)
    found: NDArray[np.uint32] = empty(rows, np.uint32)
    _native.random_places(found, drawn, shuffled, bins, key)
    return found


def order_within(batch_rows: int, rows: int, key: int) -> NDArray[np.uint32]:
    """For each of `rows` places in batches of `batch_rows`, another place in the same batch, at random."""
    order = np.arange(rows, dtype=np.uint32)
    _native.shuffle_segments(order, batch_rows, key)
    return order


def permuted_rows(first: int, count: int, total: int, key: int) -> NDArray[np.int64]:
    """Rows `first` to `first + count` of a random order of `total` rows, worked out without the others.

    A six-round Feistel permutation on a grid of about sqrt(total) by sqrt(total) cells, with cycle walking for the few
    cells beyond the table. Up to `EXACT_ROWS` rows, all orders are equally likely.
    """
    if total <= EXACT_ROWS:
        return permutation(total, key)[first : first + count].astype(np.int64)
    height = math.isqrt(total - 1) + 1
    width = -(-total // height)
    keys = np.array([_mix_int((key + _STEP * (number + 1)) & _MASK) >> 32 for number in range(ROUNDS)], np.uint32)
    rows = np.empty(count, np.int64)
    _native.feistel_rows(rows, first, total, height, width, keys)
    return rows
