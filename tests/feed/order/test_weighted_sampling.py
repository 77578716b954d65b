import numpy as np
import polars as pl
import pytest
import torch

import rowmill
from rowmill.errors import ArgumentError, ColumnError
from rowmill.loader.torch import Loader
from tests.conftest import write_files


@pytest.fixture
def table(tmp_path):
    """3,000 rows, 2% of them of class 1, all in one place; and weights."""
    ids = np.arange(3000)
    frame = pl.DataFrame({"id": ids, "label": (ids >= 2940).astype(np.int64), "w": (ids % 4).astype(np.float64)})
    write_files(tmp_path / "t", frame, files=3, row_group=100)
    return tmp_path / "t"


def ids(loader):
    return torch.cat([features["id"] for features, _ in loader]).numpy()


def itr(table, **settings):
    settings = {"columns": ["id"], "shuffle": True, "memory": "30KB", **settings}
    return Loader(rowmill.Dataset(table), 50, **settings)


def test_rows_are_drawn_as_often_as_they_weigh(table):
    loader = itr(table, weights="w")
    assert len(loader) == 60
    for _ in range(3):
        drawn = ids(loader)
        assert len(drawn) == 3000
        times = np.bincount(drawn, minlength=3000)
        expected = np.arange(3000) % 4 / 1.5
        assert (np.abs(times - expected) < 1).all()
    total = np.bincount(np.concatenate([ids(loader) for _ in range(30)]), minlength=3000) / 30
    assert np.abs(total - expected).max() < 0.5 and np.abs(total - expected).mean() < 0.1


def test_classes_are_balanced_in_every_batch(table):
    loader = itr(table, balance="label", columns=["id", "label"], memory="200KB")
    means = [features["label"].double().mean().item() for features, _ in loader]
    assert abs(np.mean(means) - 0.5) < 0.01
    assert max(abs(m - 0.5) for m in means[len(means) // 2 :]) < 0.35


def test_weights_by_a_function_of_the_place_in_the_table(table):
    drawn = ids(itr(table, weights=lambda first, rows: (np.arange(first, first + rows) >= 1500).astype(float)))
    assert len(drawn) == 3000 and drawn.min() == 1500
    assert (np.bincount(drawn, minlength=3000)[1500:] == 2).all()


def test_all_weight_on_one_row_stays_within_memory(table):
    loader = itr(table, weights=lambda first, rows: (np.arange(first, first + rows) == 1234).astype(float))
    assert (ids(loader) == 1234).all() and loader.num_rows_processed == 3000


def test_drawing_is_deterministic_differs_by_epoch_and_resumes(table):
    loader = itr(table, weights="w", seed=7, threads=1)
    first, second = [f["id"] for f, _ in loader], [f["id"] for f, _ in loader]
    again = itr(table, weights="w", seed=7, threads=4)
    assert all(torch.equal(a, b["id"]) for a, (b, _) in zip(first, again, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first, second, strict=True))
    stopped = itr(table, weights="w", seed=7)
    list(stopped)
    for number, _ in enumerate(stopped, 1):
        if number == 23:
            break
    resumed = itr(table, weights="w", seed=7)
    resumed.load_state_dict(stopped.state_dict())
    assert all(torch.equal(a, b["id"]) for a, (b, _) in zip(second[23:], resumed, strict=True))


def test_ranks_share_what_is_drawn(table):
    parts = [ids(itr(table, weights="w", global_size=4, global_rank=rank)) for rank in range(4)]
    assert sorted(np.concatenate(parts)) == sorted(ids(itr(table, weights="w")))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"weights": "nope"}, ColumnError, "no column 'nope'"),
        ({"balance": "lable"}, ColumnError, "did you mean 'label'"),
        ({"weights": "w", "balance": "label"}, ArgumentError, "wanted one"),
        ({"weights": lambda first, rows: np.full(rows, -1.0)}, ArgumentError, "negative"),
        ({"weights": lambda first, rows: np.full(rows, np.nan)}, ArgumentError, "not a number"),
        ({"weights": lambda first, rows: np.zeros(rows)}, ArgumentError, "all weights are 0"),
        ({"weights": lambda first, rows: np.ones(rows + 1)}, ArgumentError, "wanted one for each"),
    ],
)
def test_weights_that_cannot_be(table, settings, error, message):
    with pytest.raises(error, match=message):
        itr(table, **settings)
