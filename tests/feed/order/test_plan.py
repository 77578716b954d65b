import hashlib
import itertools
import random

import numpy as np
import pytest

from rowmill.errors import ArgumentError
from rowmill.feed.order.plan import Plan
from rowmill.feed.run.pipeline import tasks


def delivered(plan: Plan, epoch: int = 0) -> tuple[list[list[tuple[int, int]]], int]:
    """The batches of an epoch as (fragment, row) pairs, worked out from the plan alone, and the padding rows."""
    batches, padding = [], 0
    for chunk in plan.chunks(epoch):
        rows = [(span.fragment, span.start + i) for span in chunk.spans for i in range(span.rows)]
        assert len(rows) == chunk.rows
        placed: list = [None] * (chunk.rows + chunk.padding)
        for row, place in zip(rows, chunk.places().tolist(), strict=True):
            placed[place] = row
        assert chunk.first_batch == len(batches)
        cut = [placed[i * chunk.batch_rows : (i + 1) * chunk.batch_rows] for i in range(chunk.batches)]
        batches += [[row for row in batch if row is not None] for batch in cut]
        padding += chunk.padding
    return batches, padding


def cases():
    rng = random.Random(5)
    sizes = [0, 1, 2, 7, 8, 9, 97, 256, 1000]
    for ranks, total, drop, shuffle in itertools.product(range(1, 9), sizes, (False, True), (False, True)):
        files = rng.choice([1, 3, ranks + 1])
        cuts = sorted(rng.randint(0, total) for _ in range(files - 1))
        rows = tuple(b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True))
        yield rows, ranks, rng.choice([1, 3, 16, 100]), drop, shuffle


def test_every_row_once_and_equal_steps_on_all_ranks():
    count = 0
    for rows, ranks, batch, drop, shuffle in cases():
        plans = [
            Plan(
                rows,
                batch,
                chunk_batches=5,
                shuffle=shuffle,
                seed=3,
                last="drop" if drop else "short",
                ranks=ranks,
                rank=rank,
            )
            for rank in range(ranks)
        ]
        seen, steps = [], set()
        for plan in plans:
            batches, padding = delivered(plan, epoch=2)
            steps.add(len(batches))
            assert len(batches) == plan.steps
            assert all(len(b) == batch for b in batches[: plan.whole_steps])
            assert padding == plan.padding
            assert padding == 0 or batches[-1] == [], "a rank without a row left repeats none, but marks one"
            assert sum(map(len, batches)) == plan.rows
            seen += [row for b in batches for row in b]
        assert len(steps) == 1, "ranks with different numbers of steps freeze distributed training"
        every = [(f, i) for f, n in enumerate(rows) for i in range(n)]
        if drop:
            assert len(seen) == len(set(seen)) == sum(rows) // (batch * ranks) * batch * ranks
            assert set(seen) <= set(every)
        else:
            assert sorted(seen) == every
        count += 1
    assert count == 288


def test_unshuffled_is_table_order():
    batches, _ = delivered(Plan((10, 0, 7, 5), 4, chunk_batches=2))
    assert [row for b in batches for row in b] == [(f, i) for f, n in ((0, 10), (2, 7), (3, 5)) for i in range(n)]


def test_epochs_differ_tails_and_last_batch_included():
    plan = Plan((50,) * 21 + (33,), 64, chunk_batches=4, shuffle=True, seed=1)
    lasts = {tuple(delivered(plan, epoch)[0][-1]) for epoch in range(20)}
    firsts = {tuple(delivered(plan, epoch)[0][0]) for epoch in range(20)}
    assert len(lasts) == len(firsts) == 20
    in_last = {row for batch in lasts for row in batch}
    assert len({fragment for fragment, _ in in_last}) > 10  # not always the same rows at the end


def test_same_arguments_same_order_and_seeds_differ():
    make = lambda seed: Plan((100, 200, 50), 32, chunk_batches=3, shuffle=True, seed=seed)  # noqa: E731
    assert delivered(make(1)) == delivered(make(1))
    assert delivered(make(1)) != delivered(make(2))


def test_first_chunk_is_small_and_chunks_double_and_the_last_is_not_a_crumb():
    plan = Plan((100,) * 100, 10, chunk_batches=80, first_batches=10, shuffle=True)
    assert [chunk.batches for chunk in plan.chunks(0)] == [10, 20, 40, *[80] * 10, 65, 65]


def test_every_chunk_is_dealt_in_an_order_of_its_own():
    chunks = list(Plan((100,) * 40, 10, chunk_batches=10, first_batches=10, shuffle=True).chunks(0))
    assert len(chunks) == 40
    assert len({chunk.places().tobytes() for chunk in chunks}) == 40


def test_golden_plan():
    """Fragments, chunks, lanes and places together. If this changes, saved positions mean other rows."""
    plan = Plan(
        (130, 7, 64, 250, 99), 16, chunk_batches=6, first_batches=2, shuffle=True, seed=9, ranks=2, rank=1, lanes=4
    )
    rows = [row for batch in delivered(plan, epoch=3)[0] for row in batch]
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == "9a2cdf93ab7ec5df"


def test_starting_late_gives_the_same_chunks():
    plan = Plan((100, 30, 250), 7, chunk_batches=6, shuffle=True, seed=4)
    every = list(plan.chunks(3))
    for batch in range(plan.steps):
        late = list(plan.chunks(3, first_batch=batch))
        assert late == every[len(every) - len(late) :]
        assert late[0].first_batch <= batch < late[0].first_batch + late[0].batches


def test_a_rank_reads_its_share_and_at_most_one_fragment_at_each_end():
    fragments = (90,) * 40
    for rank in range(4):
        plan = Plan(fragments, 16, chunk_batches=8, shuffle=True, ranks=4, rank=rank)
        read = {span.fragment for chunk in plan.chunks(0) for span in chunk.spans}
        assert len(read) <= 10 + 2


def test_a_fragment_is_read_once_even_if_a_chunk_ends_in_it():
    plan = Plan((1000,) * 10, 64, chunk_batches=7, shuffle=True)
    work = list(tasks(list(plan.chunks(0))))
    assert sorted(task.fragment for task in work) == list(range(10))
    assert sum(task.rows for task in work) == 10_000
    assert any(len(task.spans) > 1 for task in work)


def test_a_billion_rows_are_planned_in_a_moment():
    plan = Plan((1_000_000,) * 1000, 65_536, chunk_batches=16, first_batches=15, shuffle=True)
    chunks = list(plan.chunks(0))
    assert sum(chunk.rows for chunk in chunks) == 10**9
    assert np.diff([chunk.first_batch for chunk in chunks]).max() == 16


@pytest.mark.parametrize("wrong", [{"batch_rows": 0}, {"ranks": 2, "rank": 2}, {"ranks": 0}, {"rank": -1}])
def test_settings_that_cannot_be_meant(wrong):
    with pytest.raises(ArgumentError, match="wanted"):
        Plan(**{"fragment_rows": (5,), "batch_rows": 2, "chunk_batches": 1, **wrong})
