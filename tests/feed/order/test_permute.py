import hashlib

import numpy as np
import pytest

from rowmill.feed.order import permute


def digest(array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).astype("<u4").tobytes()).hexdigest()[:16]


# The order is a promise: if one of these changes, permute.VERSION must change with it and the old order stay readable.
GOLDEN_PERMUTATIONS = {
    (0, 0): "e3b0c44298fc1c14",
    (0, 1): "e3b0c44298fc1c14",
    (0, 9223372036854775808): "e3b0c44298fc1c14",
    (1, 0): "df3f619804a92fdb",
    (1, 1): "df3f619804a92fdb",
    (1, 9223372036854775808): "df3f619804a92fdb",
    (10, 0): "c1a3d59ef323215c",
    (10, 1): "cec75b9d9d12ebf6",
    (10, 9223372036854775808): "d10c49f2b143d2d5",
    (10007, 0): "716f390cf4a1379d",
    (10007, 1): "f4cc4aa5693b4eb1",
    (10007, 9223372036854775808): "972011665153f5d8",
    (1000003, 0): "292a905eed787af3",
    (1000003, 1): "7c6ac80db8b10efa",
    (1000003, 9223372036854775808): "b30c297ee64007c9",
}
GOLDEN_LINE = [
    [8, 3, 6, 5, 4],
    [98591, 71290, 19312, 2524, 31538],
    [444082223254, 39633139723, 1088046480460, 859924652950, 1045752531747],
]
GOLDEN_PLACES = {
    10: "f5a1bf21d9c21210",
    10007: "ecf1d074c664fcc3",
    1000003: "bc2e11c96fe7be3f",
}
SMALL = [4, 1, 9, 2, 5, 8, 0, 7, 3, 6]


@pytest.mark.parametrize(("count", "seed"), GOLDEN_PERMUTATIONS)
def test_permutations_are_pinned(count, seed):
    assert digest(permute.permutation(count, permute.key(seed, 0))) == GOLDEN_PERMUTATIONS[count, seed]


@pytest.mark.parametrize("rows", GOLDEN_PLACES)
def test_places_are_pinned(rows):
    assert digest(permute.places(rows, permute.key(1, 2, 3))) == GOLDEN_PLACES[rows]


def test_small_permutation_in_the_open():
    assert permute.permutation(10, permute.key(7, 0)).tolist() == SMALL


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_permutation_has_everything_once(count):
    assert sorted(permute.permutation(count, 5).tolist()) == list(range(count))


@pytest.mark.parametrize("rows", [0, 1, 10, 1023, 1024, 1025, 5000, 100_000])
def test_every_row_has_a_place_of_its_own(rows):
    assert sorted(permute.places(rows, 9).tolist()) == list(range(rows))


def test_every_row_is_equally_likely_at_every_place():
    """Over 4,000 keys and 30 rows, chi-squared within five standard deviations."""
    rows, keys = 30, 4000
    counts = np.zeros((rows, rows))
    for number in range(keys):
        counts[np.arange(rows), permute.places(rows, permute.key(number))] += 1
    chi2 = ((counts - keys / rows) ** 2 / (keys / rows)).sum()
    freedom = (rows - 1) ** 2
    assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)


def test_every_part_of_a_chunk_is_equally_likely_in_every_batch():
    """With several bins, which batches cut: over 300 keys, chi-squared within five standard deviations."""
    rows, batch, keys = 5000, 700, 300
    counts = np.zeros((rows, 8))
    for number in range(keys):
        counts[np.arange(rows), permute.places(rows, permute.key(7, number)) // batch] += 1
    expected = keys * np.array([700] * 7 + [100]) / rows
    freedom = (rows - 1) * 7
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize(("rows", "batch"), [(900, 64), (20_000, 5000), (20_000, 1000), (300_000, 65_536)])
def test_rows_of_a_batch_stand_in_random_order(rows, batch):
    """Half of all neighbours ascend, and no row's place in its batch follows from its place in the table."""
    origin = np.empty(rows, np.int64)
    origin[permute.places(rows, permute.key(3, rows))] = np.arange(rows)
    for start in range(0, rows - batch + 1, batch):
        own = origin[start : start + batch]
        ascending = (np.diff(own) > 0).mean()
        assert abs(ascending - 0.5) < 5 / np.sqrt(3 * batch)  # the deviation of a random order, about
        assert abs(np.corrcoef(own, np.arange(batch))[0, 1]) < 5 / np.sqrt(batch)


def test_order_within_moves_rows_only_inside_their_batch():
    order = permute.order_within(100, 950, 5)
    assert (order // 100 == np.arange(950) // 100).all()
    assert sorted(order.tolist()) == list(range(950))
    assert (order == np.arange(950)).mean() < 0.05


def test_all_orders_of_four_are_equally_likely():
    seen = {}
    for number in range(24_000):
        order = tuple(permute.permutation(4, permute.key(number)).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert sum((n - 1000) ** 2 / 1000 for n in seen.values()) < 62  # 23 degrees of freedom, 99.998%


def test_near_keys_are_unrelated():
    keys = {permute.key(seed, epoch, row) for seed in range(20) for epoch in range(20) for row in range(20)}
    assert len(keys) == 8000
    assert permute.key(0, 1) != permute.key(1, 0)


def test_no_global_random_state_is_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    permute.permutation(100, 1)
    permute.places(100, 1)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize("total", [1, 2, 10, 65_536, 65_537, 70_000, 1_000_003])
def test_a_line_is_a_permutation(total):
    whole = permute.permuted_rows(0, total, total, 12345)
    assert np.array_equal(np.sort(whole), np.arange(total))
    middle = permute.permuted_rows(total // 3, total // 2, total, 12345)
    assert np.array_equal(middle, whole[total // 3 : total // 3 + total // 2])
    if total > 10:
        assert not np.array_equal(whole, permute.permuted_rows(0, total, total, 12346))


@pytest.mark.parametrize("total", [2**31 + 7, 2**40 + 1, 2**62])
def test_a_line_has_no_limit(total):
    for first in (0, min(2**31 - 5, total - 1000), total - 1000):
        rows = permute.permuted_rows(first, 1000, total, 7)
        assert rows.min() >= 0 and rows.max() < total and len(np.unique(rows)) == 1000
        assert abs(rows.mean() / total - 0.5) < 0.06  # 6 standard deviations


def test_a_line_looks_random():
    total, batch = 1_000_003, 10_000
    rows = permute.permuted_rows(0, total, total, 99)
    means = rows[: 100 * batch].reshape(100, batch).mean(1)
    deviation = total / np.sqrt(12 * batch)
    assert abs(means.std() / deviation - 1) < 0.3
    step = np.diff(rows)
    assert abs(np.abs(step).mean() / (total / 3) - 1) < 0.01
    assert len(np.unique(step)) > 0.6 * total * (1 - 1 / np.e)  # no favourite distance between neighbours
    other = permute.permuted_rows(0, total, total, 100)
    assert (rows == other).sum() < 10  # one on average
    corner = np.histogram2d(np.arange(total) % 1001, rows % 1001, bins=7)[0]
    assert abs(corner / corner.mean() - 1).max() < 0.05


def test_lines_of_many_keys_are_as_random_as_permutations():
    """Rows that stay where they were, neighbours that stay neighbours, and which tenth goes to which tenth."""
    total, keys = 100_000, 100
    places = np.arange(total)
    fixed = neighbours = spread = 0.0
    for number in range(keys):
        rows = permute.permuted_rows(0, total, total, permute.key(0, number))
        fixed += (rows == places).sum() / keys
        neighbours += (np.abs(np.diff(rows)) == 1).sum() / keys
        tenths = np.bincount(places * 10 // total * 10 + rows * 10 // total, minlength=100)
        spread += ((tenths - total / 100) ** 2 / (total / 100)).sum() / keys
    assert abs(fixed - 1) < 0.5  # five standard deviations, here and below
    assert abs(neighbours - 2) < 0.7
    assert abs(spread - 81) < 6.4


def test_golden_line():
    found = [permute.permuted_rows(0, 5, total, 42).tolist() for total in (10, 100_000, 2**40)]
    assert found == GOLDEN_LINE
