"""Real processes, real `torch.distributed` (gloo), real DDP: equal steps, every row once; and 1 -> 2 -> 1 ranks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import make_table, write_files

WORKER = Path(__file__).with_name("ddp_worker.py")


def run(folder, out, size, **settings):
    """All ranks of a run; what each of them saw."""
    out.mkdir(parents=True)
    command = [sys.executable, str(WORKER), str(folder), str(out)]
    ranks = [
        subprocess.Popen([*command, str(rank), str(size), json.dumps(settings)], stderr=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    for process in ranks:
        _, err = process.communicate(timeout=150)
        assert process.returncode == 0, err
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(size)]


@pytest.mark.parametrize(("rows", "size"), [(997, 2), (241, 3)])
def test_ddp_training_takes_equal_steps_and_sees_every_row_once(tmp_path, rows, size):
    write_files(
        tmp_path / "t", make_table(rows), files=2, row_group=70
    )  # 241 = 20 steps of 12, and one row for 3 ranks
    results = run(tmp_path / "t", tmp_path / "out", size, global_batch=4 * size)
    assert len({len(result["steps"]) for result in results}) == 1
    assert sorted(row for result in results for step in result["steps"] for row in step) == list(range(rows))
    assert len({result["weight"] for result in results}) == 1


def test_one_two_one(tmp_path):
    """A run that is stopped and goes on with another number of ranks sees the same rows in each global batch."""
    write_files(tmp_path / "t", make_table(500), files=2, row_group=70)
    common = {"global_batch": 24, "elastic": 4}

    def joined(results):
        return [
            sorted(row for part in step for row in part) for step in zip(*(r["steps"] for r in results), strict=True)
        ]

    expected = joined(run(tmp_path / "t", tmp_path / "whole", 1, **common))
    assert sorted(row for step in expected for row in step) == list(range(500))
    found, state = [], None
    for number, (size, stop) in enumerate([(1, 5), (2, 8), (1, None)]):
        results = run(tmp_path / "t", tmp_path / f"part {number}", size, stop=stop, state=state, **common)
        found += joined(results)
        state = results[0]["state"]
    assert found == expected
