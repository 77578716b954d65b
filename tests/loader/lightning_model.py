"""A tiny Lightning module that writes down which rows it was given; used by the tests on Lightning."""

import torch
from lightning.pytorch import Callback, LightningModule


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(1, 1)
        self.steps, self.validated, self.predicted = [], [], []

    def training_step(self, batch, _):
        features, label = batch
        self.steps.append((self.current_epoch, features["id"].tolist()))
        return torch.nn.functional.mse_loss(self.layer(features["x2"][:, None] / 1000).squeeze(1), label)

    def validation_step(self, batch, _):
        self.validated.extend(batch[0]["id"].tolist())

    def test_step(self, batch, _):
        self.validated.extend(batch[0]["id"].tolist())

    def predict_step(self, batch, _):
        return batch[0]["id"]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-4)


class StopError(Exception):
    """What ends an interrupted run."""


class Interrupt(Callback):
    """Ends the run after so many steps, as a fault would."""

    def __init__(self, after):
        self.after = after

    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step == self.after:
            raise StopError


QUIET = {
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "accelerator": "cpu",
    "num_sanity_val_steps": 2,
}
