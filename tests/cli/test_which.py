"""`rowmill which`: the rows of a step, by a state that a loader has saved."""

import json

import polars as pl
import pytest

import rowmill
from rowmill.cli import main
from rowmill.loader.numpy import Loader


@pytest.fixture
def saved(tmp_path):
    """A table, a loader of it, and the file with its state."""
    table = tmp_path / "table.parquet"
    pl.DataFrame({"x": range(500)}).write_parquet(table, row_group_size=90)
    loader = Loader(rowmill.Dataset(table), 50, shuffle=True, global_size=2, global_rank=1)
    state = tmp_path / "state.json"
    state.write_text(json.dumps(loader.state_dict()))
    return table, loader, state


def test_rows_of_a_step(saved, capsys):
    table, loader, state = saved
    assert main(["which", str(table), "--state", str(state), "--step", "3", "--rank", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == loader.rows(3).to_dicts()
    assert main(["which", str(table), "--state", str(state), "--step", "3", "--epoch", "2"]) == 0
    out = capsys.readouterr().out
    assert "50 rows" in out and "table.parquet" in out and "--json" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "cannot read"), ("[]", "list"), ("{}", "no state"), ('{"reading": {}}', "other data")],
)
def test_states_that_are_none(saved, capsys, text, said):
    table, _, state = saved
    state.write_text(text)
    assert main(["which", str(table), "--state", str(state), "--step", "3"]) == 1
    assert said in capsys.readouterr().err


def test_a_state_that_is_not_there_and_a_step_beyond_the_epoch(saved, capsys):
    table, _, state = saved
    assert main(["which", str(table), "--state", str(state.parent / "no.json"), "--step", "3"]) == 1
    assert "no.json" in capsys.readouterr().err
    assert main(["which", str(table), "--state", str(state), "--step", "5"]) == 1
    assert "epoch of 5 steps" in capsys.readouterr().err
