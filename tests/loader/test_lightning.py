"""A real Lightning `Trainer` on our DataModule: every row once, interrupted and resumed, on one rank and on two."""

import json
import os
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("lightning")

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

import rowmill
from rowmill.errors import ArgumentError, StateError
from rowmill.loader.lightning import DataModule, Epochs
from rowmill.loader.torch import Loader, TorchAsyncItr
from tests.conftest import make_table, write_files
from tests.loader.lightning_model import QUIET, Interrupt, Model, StopError

ORDER = {"columns": ["id", "x2"], "targets": "label", "memory": "60KB"}
pytestmark = pytest.mark.filterwarnings("ignore:Be aware that", "ignore:.*exists and is not empty", "ignore:.*LeafSpec")


def module(folder, **settings):
    data = rowmill.Dataset(folder)
    return DataModule(data, data, batch_size=100, **{**ORDER, **settings})


def planned(folder, epochs, **settings):
    """The batches of these epochs as a plain loader gives them, with their epoch."""
    loader = Loader(rowmill.Dataset(folder), 100, shuffle=True, **{**ORDER, **settings})
    return [(epoch, features["id"].tolist()) for epoch in range(epochs) for features, _ in loader]


class Unvalidated(Model):
    validation_step = LightningModule.validation_step


def fit(model, data, path=None, callbacks=(), **settings):
    Trainer(
        callbacks=list(callbacks), **{**QUIET, "max_epochs": 2, "enable_checkpointing": bool(callbacks), **settings}
    ).fit(model, datamodule=data, ckpt_path=path)


def interrupted(folder, tmp_path, every, after, **settings):
    """Rows of a run up to its last checkpoint, and the checkpoint; the run ends some steps later."""
    kept = ModelCheckpoint(tmp_path, "at-{step}", every_n_train_steps=every, save_top_k=-1)
    model = Model()
    with pytest.raises(StopError):
        fit(model, module(folder), callbacks=[kept, Interrupt(after)], **settings)
    step = after // every * every
    return model.steps[:step], tmp_path / f"at-step={step}.ckpt"


def test_a_trainer_sees_every_row_once_an_epoch_in_the_planned_order(folder):
    model = Model()
    fit(model, module(folder))
    assert model.steps == planned(folder, 2)
    assert sorted(row for epoch, rows in model.steps if epoch == 1 for row in rows) == list(range(1003))
    assert model.validated == [*range(200), *range(1003), *range(1003)], "the sanity check, and two validations"


@pytest.mark.parametrize(("every", "after"), [(3, 5), (4, 17), (11, 11), (11, 13)])
def test_a_run_that_was_interrupted_goes_on_with_the_next_batch(folder, tmp_path, every, after):
    """Also when the checkpoint was made at the end of an epoch, and in the second epoch."""
    before, path = interrupted(folder, tmp_path, every, after)
    model = Model()
    fit(model, module(folder), path)
    assert before + model.steps == planned(folder, 2)


def test_a_checkpoint_of_each_epoch(folder, tmp_path):
    kept = ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1)
    fit(Model(), module(folder), callbacks=[kept], max_epochs=1)
    model = Model()
    fit(model, module(folder), tmp_path / "epoch=0.ckpt")
    assert model.steps == planned(folder, 2)[11:]


def test_an_epoch_that_the_trainer_cuts_short(folder, tmp_path):
    kept = ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1)
    fit(Model(), module(folder), callbacks=[kept], max_epochs=1, limit_train_batches=4)
    model = Model()
    fit(model, module(folder), tmp_path / "epoch=0.ckpt", limit_train_batches=4)
    assert model.steps == planned(folder, 2)[11:15]


def test_loaders_made_anew_for_every_epoch(folder):
    model = Model()
    fit(model, module(folder), reload_dataloaders_every_n_epochs=1)
    assert model.steps == planned(folder, 2)


def test_a_checkpoint_of_other_data_is_refused(folder, tmp_path):
    _, path = interrupted(folder, tmp_path, 3, 3)
    with pytest.raises(StateError, match="its seed is 0, this loader's is 5"):
        fit(Model(), module(folder, seed=5), path)


def test_two_ranks_are_interrupted_and_go_on(tmp_path):
    """Ranks are the trainer's. Rank 0 writes the checkpoint, and each rank goes on with its own rows."""
    write_files(tmp_path / "table", make_table(1003))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).parents[2]
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0", "WORLD_SIZE": "2"}
    env["PYTHONPATH"] = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(Path(__file__).with_name("lightning_worker.py")), str(tmp_path)]
    workers = [
        subprocess.Popen(command, env={**env, "LOCAL_RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for worker in workers:
        _, err = worker.communicate(timeout=150)
        assert worker.returncode == 0, err
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        expected = [rows for _, rows in planned(tmp_path / "table", 1, global_size=2, global_rank=rank)]
        assert found["before"] + found["after"] == expected and len(found["before"]) == 2


def test_an_elastic_run_goes_on_with_another_number_of_ranks(folder):
    def epochs(ranks, rank):
        settings = {**ORDER, "shuffle": True, "elastic": 2, "global_size": ranks, "global_rank": rank}
        return Epochs(Loader(rowmill.Dataset(folder), 100 // ranks, **settings), lambda: float("inf"))

    one, rows = epochs(1, 0), set()
    for number, (features, _) in enumerate(one, 1):
        rows |= set(features["id"].tolist())
        if number == 3:
            break
    assert len(rows) == 300
    for rank in range(2):
        part = epochs(2, rank)
        part.load_state_dict(one.state_dict())
        rows |= {row for features, _ in part for row in features["id"].tolist()}
    assert rows == set(range(1003))


def test_other_stages_and_loaders(folder):
    data = rowmill.Dataset(folder)
    trainer = Trainer(**QUIET, enable_checkpointing=False)
    batches = trainer.predict(Model(), datamodule=DataModule(predict=data, batch_size=100, **ORDER))
    assert [row for batch in batches for row in batch.tolist()] == list(range(1003))
    model = Model()
    trainer.test(model, datamodule=DataModule(test=data, batch_size=100, **ORDER), verbose=False)
    assert model.validated == list(range(1003))
    with warnings.catch_warnings(record=True) as said:  # nothing of a loader that Lightning would find and not use
        warnings.simplefilter("always")
        fit(Unvalidated(), DataModule(data, batch_size=100, **ORDER), max_epochs=1)  # no validation table
    assert not [str(one.message) for one in said if "val_dataloader" in str(one.message)]
    matrices = DataModule(data, loader=TorchAsyncItr, batch_size=64, cats=["id"], conts=["x1"], labels=["label"])
    x_cat, x_cont, y = next(iter(matrices.train_dataloader()))
    assert (x_cat.shape, x_cont.shape, y.shape) == ((64, 1), (64, 1), (64,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "without a table"),
        ({"train": "folder"}, "train is str; wanted a rowmill.Dataset"),
        ({"train": rowmill.Dataset({"a": [1]}), "device": "cpu"}, "the trainer decides it"),
        ({"train": rowmill.Dataset({"a": [1]}), "colums": ["a"]}, "settings of Loader: .*colums"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        DataModule(**arguments)


def test_a_stage_without_a_table_is_said(folder):
    with pytest.raises(ArgumentError, match="no table for 'test'"):
        module(folder).test_dataloader()
