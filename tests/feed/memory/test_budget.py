"""memory="auto": enough for all cores, never more than a quarter of the machine, the same order on every rank."""

import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill.errors import StateError
from rowmill.feed.memory import budget
from rowmill.feed.memory.budget import Budget
from rowmill.feed.run import stream
from rowmill.loader.torch import Loader

GB = 10**9


@pytest.mark.parametrize("cores", [1, 2, 8, 32, 64])
@pytest.mark.parametrize("group_bytes", [1e6, 13e6, 60e6, 83e6, 500e6])
def test_no_core_idles_for_lack_of_memory(cores, group_bytes):
    budget = Budget.of("auto", cores, group_bytes, machine=1024 * GB)
    assert budget.threads(cores, min(group_bytes, budget.fragment)) == cores
    assert budget.total >= GB and budget.chunk == budget.total // 4
    # the decoded fragments of all cores, twice as much besides, two chunks
    assert budget.decoding(cores, min(group_bytes, budget.fragment)) + budget.window <= budget.total * 1.01


@pytest.mark.parametrize("machine", [GB, 8 * GB, 64 * GB])
def test_no_more_than_a_quarter_of_the_machine_is_taken(machine):
    for cores in (1, 8, 64):
        budget = Budget.of("auto", cores, 83e6, machine=machine)
        assert budget.total <= machine // 4
        assert budget.threads(cores, budget.fragment) >= 1


def test_a_number_is_taken_as_it_is():
    assert Budget.of("200MB", 64, 83e6) == Budget(200 * 10**6, 200 * 10**6)
    assert Budget.of(0.5, 2, 1e6).total > GB


def table(folder):
    rows = 400_000
    frame = pl.DataFrame({"id": np.arange(rows), **{f"x{i}": np.zeros(rows) for i in range(30)}})
    frame.write_parquet(folder / "table.parquet", row_group_size=50_000)
    return rowmill.Dataset(folder)


def ids(batches):
    return [features["id"].tolist() for features, _ in batches]


def loader(data, **options):
    return Loader(data, batch_size=4_096, shuffle=True, seed=3, **options)


def of_machine(monkeypatch, cores, gigabytes):
    monkeypatch.setattr(stream, "cores", lambda: cores)
    monkeypatch.setattr(budget, "total_memory", lambda: gigabytes * GB)


def test_ranks_on_different_machines_agree(tmp_path, monkeypatch):
    data, seen = table(tmp_path), []
    for rank, (cores, gigabytes) in enumerate([(2, 8), (64, 1_000)]):
        of_machine(monkeypatch, cores, gigabytes)
        seen += [row for batch in ids(loader(data, global_size=2, global_rank=rank)) for row in batch]
    assert sorted(seen) == list(range(400_000))


def test_a_state_resumes_on_a_larger_machine(tmp_path, monkeypatch):
    data = table(tmp_path)
    of_machine(monkeypatch, 2, 1)
    saved = loader(data)
    batches = iter(saved)
    first = [next(batches) for _ in range(40)]
    state, rest = saved.state_dict(), ids(batches)
    assert len(first) == 40
    of_machine(monkeypatch, 64, 1_000)
    larger = loader(data)
    assert larger.plan().chunk_rows > saved.plan().chunk_rows
    larger.load_state_dict(state)
    assert ids(larger) == rest
    with pytest.raises(StateError, match="memory="):
        loader(data, memory="4GB").load_state_dict(state)
    of_machine(monkeypatch, 2, 1)
    with pytest.raises(StateError, match="memory="):
        loader(data).load_state_dict({**state, "chunk_batches": 10**9})


def test_the_plan_tells_what_auto_is(tmp_path, monkeypatch):
    data = table(tmp_path)
    of_machine(monkeypatch, 64, 1_000)
    made = loader(data)
    group = 50_000 * made._stream.read_bytes
    assert made.plan().memory == max(GB, int(6 * 64 * group)) and made._stream.threads == 64
    assert f"{made.plan().memory / 1e9:.1f} GB" in str(made.plan())
