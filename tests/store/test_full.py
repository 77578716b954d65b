"""A full shuffle draws from all rows at once, and rows and batches can be had by number: from a complete store."""

import re
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rowmill import Dataset
from rowmill.errors import ArgumentError, StateError, StoreError
from rowmill.loader.torch import Loader
from rowmill.store.store import Store
from tests.store.common import digest, epochs, lists_folder, stream, table_with_lists


def full(tmp_path, **options):
    return stream(tmp_path / "table", tmp_path / "cache", shuffle="full", **options)


@pytest.fixture
def stored(tmp_path):
    lists_folder(tmp_path)
    stream(tmp_path / "table", tmp_path / "cache").build_cache()
    return tmp_path


def ids(batches):
    return np.concatenate([batch.matrices[0][: batch.rows - batch.padding, 0] for batch in batches])


def test_every_row_once_and_whole(stored):
    frame = table_with_lists(1003)
    both = full(stored)
    first, second = list(both.batches()), list(both.batches())
    for batches in (first, second):
        assert sorted(ids(batches).tolist()) == list(range(1003))
        for batch in batches:
            rows = batch.matrices[0][:, 0]
            values, offsets = batch.ragged["tags"]
            assert np.array_equal(batch.matrices[4], frame["vec"].to_numpy()[rows])
            for place, row in enumerate(rows):
                assert values[offsets[place] : offsets[place + 1]].tolist() == frame["tags"][int(row)].to_list()
    assert ids(first).tolist() != ids(second).tolist()


def test_it_does_not_depend_on_threads_and_memory(stored):
    wanted = epochs(full(stored), 2)
    assert epochs(full(stored, threads=1, memory="300kB"), 2) == wanted
    assert epochs(full(stored, seed=4), 2) != wanted


@pytest.mark.parametrize("build", [False, True])
def test_lists_that_another_loader_is_putting_in_order_are_waited_for(tmp_path, monkeypatch, build):
    lists_folder(tmp_path)
    publish, begun = Store._publish, threading.Event()

    def slowly(store, *given):
        begun.set()
        time.sleep(0.3)
        publish(store, *given)

    monkeypatch.setattr(Store, "_publish", slowly)
    first = stream(tmp_path / "table", tmp_path / "cache")
    digest(first.batches())
    assert begun.wait(10)
    second = full(tmp_path)
    if build:
        second.build_cache()
    assert sorted(ids(list(second.batches())).tolist()) == list(range(1003))
    assert second.take(np.array([5])).ragged["tags"][0].tolist() == table_with_lists(1003)["tags"][5].to_list()


def _advised(folder):
    """How many maps of files in this folder are to come in huge pages, and how many are not."""
    maps = re.findall(rf"{folder}/.*?VmFlags:(.*?)\n", Path("/proc/self/smaps").read_text(), re.S)
    return sum(" hg" in flags for flags in maps), sum(" hg" not in flags for flags in maps)


def test_what_is_read_at_random_comes_in_huge_pages_and_nothing_else(stored):
    in_order = stream(stored / "table", stored / "cache", columns=["id", "x1"])
    in_order.build_cache()
    digest(in_order.batches())
    assert _advised(stored / "cache") == (0, 2)  # ids in four bytes, and floats
    at_random = full(stored, columns=["id", "x1"])
    digest(at_random.batches())
    assert _advised(stored / "cache") == (2, 2)


@pytest.mark.parametrize("last", ["short", "drop", "pad"])
def test_ranks_share_it(stored, last):
    ranks = [full(stored, ranks=3, rank=rank, last=last, batch_size=50) for rank in range(3)]
    found = [list(rank.batches()) for rank in ranks]
    assert len({len(batches) for batches in found}) == 1
    together = np.concatenate([ids(batches) for batches in found])
    assert len(together) == (1003 if last != "drop" else 900) == len(np.unique(together))


def test_resume_at_every_batch(stored):
    whole = full(stored)
    batches = [digest([batch]) for batch in whole.batches()]
    for cut in range(len(batches) + 1):
        begun = full(stored)
        counted = begun.track(begun.batches())
        for _ in range(cut):
            next(counted)
        state = begun.state_dict()
        counted.close()
        later = full(stored)
        later.load_state_dict(state)
        assert [digest([batch]) for batch in later.batches()] == batches[cut:]
    with pytest.raises(StateError, match="shuffle is 'full'"):
        stream(stored / "table").load_state_dict(state)


def test_it_needs_a_complete_store_and_says_how_to_get_one(tmp_path):
    lists_folder(tmp_path)
    begun = full(tmp_path)
    with pytest.raises(StoreError, match=r"need all 1,003 rows in the store, and it has 0.*build_cache"):
        begun.batches()
    begun.build_cache()
    assert len(ids(begun.batches())) == 1003
    with pytest.raises(ArgumentError, match="there is no cache; pass cache="):
        stream(tmp_path / "table", shuffle="full")
    with pytest.raises(ArgumentError, match="wanted True, False or 'full'"):
        stream(tmp_path / "table", shuffle="ful")


def test_in_memory_too(tmp_path):
    lists_folder(tmp_path)
    kept = stream(tmp_path / "table", "auto", shuffle="full")
    kept.build_cache()
    wanted = full(tmp_path)
    wanted.build_cache()
    assert epochs(kept) == epochs(wanted)


def test_plan_says_that_it_is_perfect(stored):
    loader = Loader(Dataset(stored / "table"), 100, shuffle="full", cache=stored / "cache").build_cache()
    report = loader.plan()
    assert report.batch_mixing == report.order_in_batch == 1
    with pytest.raises(ArgumentError, match="mixes 'id' perfectly"):
        loader.plan("id")


def test_batches_by_number(stored):
    for shuffle in (False, True, "full"):
        loader = Loader(Dataset(stored / "table"), 100, shuffle=shuffle, cache=stored / "cache").build_cache()
        batches = [features["id"].tolist() for features, _ in loader]
        loader.set_epoch(0)
        assert [loader[number][0]["id"].tolist() for number in range(len(loader))] == batches
        assert loader[-1][0]["id"].tolist() == batches[-1]
        assert loader.epoch == 0
        for beyond in (len(loader), -len(loader) - 1):
            with pytest.raises(IndexError, match="batches"):
                loader[beyond]


def test_rows_by_number(stored):
    frame = table_with_lists(1003)
    loader = Loader(Dataset(stored / "table"), 100, cache=stored / "cache").build_cache()
    mask = np.zeros(1003, bool)
    mask[[3, 5]] = True
    for rows, wanted in [
        ([5, 1002, 5, -1], [5, 1002, 5, 1002]),
        (slice(10, 30, 7), [10, 17, 24]),
        (mask, [3, 5]),
        (7, [7]),
        ([], []),
    ]:
        features, target = loader.take(rows)
        assert features["id"].tolist() == wanted and target is None
        assert features["x1"].tolist() == frame["x1"].to_numpy()[wanted].tolist()
        offsets = features["tags__offsets"].tolist()
        assert [features["tags__values"][a:b].tolist() for a, b in pairwise(offsets)] == [
            frame["tags"][row].to_list() for row in wanted
        ]
    for beyond in (1003, -1004):
        with pytest.raises(IndexError, match=f"row {beyond} of a table of 1003 rows"):
            loader.take([0, beyond])
    with pytest.raises(IndexError, match=f"row {2**64 - 1} of"):
        loader.take(np.array([2**64 - 1], np.uint64))
    assert loader.take(np.array([7], np.uint64))[0]["id"].tolist() == [7]
    for wrong in ([[1, 2]], [True, False], ["a"], [1.5], [None]):
        with pytest.raises(ArgumentError, match="wanted"):
            loader.take(wrong)
    with pytest.raises(StoreError, match="pass cache="):
        Loader(Dataset(stored / "table"), 100).take([1])


def test_rows_of_a_dataset_by_number(stored):
    view = Dataset(stored / "table").as_map_style(["id", "x1"], "label", cache=stored / "cache")
    for _ in range(2):  # without a complete store, and with one
        features, labels = view[[5, 1002, 5]]
        assert features["id"].tolist() == [5, 1002, 5] and labels.tolist() == [1.0, 0.0, 1.0]
        features, label = view[4]
        assert features["id"].item() == 4 and label.item() == 0.0
        assert view[10:13][0]["id"].tolist() == [10, 11, 12]
        view.build_cache()
