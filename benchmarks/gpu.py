"""Checks the way to a GPU on a machine that has one, and measures it. Not run yet: no GPU was at hand.

    python benchmarks/gpu.py            rows equal to the CPU's, then rows per second
    python benchmarks/gpu.py --profile  writes gpu-trace.json for chrome://tracing or Perfetto

Look for in the trace: two copies a batch (one for each dtype), from pinned memory, on a stream of their own, beside the
kernels of the training step; no copy between CPU arrays.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import torch

import rowmill
from rowmill.loader.torch import Loader, TorchAsyncItr

ROWS, BATCH = 4_000_000, 65_536
IDS, NUMBERS = [f"C{i}" for i in range(1, 27)], [f"I{i}" for i in range(1, 14)]


def write(folder: Path) -> rowmill.Dataset:
    """A table of 26 ids, 13 numbers and a label."""
    random = np.random.default_rng(0)
    for part in range(4):
        rows = ROWS // 4
        columns = {"label": random.integers(0, 2, rows).astype(np.float32)}
        columns |= {name: random.random(rows, np.float32) for name in NUMBERS}
        columns |= {name: random.integers(0, 1 << 20, rows) for name in IDS}
        pl.DataFrame(columns).write_parquet(folder / f"{part}.parquet", row_group_size=250_000)
    return rowmill.Dataset(folder)


def equal(data: rowmill.Dataset) -> None:
    """Every value on the GPU is the CPU's, while a training step keeps the GPU busy."""
    made = [Loader(data, BATCH, shuffle=True, targets="label", device=device) for device in ("cpu", "cuda")]
    weight = torch.randn(4096, 4096, device="cuda")
    for (wanted, target), (found, label) in zip(*made, strict=True):
        for _ in range(10):
            weight = torch.tanh(weight @ weight)
        assert torch.equal(target, label.cpu()) and list(wanted) == list(found)
        assert all(torch.equal(column, found[name].cpu()) for name, column in wanted.items())
    print("rows on the GPU are those on the CPU")


def timed(data: rowmill.Dataset, kind: str) -> float:
    """Rows per second of a second epoch."""
    made = {
        "dict": lambda: Loader(data, BATCH, shuffle=True, targets="label", device="cuda"),
        "matrices": lambda: TorchAsyncItr(data, IDS, NUMBERS, ["label"], BATCH, shuffle=True, device="cuda"),
    }[kind]()
    list(made)
    started = time.perf_counter()
    for _ in made:
        pass
    torch.cuda.synchronize()
    return ROWS / (time.perf_counter() - started)


def main() -> None:
    """Compare, measure, and trace if asked."""
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU here")
    with tempfile.TemporaryDirectory() as folder:
        data = write(Path(folder))
        equal(data)
        for kind in ("matrices", "dict"):
            print(f"{kind}: {timed(data, kind) / 1e6:.2f} million rows a second on {torch.cuda.get_device_name()}")
        if "--profile" in sys.argv:
            with torch.profiler.profile() as profile:
                list(Loader(data, BATCH, shuffle=True, targets="label", device="cuda"))
            profile.export_chrome_trace("gpu-trace.json")


if __name__ == "__main__":
    main()
