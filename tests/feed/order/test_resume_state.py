"""A loader that goes on where another stood gives the byte-identical rest of the epoch, and the epochs after."""

import hashlib
import itertools
import json
import random

import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill.errors import StateError
from rowmill.loader.torch import Loader, TorchAsyncItr
from tests.conftest import make_table, write_files
from tests.counts import thorough

BATCH, STEPS = 10, 200


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """1,994 rows: 199 whole batches of 10 and one of 4, in 5 files of row groups of 130."""
    folder = tmp_path_factory.mktemp("resume")
    write_files(folder, make_table(1994), files=5, row_group=130)
    return folder


def itr(folder, **settings):
    settings = {"batch_size": BATCH, "memory": "40KB", "shuffle": True, "seed": 4, **settings}
    return TorchAsyncItr(rowmill.Dataset(folder), ["id", "cat_b"], ["x1"], ["label"], **settings)


def prints(batches) -> list[str]:
    """Each batch as a hash of all its bytes."""
    return [hashlib.md5(b"".join(t.numpy().tobytes() for t in batch)).hexdigest() for batch in batches]


WAYS = [*itertools.product((True, False), (True, False), (1, 4), (0,)), (True, False, 2, 3)]
EVERY = thorough(9, 1)  # of the batches; each way has others, and all ways together have all


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_resume_at_every_batch(table, way, tried):
    shuffle, drop_last, threads, epoch = WAYS[way]
    settings = {"shuffle": shuffle, "drop_last": drop_last, "threads": threads}
    whole = itr(table, **settings)
    whole.set_epoch(epoch)
    steps = STEPS - drop_last
    assert len(whole) == steps
    expected, following = prints(whole), prints(whole)
    stopped = itr(table, **settings)
    stopped.set_epoch(epoch)
    states = [stopped.state_dict()]
    states += [json.loads(json.dumps(stopped.state_dict())) for _ in stopped]
    assert len(states) == steps + 1
    for batch in sorted({0, 1, steps - 1, steps, *range(way % EVERY, steps + 1, EVERY)}):
        state = states[batch]
        resumed = itr(table, **settings)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert prints(resumed) == expected[batch:]
        tried("epochs resumed")
        if batch % 40 == 0 or batch >= steps - 1:
            assert prints(resumed) == following, "the epoch after"


def test_the_end_of_an_epoch_is_the_start_of_the_next(table):
    loader = itr(table)
    first, second = prints(loader), prints(loader)
    resumed = itr(table)
    state = None
    for _ in resumed:
        pass
    state = resumed.state_dict()
    assert (state["epoch"], state["batch"]) == (1, 0)
    fresh = itr(table)
    fresh.load_state_dict(state)
    assert prints(fresh) == second != first


def test_chains_of_resumes(table):
    loader = itr(table)
    expected = [p for _ in range(3) for p in prints(loader)]
    rng = random.Random(1)
    for _ in range(thorough(5, 40)):
        found, state = [], None
        while len(found) < len(expected):
            loader = itr(table, threads=rng.choice([1, 2, 4]))
            if state is not None:
                loader.load_state_dict(state)
            steps = rng.randrange(0, 300)
            while steps > 0 and len(found) < len(expected):
                for batch in loader:
                    found += prints([batch])
                    steps -= 1
                    if steps <= 0:
                        break
            state = loader.state_dict()
        assert found == expected


def test_no_more_than_a_chunk_is_read_again(tmp_path):
    """Before its first batch a resumed epoch reads the chunk of that batch, whatever comes before it."""
    names = [f"c{i}" for i in range(50)]
    pl.DataFrame(dict.fromkeys(names, np.arange(1_200_000))).write_parquet(
        tmp_path / "wide.parquet", row_group_size=40_000
    )

    def made():
        return TorchAsyncItr(
            rowmill.Dataset(tmp_path), names, [], [], batch_size=8_192, shuffle=True, threads=1, memory="400MB"
        )

    def rows_read(batch):
        loader = made()
        loader.load_state_dict({**loader.state_dict(), "batch": batch})
        batches = iter(loader)
        next(batches)
        batches.close()
        return loader._stream.stats.rows_read

    chunk = made().plan().chunk_rows
    found = [rows_read(batch) for batch in range(1, len(made()), 23)]
    assert chunk < 300_000 and max(found) <= chunk + 3 * 40_000  # fragments at both ends, and one that is under way


def test_the_state_is_small_and_independent_of_the_size(tmp_path):
    write_files(tmp_path, make_table(30_000), files=60, row_group=10)
    loader = itr(tmp_path, memory="1MB")
    next(iter(loader))
    assert len(json.dumps(loader.state_dict())) < 1000


def test_prefetched_batches_do_not_count(table):
    loader = itr(table)
    batches = iter(loader)
    for expected in range(1, 6):
        next(batches)
        assert loader.state_dict()["batch"] == expected
    batches.close()


def test_seed_functions_resume_too(table):
    seeds = iter([11, 12, 13, 14])
    loader = itr(table, seed_fn=lambda: next(seeds))
    expected = prints(loader)
    seeds = iter([11, 99])
    stopped = itr(table, seed_fn=lambda: next(seeds))
    for number, _ in enumerate(stopped, 1):
        if number == 50:
            break
    resumed = itr(table, seed_fn=lambda: next(seeds))
    resumed.load_state_dict(stopped.state_dict())
    assert prints(resumed) == expected[50:]


def rewritten(folder):
    frame = pl.read_parquet(folder / "part_1.parquet")
    frame.with_columns(pl.col("cat_b").reverse()).write_parquet(folder / "part_1.parquet", row_group_size=130)


def removed(folder):
    (folder / "part_4.parquet").unlink()


def added(folder):
    write_files(folder / "more", make_table(100), files=1)


def swapped(folder):
    a, b, c = folder / "part_0.parquet", folder / "part_1.parquet", folder / "part_x"
    a.rename(c), b.rename(a), c.rename(b)


@pytest.mark.parametrize("change", [rewritten, removed, added, swapped])
def test_a_state_for_other_files_is_refused(tmp_path, change):
    write_files(tmp_path, make_table(1994), files=5, row_group=130)
    state = itr(tmp_path).state_dict()
    itr(tmp_path).load_state_dict(state)
    change(tmp_path)
    with pytest.raises(StateError, match=r"its (data|rows|fragments) is"):
        itr(tmp_path).load_state_dict(state)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"seed": 5}, "seed"),
        ({"shuffle": False}, "shuffle"),
        ({"batch_size": 38}, "global_batch"),
        ({"drop_last": True}, "last"),
        ({"memory": "900KB"}, "fragments|chunk_batches|first_batches"),
        ({"global_size": 2, "global_rank": 0}, "global_batch|global_size"),
        ({"index_dtype": "int32"}, "columns"),
    ],
)
def test_a_state_for_other_settings_is_refused_by_name(table, settings, field):
    state = itr(table).state_dict()
    with pytest.raises(StateError, match=f"its ({field}) is"):
        itr(table, **settings).load_state_dict(state)


@pytest.mark.parametrize("state", [{}, {"version": 99}, None, [], {"version": 2}])
def test_what_is_no_state_is_refused(table, state):
    with pytest.raises(StateError):
        itr(table).load_state_dict(state)


@pytest.mark.parametrize(
    "position", [{"batch": -1}, {"batch": STEPS + 1}, {"epoch": -1}, {"batch": "3"}, {"epoch": None}]
)
def test_positions_that_cannot_be(table, position):
    loader = itr(table)
    with pytest.raises(StateError, match="no position"):
        loader.load_state_dict({**loader.state_dict(), **position})


def test_columns_of_another_choice_are_other_data(table):
    data = rowmill.Dataset(table)
    state = Loader(data, 10, columns=["id"]).state_dict()
    with pytest.raises(StateError, match=r"its columns is .* other columns, dtypes or weights"):
        Loader(data, 10, columns=["cat_b"]).load_state_dict(state)


def test_a_copy_of_the_data_elsewhere_is_the_same_data(table, tmp_path):
    import shutil

    state = itr(table).state_dict()
    shutil.copytree(table, tmp_path / "copy")
    itr(tmp_path / "copy").load_state_dict(state)
