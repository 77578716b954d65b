"""World size and rank are those of the moment in which an epoch begins; expected rows written out."""

import copy
import pickle

import numpy as np
import pytest
import torch

from rowmill.errors import StateError
from rowmill.loader.torch import DLDataLoader, Loader, TorchAsyncItr


class Group:
    """A process group that begins, changes and ends as a test says."""

    def __init__(self, monkeypatch):
        self.size, self.rank = None, 0
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: self.size is not None)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: self.size)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: self.rank)

    def begin(self, size, rank):
        self.size, self.rank = size, rank


@pytest.fixture
def group(monkeypatch):
    return Group(monkeypatch)


def rows(loader):
    return [features["a"].tolist() for features, _ in loader]


def test_a_loader_made_before_the_process_group_gives_this_ranks_rows(group):
    loader = Loader({"a": np.arange(12)}, 2)
    matrices = TorchAsyncItr({"a": np.arange(12)}, cats=["a"], batch_size=2)
    assert len(loader) == 6 and loader.global_size == 1
    group.begin(3, 1)
    assert (loader.global_size, loader.global_rank, len(loader)) == (3, 1, 2)
    assert rows(loader) == [[4, 5], [6, 7]]
    assert [x_cat.flatten().tolist() for x_cat, _, _ in matrices] == [[4, 5], [6, 7]]
    assert len(DLDataLoader(matrices)) == 2
    assert "rank 1 of 3" in repr(loader) and loader.plan().ranks == 3


def test_the_plan_follows_between_two_epochs(group):
    loader = Loader({"a": np.arange(12)}, 2)
    assert rows(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    group.begin(2, 1)
    assert rows(loader) == [[6, 7], [8, 9], [10, 11]]
    group.begin(4, 0)
    assert rows(loader) == [[0, 1], [2]]
    assert loader.epoch == 3
    group.size = None
    assert len(loader) == 6


def test_an_epoch_under_way_keeps_its_ranks(group):
    group.begin(2, 1)
    loader = Loader({"a": np.arange(12)}, 2)
    batches = iter(loader)
    assert next(batches)[0]["a"].tolist() == [6, 7]
    group.size = None
    assert [features["a"].tolist() for features, _ in batches] == [[8, 9], [10, 11]]


def test_ranks_that_are_given_are_not_looked_for(group):
    group.begin(2, 1)
    assert rows(Loader({"a": np.arange(4)}, 2, global_size=1, global_rank=0)) == [[0, 1], [2, 3]]


def test_a_state_is_of_the_ranks_of_its_iteration(group):
    group.begin(2, 1)
    loader = Loader({"a": np.arange(12)}, 2)
    batches = iter(loader)
    next(batches)
    next(batches)
    group.size = None  # destroyed before the checkpoint is written
    saved = loader.state_dict()
    assert (saved["global_size"], saved["epoch"], saved["batch"]) == (2, 0, 2)
    del batches
    again = Loader({"a": np.arange(12)}, 2)
    with pytest.raises(StateError, match=r"its global_\w+ is .* after init_process_group|batch_size times global_size"):
        again.load_state_dict(saved)
    group.begin(2, 0)  # the state of one rank is that of all
    again.load_state_dict(saved)
    assert rows(again) == [[4, 5]]


def test_the_rest_of_an_epoch_is_refused_on_other_ranks(group):
    for elastic in (None, 2):
        group.begin(1, 0)
        loader = Loader({"a": np.arange(12)}, 2, elastic=elastic)
        batches = iter(loader)
        next(batches)
        next(batches)
        saved = loader.state_dict()
        del batches
        loader.load_state_dict(saved)
        group.begin(2, 0)
        with pytest.raises(StateError, match="planned for rank 0 of 1, and this process is now rank 0 of 2"):
            next(iter(loader))


def test_copies_look_for_ranks_too(group):
    loader = Loader({"a": np.arange(12)}, 2)
    for again in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        group.begin(3, 2)
        assert rows(again) == [[8, 9], [10, 11]]
        group.size = None


def test_worker_processes_get_the_rows_of_their_rank(group):
    """A spawned worker has no process group to ask."""
    group.begin(2, 1)
    loader = Loader({"a": np.arange(12)}, 2)
    stock = torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert rows(stock) == [[6, 7], [8, 9], [10, 11]]
