"""Ranks: equal steps, every row once. Lanes: global batches that do not depend on the number of ranks."""

import itertools
import random

import numpy as np
import pytest
import torch

import rowmill
from rowmill.errors import ArgumentError, StateError
from rowmill.feed.order.plan import Plan
from rowmill.loader.torch import MASK, Loader
from tests.conftest import make_table, write_files
from tests.counts import thorough
from tests.feed.order.test_plan import delivered

SIZES = [1, 2, 3, 4, 6, 8]
LANES = 24


def plans(ranks, **settings):
    settings = {"fragment_rows": (90, 411, 3, 1200, 777), "shuffle": True, "seed": 2, "chunk_batches": 4, **settings}
    return [Plan(batch_rows=48 // ranks, ranks=ranks, rank=rank, lanes=LANES, **settings) for rank in range(ranks)]


def global_batches(ranks, *, shuffle, **settings):
    """The batches of all ranks, joined step by step; the rows of shuffled ones sorted, because their order within a
    batch depends on the number of ranks."""
    each = [delivered(plan, epoch=1)[0] for plan in plans(ranks, shuffle=shuffle, **settings)]
    joined = [[row for part in step for row in part] for step in zip(*each, strict=True)]
    return [sorted(batch) for batch in joined] if shuffle else joined


@pytest.mark.parametrize("last", ["short", "drop"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_sequence_of_global_batches_is_the_same_for_every_number_of_ranks(last, shuffle):
    expected = global_batches(1, last=last, shuffle=shuffle)
    rows = [row for batch in expected for row in batch]
    assert len(set(rows)) == len(rows) == (2481 if last == "short" else 2481 // 48 * 48)
    for ranks in (2, 3, 4, 6, 8, 12, 24):
        assert global_batches(ranks, last=last, shuffle=shuffle) == expected


def loaders(folder, ranks, **settings):
    data = rowmill.Dataset(folder)
    return [
        Loader(data, 48 // ranks, columns=["id"], shuffle=True, elastic=LANES, global_size=ranks, global_rank=r,
               memory="200KB", **settings)
        for r in range(ranks)
    ]  # fmt: skip


def steps(group):
    """Global batches as they come: the rows of each, sorted."""
    for parts in zip(*group, strict=True):
        yield sorted(row for features, _ in parts for row in features["id"].tolist())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elastic")
    write_files(folder, make_table(2400 + 30), files=3, row_group=70)
    return folder


def test_a_state_saved_with_some_ranks_resumes_with_others(table):
    """All ordered pairs of sizes, at several cuts: global batches go on in the same sequence, with the same rows."""
    expected = list(steps(loaders(table, 1)))
    assert sorted(row for batch in expected for row in batch) == list(range(2430))
    rng = random.Random(3)
    for before, after in itertools.permutations(SIZES, 2):
        cut = rng.randrange(1, len(expected))
        group = loaders(table, before)
        first = list(itertools.islice(steps(group), cut))
        state = group[0].state_dict()
        group = loaders(table, after)
        for loader in group:
            loader.load_state_dict(state)
        assert first + list(steps(group)) == expected, (before, after, cut)


def test_chains_of_three_sizes(table):
    expected = list(steps(loaders(table, 1)))
    rng = random.Random(4)
    for _ in range(thorough(5, 40)):
        found, state = [], None
        cuts = [0, *sorted(rng.sample(range(1, len(expected)), 2)), len(expected)]
        for (a, b), ranks in zip(itertools.pairwise(cuts), rng.choices(SIZES, k=3), strict=True):
            group = loaders(table, ranks)
            if state is not None:
                for loader in group:
                    loader.load_state_dict(state)
            found += list(itertools.islice(steps(group), b - a))
            state = group[0].state_dict()
        assert found == expected


def test_a_batch_mixes_the_rows_of_all_its_lanes():
    """On one rank a batch has two rows of each of 24 lanes: no place in it belongs to a lane."""
    plan = plans(1, fragment_rows=(100,) * 48)[0]
    line, ends = plan._row_sequence(1)
    lane_of = {}
    for lane, (start, rows) in enumerate(plan.shares):
        for row in range(start, start + rows):
            place = int(np.searchsorted(ends, row, "right"))
            fragment = int(line[place])
            lane_of[fragment, row - (ends[place] - 100)] = lane
    batches = np.array([[lane_of[row] for row in batch] for batch in delivered(plan, epoch=1)[0]])
    assert (np.sort(batches, axis=1) == np.repeat(np.arange(24), 2)).all()
    assert abs(batches.mean(axis=0) - 11.5).max() < 5 * 6.92 / np.sqrt(len(batches))  # at every place, all lanes


def test_sizes_that_do_not_divide_are_refused_at_once(table):
    data = rowmill.Dataset(table)
    for ranks, batch in ((5, 48), (7, 48), (2, 25)):
        with pytest.raises(ArgumentError, match="elastic=24"):
            Loader(data, batch, elastic=LANES, global_size=ranks, global_rank=0)
    state = loaders(table, 2)[0].state_dict()
    with pytest.raises(StateError, match="elastic"):
        Loader(data, 24, columns=["id"], shuffle=True, global_size=2, global_rank=0, memory="200KB").load_state_dict(
            state
        )


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 48, 50, 97])
def test_padding_is_marked_counted_and_equal_in_shape(tmp_path, ranks, rows):
    write_files(tmp_path, make_table(rows), files=2, row_group=5)
    data, seen, lengths, padding = rowmill.Dataset(tmp_path), [], set(), 0
    for rank in range(ranks):
        loader = Loader(data, 6, columns=["id", "x1"], last="pad", shuffle=True, global_size=ranks, global_rank=rank)
        batches = list(loader)
        lengths.add(len(batches))
        for features, _ in batches:
            assert len(features["id"]) == len(features[MASK]) == 6
            assert (features["x1"][~features[MASK]] == 0).all()
            seen += features["id"][features[MASK]].tolist()
        padding += loader.stats().padding_rows
        assert loader.num_rows_processed == loader._stream.plan().rows
    assert sorted(seen) == list(range(rows))
    assert len(lengths) == 1
    assert padding == lengths.pop() * 6 * ranks - rows


def test_a_rank_without_a_row_takes_the_last_step_with_one_that_is_marked(tmp_path):
    write_files(tmp_path, make_table(10), files=1)
    data = rowmill.Dataset(tmp_path)
    group = [Loader(data, 2, columns=["id"], shuffle=True, global_size=4, global_rank=r) for r in range(4)]
    lengths = []
    for loader in group:
        for features, _ in loader:
            lengths.append((loader.global_rank, len(features["id"]), loader.padding))
    assert [x for x in lengths if x[2]] == [(2, 1, 1), (3, 1, 1)]
    assert sum(n - p for _, n, p in lengths) == 10


def test_lists_and_strings_in_padded_batches(tmp_path):
    import polars as pl

    write_files(tmp_path, pl.DataFrame({"l": [[1], [2, 3], []], "s": ["a", "b", "c"]}), files=1)
    features, _ = next(iter(Loader(rowmill.Dataset(tmp_path), 5, last="pad")))
    assert features["l__offsets"].tolist() == [0, 1, 3, 3, 3, 3] and features["s"].tolist() == [
        "a",
        "b",
        "c",
        None,
        None,
    ]
    assert features[MASK].tolist() == [True, True, True, False, False]
    assert torch.equal(features["l__values"], torch.tensor([1, 2, 3]))


def test_uneven_row_groups_on_more_ranks_than_there_are(tmp_path):
    frame = make_table(1003)
    folder = tmp_path / "t"
    folder.mkdir()
    frame.slice(0, 1000).write_parquet(folder / "a.parquet", row_group_size=1000)
    frame.slice(1000, 3).write_parquet(folder / "b.parquet", row_group_size=1)
    seen, counts = [], set()
    for rank in range(8):
        loader = Loader(rowmill.Dataset(folder), 10, columns=["id"], shuffle=True, global_size=8, global_rank=rank)
        rows = [f["id"].numpy()[: len(f["id"]) - loader.padding] for f, _ in loader]
        counts.add(len(rows))
        seen += np.concatenate(rows).tolist()
    assert sorted(seen) == list(range(1003)) and len(counts) == 1
