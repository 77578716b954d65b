"""One of two ranks, started by test_lightning.py: fits, is interrupted, and goes on from the checkpoint."""

import json
import sys
from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

import rowmill
from rowmill.loader.lightning import DataModule
from tests.loader.lightning_model import QUIET, Interrupt, Model, StopError


def main(folder):
    data = rowmill.Dataset(folder / "table")
    settings = {"batch_size": 100, "columns": ["id", "x2"], "targets": "label", "memory": "60KB"}
    common = {**QUIET, "devices": 2, "strategy": "ddp", "max_epochs": 1}
    before, after = Model(), Model()
    kept = ModelCheckpoint(folder, "kept", every_n_train_steps=2)
    trainer = Trainer(callbacks=[kept, Interrupt(3)], **common)
    try:
        trainer.fit(before, datamodule=DataModule(data, data, **settings))
        raise AssertionError("not interrupted")
    except StopError:
        pass
    Trainer(enable_checkpointing=False, **common).fit(
        after, datamodule=DataModule(data, data, **settings), ckpt_path=folder / "kept.ckpt"
    )
    result = {"before": [rows for _, rows in before.steps[:2]], "after": [rows for _, rows in after.steps]}
    (folder / f"{trainer.global_rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
