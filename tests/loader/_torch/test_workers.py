"""Inside a stock `DataLoader`: each row once with any number of workers, or an error at once that says what to do."""

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, WeightedRandomSampler

import rowmill
from rowmill.errors import ColumnError, DtypeError, ForkedError
from rowmill.loader.torch import DLDataLoader, Loader, TorchAsyncItr
from tests.conftest import make_table, write_files


def same(batch):
    return batch


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    write_files(folder, make_table(1003), files=3, row_group=50)
    return folder


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
@pytest.mark.parametrize("workers", [1, 3])
def test_each_row_once_under_worker_processes(table, context, workers):
    data = rowmill.Dataset(table)
    loader = TorchAsyncItr(data, ["id"], ["x1"], ["label"], batch_size=32, shuffle=True, memory="30KB")
    outer = DLDataLoader(
        loader, batch_size=None, num_workers=workers, multiprocessing_context=context, collate_fn=same, timeout=250
    )
    ids = torch.cat([x_cat.flatten() for x_cat, _, _ in outer])
    assert sorted(ids.tolist()) == list(range(1003))
    assert len(outer) == len(loader) == 32


@pytest.mark.parametrize(("context", "persistent"), [("spawn", False), ("forkserver", True)])
def test_every_epoch_of_worker_processes_has_its_own_order(table, context, persistent):
    def made():
        loader = Loader(rowmill.Dataset(table), 32, columns=["id"], shuffle=True, memory="30KB", seed=5)
        settings = {"batch_size": None, "num_workers": 2, "persistent_workers": persistent, "collate_fn": same}
        return loader, DataLoader(loader, multiprocessing_context=context, timeout=250, **settings)

    def rows(outer):
        return [i for features, _ in outer for i in features["id"].tolist()]

    loader, outer = made()
    found = [rows(outer) for _ in range(3)]
    assert all(sorted(each) == list(range(1003)) for each in found)
    assert found[0] != found[1] != found[2] != found[0]
    assert loader.epoch == 3
    first = loader.peek()[0]["id"].tolist()  # a look moves nothing
    assert loader.epoch == 3 and loader[0][0]["id"].tolist() == first
    batches = [features["id"].tolist() for features, _ in loader]  # the parent goes on with the next
    assert batches[0] == first and loader.epoch == 4
    chunk = set(map(tuple, batches))
    assert not chunk & {tuple(found[2][i : i + 32]) for i in range(0, 992, 32)}
    again, outer = made()
    again.set_epoch(1)
    assert [rows(outer), rows(outer)] == found[1:] and again.epoch == 3
    state = {**again.state_dict(), "epoch": 1, "batch": 10}
    again.load_state_dict(state)
    rest, following = rows(outer), rows(outer)
    assert len(rest) < 1003 and set(rest) <= set(found[1]) and following == found[2]


def test_no_worker_is_the_usual_case(table):
    loader = Loader(rowmill.Dataset(table), 32, columns=["id"], shuffle=True)
    ids = torch.cat([features["id"] for features, _ in DataLoader(loader, batch_size=None, collate_fn=same)])
    assert sorted(ids.tolist()) == list(range(1003))


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("kind", [Loader, TorchAsyncItr])
def test_forked_workers_get_an_error_at_once(table, used, kind):
    data = rowmill.Dataset(table)
    loader = kind(data, batch_size=32) if kind is Loader else kind(data, cats=["id"], labels=[], batch_size=32)
    if used:
        list(loader)
    with pytest.raises(ForkedError, match=r"num_workers=0.*multiprocessing_context='spawn'"):
        list(DLDataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=120))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_notes_map_style_program(table, workers):
    """A map-style dataset with a sampler, workers (forked, as is the default) and pinned memory, batch by batch."""
    dataset = rowmill.Dataset(table).as_map_style(columns=["id", "x1"], targets="label")
    assert len(dataset) == 1003
    dataloader = DataLoader(
        dataset,
        batch_size=8,
        num_workers=workers,
        sampler=RandomSampler(dataset),
        pin_memory=False,
        timeout=120 * (workers > 0),
    )
    expected, seen = make_table(1003), []
    for batch, labels in dataloader:
        ids = batch["id"].tolist()
        assert batch["id"].dtype == torch.int64 and batch["x1"].dtype == torch.float64
        assert labels.tolist() == expected["label"].gather(ids).to_list()
        assert batch["x1"].tolist() == expected["x1"].gather(ids).to_list()
        seen += ids
    assert sorted(seen) == list(range(1003))


def test_map_style_samplers(table):
    dataset = rowmill.Dataset(table).as_map_style(columns=["id", "cat_a"])
    batches = list(DataLoader(dataset, batch_size=100, collate_fn=dataset.collate))
    assert torch.cat([b["id"] for b in batches]).tolist() == list(range(1003))
    sampler = BatchSampler(SequentialSampler(dataset), 64, drop_last=True)
    assert [len(b["id"]) for b in DataLoader(dataset, batch_sampler=sampler, collate_fn=dataset.collate)] == [64] * 15
    weighted = WeightedRandomSampler([float(i >= 1000) for i in range(1003)], 200)
    drawn = torch.cat(
        [b["id"] for b in DataLoader(dataset, batch_size=50, sampler=weighted, collate_fn=dataset.collate)]
    )
    assert set(drawn.tolist()) == {1000, 1001, 1002}


def test_map_style_single_rows(table):
    dataset = rowmill.Dataset(table).as_map_style(columns=["id", "cat_b"], targets=["label"])
    features, label = dataset[500]
    assert features["id"].item() == 500 and features["cat_b"].item() == (500 * 7 + 3) % 1000 and label.item() == 0
    assert dataset[-1][0]["id"].item() == 1002
    for index in (1003, -1004):
        with pytest.raises(IndexError, match="1003 rows"):
            dataset[index]
    assert [f["id"].item() for f, _ in dataset.__getitems__([5, 1, 5])] == [5, 1, 5]
    assert dataset.__getitems__([]).rows == 0


def test_map_style_holds_no_more_than_it_may(table):
    dataset = rowmill.Dataset(table).as_map_style(columns=["id"], memory="1KB")
    for index in range(0, 1003, 3):
        assert dataset[index]["id"].item() == index
    assert dataset.held_bytes <= 1000


def test_map_style_of_a_frame_and_what_it_refuses(table):
    import polars as pl

    frame = pl.DataFrame({"a": [1, 2, 3], "l": [[1], [2], [3]], "s": ["x", "y", "z"]})
    dataset = rowmill.Dataset(frame).as_map_style(columns=["a", "s"])
    rows = dataset.__getitems__([2, 0])
    assert dataset.collate(rows)["a"].tolist() == [3, 1] and dataset.collate(rows)["s"].tolist() == ["z", "x"]
    with pytest.raises(DtypeError, match="'l'"):
        rowmill.Dataset(frame).as_map_style()
    with pytest.raises(ColumnError, match="no column 'b'"):
        rowmill.Dataset(frame).as_map_style(columns=["b"])
    dataset = rowmill.Dataset(frame).as_map_style(columns=["a", "s"])  # has nothing in memory yet
    with pytest.raises(ForkedError, match="spawn"):
        list(
            DataLoader(
                dataset, batch_size=2, num_workers=1, multiprocessing_context="fork", collate_fn=same, timeout=120
            )
        )
