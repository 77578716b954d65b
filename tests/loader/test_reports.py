import time

import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill.errors import ColumnError, DtypeError
from rowmill.loader.torch import Loader
from tests.conftest import make_table, write_files


@pytest.fixture
def sorted_table(tmp_path):
    """20,000 rows in 40 row groups, sorted by label and time."""
    ids = np.arange(20_000)
    frame = pl.DataFrame({"id": ids, "label": (ids >= 10_000).astype(np.int8), "s": ["x"] * 20_000})
    write_files(tmp_path, frame.with_columns(t=pl.from_epoch("id")), files=4, row_group=500)
    return tmp_path


def test_a_plan_says_what_an_epoch_will_be(sorted_table):
    data = rowmill.Dataset(sorted_table)
    loader = Loader(
        data, 300, columns=["id", "label"], shuffle=True, drop_last=True, memory="100KB", global_size=2, global_rank=1
    )
    plan = loader.plan()
    assert (plan.steps, plan.rows, plan.dropped_rows, plan.padding_rows) == (33, 9900, 200, 0)
    assert plan.steps == len(list(loader))
    assert plan.total_rows == 20_000 and plan.ranks == 2
    assert plan.peak_bytes <= plan.memory and plan.read_bytes == 9900 * 9
    assert plan.small_fragments == plan.fragments == 40 or plan.small_fragments == plan.fragments
    text = str(plan)
    assert "33 on each of 2 ranks" in text and "200 of all ranks" in text
    assert "<table>" in plan._repr_html_() and plan.__rich__().row_count == len(plan.table()[1])


def test_mixing_is_measured_against_a_perfect_shuffle(sorted_table):
    data = rowmill.Dataset(sorted_table)
    ordered = Loader(data, 200, columns=["id", "label"]).plan("label").mixing
    poor = Loader(data, 200, columns=["id", "label"], shuffle=True, memory="30KB").plan("label").mixing
    good = Loader(data, 200, columns=["id", "label"], shuffle=True, memory="1GB").plan("label").mixing
    assert ordered.mean == poor.mean == good.mean == 0.5
    assert ordered.ratio > 10 and poor.ratio > 2
    assert good.ratio < poor.ratio
    times = Loader(data, 200, columns=["id"], shuffle=True, memory="1GB").plan("t")
    assert times.mixing.ratio < 5 and "mixing of t" in str(times)


def test_mixing_is_what_the_batches_show(sorted_table):
    loader = Loader(rowmill.Dataset(sorted_table), 200, columns=["id", "label"], shuffle=True, memory="60KB")
    told = loader.plan("label").mixing
    means = np.array([features["label"].double().mean().item() for features, _ in loader])
    assert np.sqrt(np.mean((means - 0.5) ** 2)) == pytest.approx(told.measured, rel=1e-6)


def test_mixing_of_batches_and_order_within_them(sorted_table):
    data = rowmill.Dataset(sorted_table)
    ordered = Loader(data, 200, columns=["id"]).plan()
    assert ordered.batch_mixing == pytest.approx(201 / 20_001)  # two of 200 rows side by side are 67 apart
    assert ordered.order_in_batch == 0  # as in the table
    whole = Loader(data, 200, columns=["id"], shuffle=True).plan()  # shuffled in one chunk
    assert whole.batch_mixing > 0.98 and whole.order_in_batch > 0.98
    chunked = Loader(data, 200, columns=["id"], shuffle=True, memory="60KB").plan()
    assert chunked.batch_mixing < 0.9 and chunked.order_in_batch > 0.95
    assert "order in batches" in str(chunked) and "batch mixing" in str(chunked)


def test_the_plan_tells_the_order_of_the_rows_that_come(sorted_table):
    """Rows in batches are as far apart as the plan says."""
    loader = Loader(rowmill.Dataset(sorted_table), 200, columns=["id"], shuffle=True, memory="60KB")
    plan = loader.plan()
    batches = [features["id"].numpy().astype(float) for features, _ in loader]
    neighbours = np.mean([np.abs(np.diff(batch)).mean() for batch in batches])
    pairs = np.mean([np.abs(batch[:, None] - batch).sum() / (200 * 199) for batch in batches])
    assert plan.order_in_batch == pytest.approx(min(1, neighbours / pairs), rel=1e-6)
    assert plan.batch_mixing == pytest.approx(pairs / (20_001 / 3), rel=1e-6)


def test_row_groups_too_large_are_told(tmp_path):
    write_files(tmp_path, make_table(5000), files=1, row_group=5000)
    plan = Loader(rowmill.Dataset(tmp_path), 100, memory="200KB").plan()
    assert plan.cut_fragments == 1 and "read in slices" in str(plan)


def test_columns_that_have_no_mean(sorted_table):
    loader = Loader(rowmill.Dataset(sorted_table), 200, columns=["id"])
    with pytest.raises(ColumnError, match="no column 'lable'"):
        loader.plan("lable")
    with pytest.raises(DtypeError, match="'s'"):
        loader.plan("s")


def test_a_slow_model_is_told_from_slow_data(tmp_path):
    write_files(tmp_path, make_table(20_000), files=2, row_group=2000)
    list(Loader(rowmill.Dataset(tmp_path), 500, shuffle=True))  # imports
    loader = Loader(rowmill.Dataset(tmp_path), 500, shuffle=True)
    assert loader.stats().bound == "unknown"
    for _ in loader:
        time.sleep(0.04)
    stats = loader.stats()
    assert stats.bound == "model" and "model-bound" in stats.verdict and stats.rows == 20_000
    read = loader._stream.source.read

    def slow(fragment, columns):
        time.sleep(0.3)
        return read(fragment, columns)

    loader._stream.source.read = slow
    batches = iter(loader)
    time.sleep(1.5)  # what is before the first batch is no training
    for _ in batches:
        pass
    stats = loader.stats()
    assert ("too short to be sure" in stats.verdict) == (stats.seconds < 1)
    assert stats.bound == "storage" and "data-bound, by storage" in stats.verdict
    assert stats.waited > 0.5 * stats.seconds and stats.read_seconds > 0.4
    assert "waited for data" in str(stats) and stats._repr_html_().count("<tr>") == len(stats.table()[1])


def test_figures_add_up_while_it_runs(tmp_path):
    write_files(tmp_path, make_table(5000), files=2, row_group=500)
    loader = Loader(rowmill.Dataset(tmp_path), 100)
    for number, _ in enumerate(loader, 1):
        stats = loader.stats()
        assert (stats.batches, stats.rows) == (number, number * 100)
        assert stats.ready_rows >= 0 and stats.waited <= stats.seconds
    assert loader._stream.stats.ready_rows == 0
