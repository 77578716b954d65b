"""One rank of a distributed run, started by test_distributed.py: trains with DDP and writes down what it saw."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import rowmill
from rowmill.loader.torch import Loader


def main(folder: str, out: str, rank: int, size: int, settings: str) -> None:
    options = json.loads(settings)
    dist.init_process_group("gloo", init_method=f"file://{out}/meet", rank=rank, world_size=size)
    stop, state = options.pop("stop", None), options.pop("state", None)
    loader = Loader(rowmill.Dataset(folder), options.pop("global_batch") // size, columns=["id", "x2"], targets="label",
                    shuffle=True, memory="60KB", **options)  # fmt: skip
    assert (loader.global_size, loader.global_rank) == (size, rank), "as torch.distributed has them"
    if state is not None:
        loader.load_state_dict(state)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    steps = []
    for features, label in loader:
        ids = features["id"].tolist()
        steps.append(ids[: len(ids) - loader.padding])
        loss = torch.nn.functional.mse_loss(model(features["x2"][:, None] / 1000).squeeze(1), label)
        optimizer.zero_grad()
        loss.backward()  # waits for the other ranks: a rank with fewer steps would hang here
        optimizer.step()
        if stop is not None and len(steps) == stop:
            break
    weight = model.module.weight.item()
    result = {"steps": steps, "weight": weight, "state": loader.state_dict()}
    Path(out, f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
