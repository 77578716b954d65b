"""The demonstration, on a small table: it runs to the end, says what it measured, and leaves a picture."""

import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

import torch
from rich.console import Console

from rowmill.tools.demo import __main__ as demo
from rowmill.tools.demo import model, race

ROWS = 24_000


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """A folder in which the table is already made."""
    folder = tmp_path_factory.mktemp("demo")
    demo.table(folder / "data", ROWS, Console(quiet=True))
    return folder


def test_it_runs_to_the_end(output, capsys, monkeypatch):
    monkeypatch.setattr(demo, "RACE_SECONDS", 0.2)
    before = torch.random.get_rng_state()
    assert demo.main(["--output", str(output), "--rows", str(ROWS)]) == 0
    said = capsys.readouterr().out
    for wanted in ("million rows/s", "CPU-seconds per million rows", "waiting for data", "AUC", "demo.png"):
        assert wanted in said
    assert (output / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_table_is_made_once(tmp_path, capsys):
    paths = demo.table(tmp_path, ROWS, Console(width=300))
    made = [path.stat().st_mtime_ns for path in paths]
    assert "made in" in capsys.readouterr().out
    assert demo.table(tmp_path, ROWS, Console(width=300)) == paths
    assert "from an earlier run" in capsys.readouterr().out
    assert [path.stat().st_mtime_ns for path in paths] == made
    paths[3].unlink()
    assert demo.table(tmp_path, ROWS, Console(quiet=True)) == paths
    assert all(path.exists() for path in paths)


def test_both_loaders_deliver_the_same_rows(output):
    paths = demo.table(output / "data", ROWS, Console(quiet=True))[:2]

    def rows(loader):
        joined = (torch.cat([cats, conts, label[:, None]], 1) for cats, conts, label in loader)
        return sorted(map(tuple, torch.cat(list(joined)).tolist()))

    from_memory = rows(race.stock(paths))
    assert len(from_memory) == ROWS // 4
    assert rows(race.rowmill(paths)) == from_memory


def test_a_lap_ends_by_rows_or_by_time():
    batches = [(torch.zeros(10),)] * 3
    seen = []
    assert race.lap(batches, rows=45, seconds=60, passed=seen.append).rows == 50
    assert seen == [10] * 5
    assert race.lap(batches, rows=10**12, seconds=0.05, passed=seen.append).rows > 50


def test_score_is_the_share_of_pairs_in_order(monkeypatch):
    draw = np.random.default_rng(0)
    odds = torch.from_numpy(draw.normal(size=200).astype(np.float32))
    label = torch.from_numpy((draw.random(200) < 0.3).astype(np.float32))
    pairs = odds[label > 0][:, None] > odds[label == 0][None, :]

    def in_given_order(cats, conts):
        return conts[:, 0]

    half = [(None, odds[:90, None], label[:90]), (None, odds[90:, None], label[90:])]
    assert model.score(in_given_order, half) == pytest.approx(float(pairs.float().mean()))


def test_a_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert demo.main(["--output", str(tmp_path)]) == 1
    assert 'pip install "rowmill[demo]"' in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_too_few_rows_are_refused(tmp_path, capsys):
    assert demo.main(["--output", str(tmp_path), "--rows", "10"]) == 2
    assert "at least 8,000" in capsys.readouterr().out
