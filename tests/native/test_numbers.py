"""Random orders, exact sums, hash tables and hashes, compared with Python's own whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from rowmill import _native
from rowmill._native import reference

KEYS = [0, 1, 12345, 2**63, 2**64 - 1]


@pytest.mark.parametrize("key", KEYS)
def test_shuffles(key):
    for count in (0, 1, 2, 7, 300):
        found, wanted = (np.arange(count, dtype=np.uint32) for _ in range(2))
        _native.shuffle(found, key)
        reference.shuffle(wanted, key)
        np.testing.assert_array_equal(found, wanted)
        for segment in (1, 3, 299, 300, 500):
            found, wanted = (np.arange(count, dtype=np.uint32) for _ in range(2))
            _native.shuffle_segments(found, segment, key)
            reference.shuffle_segments(wanted, segment, key)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("key", KEYS)
def test_random_places(key):
    for rows, bins in ((0, 1), (1, 1), (5, 2), (403, 7), (1000, 512)):
        found, wanted = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
        _native.random_places(found, np.empty(-(-rows // 4) * 4, np.uint16), np.empty(rows, np.uint32), bins, key)
        reference.random_places(wanted, bins, key)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("total", "height", "width"), [(1, 1, 1), (90, 10, 10), (97, 10, 10), (100, 10, 10), (2**40, 2**20, 2**20)]
)
def test_feistel_rows(total, height, width):
    keys = np.array([1, 2**32 - 1, 77, 0, 5, 123456789], np.uint32)
    for first in {0, total // 3, max(0, total - 50)}:
        found = np.empty(min(50, total - first), np.int64)
        wanted = found.copy()
        _native.feistel_rows(found, first, total, height, width, keys)
        reference.feistel_rows(wanted, first, total, height, width, keys)
        np.testing.assert_array_equal(found, wanted)


def whole(digits):
    return sum(digit << (32 * position) for position, digit in enumerate(digits.tolist()))


@pytest.mark.parametrize("kind", ["i8", "u8", "f8"])
def test_sums_are_exact(kind):
    random = np.random.default_rng(3)
    some = {
        "i8": [0, 1, -1, 2**63 - 1, -(2**63), 12345],
        "u8": [0, 1, 2**64 - 1, 2**63],
        "f8": [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7e308, 0.1, 1e-310, np.nan, np.inf, -np.inf, 3.5],
    }[kind]
    values = np.array(some, kind)[random.integers(0, len(some), 200)]
    low, high = np.zeros(72, np.int64), np.zeros(138, np.int64)
    finite, infinite = _native.add_powers(values, low, high)
    assert (whole(low), whole(high), finite, infinite) == reference.power_sums(values)


def test_counts():
    random = np.random.default_rng(4)
    values = np.concatenate([random.integers(-9, 9, 500), [2**63 - 1, -(2**63), 0, 0]])
    keys, counts = np.empty(64, np.int64), np.zeros(64, np.int64)
    stopped, used = _native.count_into(values, 3, keys, counts, 0, 32)
    wanted = dict(zip(*(each.tolist() for each in np.unique(values[3:], return_counts=True)), strict=True))
    assert stopped == len(values) and used == len(wanted)
    assert {int(k): int(n) for k, n in zip(keys, counts, strict=True) if n} == wanted
    stopped, used = _native.count_into(values, 0, np.empty(64, np.int64), np.zeros(64, np.int64), 0, 5)
    assert used == 5 and len(np.unique(values[:stopped])) == 5 and values[stopped] not in values[:stopped]
    more, room = np.empty(128, np.int64), np.zeros(128, np.int64)
    assert _native.put_counts(keys, counts, more, room) == len(wanted)
    assert _native.put_counts(keys, counts, more, room) == 0
    assert {int(k): int(n) for k, n in zip(more, room, strict=True) if n} == {k: 2 * n for k, n in wanted.items()}


@pytest.mark.parametrize("keys", [[], [7], [0, -1, 5, 2**31 - 1, -(2**31)], list(range(-500, 500, 3))])
def test_places_of_keys(keys):
    asked = np.array([*keys, 1, -2, 2**31 - 2, 2**32 + 7, 2**63 - 1], np.int64)
    wanted = [keys.index(value) if value in keys else -1 for value in asked.tolist()]
    slots = 1 << max(4, (2 * len(keys) - 1).bit_length())
    narrow, wide = np.zeros(slots, np.int64), np.zeros(2 * slots, np.int64)
    _native.build_narrow_index(np.array(keys, np.int64), narrow)
    _native.build_wide_index(np.array(keys, np.int64), wide)
    for find, index in ((_native.find_narrow, narrow), (_native.find_wide, wide)):
        found = np.empty(len(asked), np.int32)
        find(asked, index, found)
        assert found.tolist() == wanted


def test_hashes_and_folds():
    random = np.random.default_rng(5)
    values = random.integers(-(2**63), 2**63 - 1, 50)
    strings = [random.bytes(n) for n in (*range(20), 100, 0)]
    offsets = np.cumsum([0, *map(len, strings)])
    for seed in (0, 2**64 - 1):
        found, wanted = (np.full(50, seed, np.uint64) for _ in range(2))
        _native.hash_numbers(values, found)
        reference.hash_numbers(values, wanted)
        np.testing.assert_array_equal(found, wanted)
        found, wanted = (np.full(len(strings), seed, np.uint64) for _ in range(2))
        _native.hash_bytes(offsets, np.frombuffer(b"".join(strings), np.uint8), found)
        reference.hash_bytes(strings, wanted)
        np.testing.assert_array_equal(found, wanted)
        drawn = np.empty(50, np.uint8)
        _native.draw_folds(np.arange(50), seed, 5, drawn)
        assert drawn.tolist() == reference.draw_folds(np.arange(50), seed, 5)


def test_inner_products_of_sparse_rows():
    random = np.random.default_rng(6)
    a, b = (np.where(random.random((9, 12)) < 0.4, random.integers(1, 9, (9, 12)), 0).astype(float) for _ in range(2))

    def sparse(dense):
        rows, columns = np.nonzero(dense)
        return np.searchsorted(rows, np.arange(10)).astype(np.int64), columns.astype(np.int64), dense[rows, columns]

    left, right = random.integers(-2, 11, 100), random.integers(-2, 11, 100)
    products = np.empty(100)
    _native.dot_rows(left, right, *sparse(a), *sparse(b), products)
    inside = [0 <= i < 9 and 0 <= j < 9 for i, j in zip(left, right, strict=True)]
    wanted = [a[i] @ b[j] if ok else 0.0 for i, j, ok in zip(left, right, inside, strict=True)]
    assert products.tolist() == wanted


SPARSE = np.array([0, 3]), np.arange(3), np.ones(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native.random_places(np.empty(5, "u4"), np.empty(5, "u2"), np.empty(5, "u4"), 1, 0),
        lambda: _native.random_places(np.empty(5, "u4"), np.empty(8, "u2"), np.empty(4, "u4"), 1, 0),
        lambda: _native.random_places(np.empty(5, "u4"), np.empty(8, "u2"), np.empty(5, "u4"), 0, 0),
        lambda: _native.shuffle_segments(np.empty(5, "u4"), 0, 0),
        lambda: _native.feistel_rows(np.empty(5, np.int64), 96, 100, 10, 10, np.zeros(6, "u4")),
        lambda: _native.feistel_rows(np.empty(5, np.int64), 0, 101, 10, 10, np.zeros(6, "u4")),
        lambda: _native.feistel_rows(np.empty(5, np.int64), 0, 100, 10, 10, np.zeros(5, "u4")),
        lambda: _native.add_powers(np.zeros(3), np.zeros(71, np.int64), np.zeros(138, np.int64)),
        lambda: _native.add_powers(np.zeros(3, "f4"), np.zeros(72, np.int64), np.zeros(138, np.int64)),
        lambda: _native.count_into(np.arange(9), 0, np.zeros(12, np.int64), np.zeros(12, np.int64), 0, 3),
        lambda: _native.count_into(np.arange(9), 0, np.zeros(8, np.int64), np.zeros(8, np.int64), 0, 8),
        lambda: _native.put_counts(np.arange(9), np.ones(9, np.int64), np.zeros(8, np.int64), np.zeros(8, np.int64)),
        lambda: _native.build_narrow_index(np.arange(16), np.zeros(16, np.int64)),
        lambda: _native.build_wide_index(np.arange(8), np.zeros(16, np.int64)),
        lambda: _native.hash_bytes(np.array([0, 4]), np.zeros(3, np.uint8), np.zeros(1, np.uint64)),
        lambda: _native.hash_bytes(np.array([2, 1]), np.zeros(3, np.uint8), np.zeros(1, np.uint64)),
        lambda: _native.draw_folds(np.arange(3), 0, 0, np.zeros(3, np.uint8)),
        lambda: _native.dot_rows(
            np.zeros(1, int), np.zeros(1, int), *SPARSE, np.array([0, 5]), *SPARSE[1:], np.empty(1)
        ),
    ],
)
def test_wrong_shapes_and_sizes_are_refused(call):
    with pytest.raises(ValueError):
        call()
