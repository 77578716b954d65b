"""One rank of a run under torchrun, started by test_accelerate.py: the Trainer of transformers, fed by a loader."""

import json
import sys
from pathlib import Path

import torch
from transformers import Trainer, TrainingArguments

import rowmill
from rowmill.loader.torch import Loader


class Clicks(torch.nn.Module):
    def __init__(self, loader):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        self.seen, self.loader = [], loader

    def forward(self, id, x2, labels):
        self.seen.append(id.tolist()[: len(id) - self.loader.padding])
        logits = self.linear(x2[:, None] / 1000).squeeze(1)
        return {"loss": torch.nn.functional.mse_loss(logits, labels), "logits": logits}


class TableTrainer(Trainer):
    def get_train_dataloader(self):
        return self.accelerator.prepare(self.train_dataset)


def main(folder: str, out: str) -> None:
    loader = Loader(rowmill.Dataset(folder), 8, True, columns=["id", "x2"], targets="label", memory="60KB")
    loader.map(lambda features, label: {**features, "labels": label})
    settings = TrainingArguments(
        f"{out}/runs", num_train_epochs=2, use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True
    )
    model = Clicks(loader)
    trainer = TableTrainer(model, settings, train_dataset=loader)
    trained = trainer.train()
    result = {"seen": model.seen, "steps": trained.global_step, "weight": model.linear.weight.item()}
    Path(out, f"{settings.process_index}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
