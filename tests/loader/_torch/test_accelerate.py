"""Hugging Face Accelerate and its Trainer under torchrun: every row once over all ranks, or an error that says how."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import make_table, write_files

pytest.importorskip("accelerate")

HERE = Path(__file__).parent
ROWS = 241  # on 3 ranks: 10 steps of 24 rows, and a last one of one row


def run(worker, out, size, *arguments):
    """All ranks of a run under torchrun."""
    out.mkdir(parents=True, exist_ok=True)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    done = subprocess.run(
        [*torchrun, str(HERE / worker), *arguments[:1], str(out), *arguments[1:]],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("accelerate")
    write_files(folder, make_table(ROWS), files=2, row_group=70)
    return str(folder)


FORMS = {1: "itr-loader,dict-stock", 2: "itr-loader,dict-loader,itr-dl,itr-stock,dict-stock", 3: "itr-loader,dict-dl"}


@pytest.fixture(scope="module")
def results_of(table, tmp_path_factory):
    """What the ranks of a run wrote down. All forms of one number of ranks go through one start of torchrun."""
    done = {}

    def results(form, size):
        if size not in done:
            done[size] = tmp_path_factory.mktemp(f"{size} ranks")
            run("accelerate_worker.py", done[size], size, table, FORMS[size])
        return [json.loads((done[size] / f"{rank}.json").read_text())[form] for rank in range(size)]

    return results


@pytest.mark.parametrize(
    ("form", "size"),
    [("itr-loader", 1), ("itr-loader", 2), ("itr-loader", 3), ("dict-loader", 2), ("itr-dl", 2), ("dict-dl", 3)],
)
def test_a_prepared_loader_delivers_every_row_once(results_of, form, size):
    results = results_of(form, size)
    steps = {1: 31, 2: 16, 3: 11}[size]
    for epoch in (0, 1):
        assert [len(result["epochs"][epoch]) for result in results] == [steps] * size
        rows = [row for result in results for step in result["epochs"][epoch] for row in step]
        assert sorted(rows) == list(range(ROWS))
    assert results[0]["epochs"][0] != results[0]["epochs"][1]
    assert len({result["weight"] for result in results}) == 1
    assert all(result["length"] == steps for result in results)
    if form == "itr-loader":
        assert all(result["resumed"] == result["epochs"][0][3:] for result in results)


@pytest.mark.parametrize("form", ["itr-stock", "dict-stock"])
def test_a_stock_dataloader_is_refused_on_several_ranks(results_of, form):
    """Accelerate would divide rank 0's share among all ranks."""
    for result in results_of(form, 2):
        assert result["epochs"] == []
        assert "this loader has given each of the 2 ranks its own rows" in result["error"]
        assert "pass the Rowmill loader itself to accelerator.prepare()" in result["error"]


def test_a_stock_dataloader_on_one_rank_delivers_every_row_once(results_of):
    (result,) = results_of("dict-stock", 1)
    assert [sorted(row for step in epoch for row in step) for epoch in result["epochs"]] == [list(range(ROWS))] * 2


def test_lists_in_a_stock_dataloader_are_refused_on_one_rank_too(tmp_path):
    """Accelerate would cut their values off after as many as the batch has rows."""
    program = """
from accelerate import Accelerator
from torch.utils.data import DataLoader
from rowmill.loader.torch import Loader

table = {"a": [1, 2], "l": [[1, 2, 3], [4]], "y": [0.0, 1.0]}
accelerator = Accelerator(cpu=True)
(plain,) = accelerator.prepare(DataLoader(Loader(table, 2, columns=["a"], targets="y"), batch_size=None))
assert plain[0]["a"].tolist() == [1, 2]
(own,) = accelerator.prepare(Loader(table, 2, targets="y"))
assert own[0]["l__values"].tolist() == [1, 2, 3, 4]
list(accelerator.prepare(DataLoader(Loader(table, 2, targets="y"), batch_size=None)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 1 and "it would cut 'l'; pass the Rowmill loader itself" in done.stderr, done.stderr


@pytest.mark.parametrize("size", [1, 2])
def test_the_trainer_of_transformers_sees_every_row_once_in_each_epoch(tmp_path, table, size):
    pytest.importorskip("transformers")
    run("trainer_worker.py", tmp_path, size, table)
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(size)]
    steps = {1: 31, 2: 16}[size]
    assert [result["steps"] for result in results] == [2 * steps] * size
    for epoch in (0, 1):
        seen = [row for r in results for step in r["seen"][epoch * steps : (epoch + 1) * steps] for row in step]
        assert sorted(seen) == list(range(ROWS))
    assert len({result["weight"] for result in results}) == 1
