"""One rank of a run under torchrun, started by test_accelerate.py: prepares loaders with Accelerate, and trains."""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

import rowmill
from rowmill.loader.torch import DLDataLoader, Loader, TorchAsyncItr


def ids_of(batch, loader):
    first = batch[0]
    found = (first["id"] if isinstance(first, dict) else first[:, 0]).tolist()
    return found[: len(found) - loader.padding]


def made(data, form):
    settings = {"batch_size": 8, "shuffle": True, "memory": "60KB"}
    if form.startswith("itr"):
        return TorchAsyncItr(data, cats=["id"], conts=["x2"], labels=["label"], **settings)
    return Loader(data, columns=["id", "x2"], targets="label", **settings)


def train(accelerator, loader, form: str, out: str) -> dict:
    """Two epochs with a loader in one form: what this rank saw."""
    given = {"loader": loader, "dl": DLDataLoader(loader), "stock": DataLoader(loader, batch_size=None)}
    model = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    prepared, model, optimizer = accelerator.prepare(given[form.split("-")[-1]], model, optimizer)
    if form == "itr-loader":
        accelerator.register_for_checkpointing(loader)
    result = {"epochs": [], "length": len(prepared)}
    try:
        for _ in range(2):
            steps = []
            for number, batch in enumerate(prepared):
                x2 = batch[0]["x2"][:, None] if isinstance(batch[0], dict) else batch[1]
                loss = torch.nn.functional.mse_loss(model(x2 / 1000).squeeze(1), batch[-1])
                optimizer.zero_grad()
                accelerator.backward(loss)  # waits for the other ranks
                optimizer.step()
                steps.append(ids_of(batch, loader))
                if not result["epochs"] and number == 2 and form == "itr-loader":
                    accelerator.save_state(f"{out}/checkpoint")
            result["epochs"].append(steps)
        if form == "itr-loader":
            accelerator.load_state(f"{out}/checkpoint")  # written by rank 0
            result["resumed"] = [ids_of(batch, loader) for batch in prepared]
    except ValueError as error:
        result["error"] = str(error)
    result["weight"] = accelerator.unwrap_model(model).weight.item()
    return result


def main(folder: str, out: str, forms: str) -> None:
    loaders = {form: made(rowmill.Dataset(folder), form) for form in forms.split(",")}
    accelerator = Accelerator(cpu=True)  # the process group begins here, after the loaders were made
    results = {form: train(accelerator, loader, form, out) for form, loader in loaders.items()}
    Path(out, f"{accelerator.process_index}.json").write_text(json.dumps(results))
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
