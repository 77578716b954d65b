"""The demonstration of memory mapping: epoch by epoch, the stock `DataLoader` against the mapped one, with wrapping.

`python -m rowmill.tools.demo_memmap --output FOLDER` does it for image-like tensors and for a table, prints what came
out and draws it, with the epoch from which on wrapping has paid. Needs the extra `demo` and TensorDict.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from torch.utils.data import Dataset

EPOCHS = 5
BATCH = 256
STOCK, MAPPED = "DataLoader", "mapped"


@dataclass(frozen=True)
class Contest:
    """Seconds of wrapping, and of each epoch both ways."""

    title: str
    items: int
    wrapping: float
    stock: tuple[float, ...]
    mapped: tuple[float, ...]

    @property
    def break_even(self) -> float:
        """Epochs after which wrapping has paid: where the lines meet, or would if epochs went on as they were."""
        left = self.wrapping
        for epoch, (stock, mapped) in enumerate(zip(self.stock, self.mapped, strict=True)):
            if stock - mapped >= left:
                return epoch + left / (stock - mapped)
            left -= stock - mapped
        saved = (sum(self.stock) - sum(self.mapped)) / len(self.stock)
        return len(self.stock) + left / saved if saved > 0 else float("inf")


def contests(scale: float) -> dict[str, Dataset[Any]]:
    """What is wrapped: images whose items are decoded from bytes, and rows of a table."""
    import torch
    from torch.utils.data import Dataset

    class Images(Dataset[Any]):
        """Bytes that become a normalised float tensor each time they are fetched, as a decoded picture would."""

        def __init__(self, rows: int) -> None:
            random = torch.Generator().manual_seed(0)
            self.bytes = torch.randint(0, 256, (rows, 3, 32, 32), dtype=torch.uint8, generator=random)

        def __len__(self) -> int:
            return len(self.bytes)

        def __getitem__(self, index: int) -> Any:
            x = self.bytes[index].float().div_(255)
            return (x - x.mean()) / (x.std() + 1e-6), index % 10

    class TableRows(Dataset[Any]):
        """A row of 26 ids, 13 numbers and a label."""

        def __init__(self, rows: int) -> None:
            random = torch.Generator().manual_seed(0)
            self.ids = torch.randint(0, 10**6, (rows, 26), generator=random)
            self.numbers = torch.rand(rows, 13, generator=random)

        def __len__(self) -> int:
            return len(self.ids)

        def __getitem__(self, index: int) -> Any:
            return {"ids": self.ids[index], "numbers": self.numbers[index], "label": float(index % 2)}

    return {"images": Images(int(12_000 * scale)), "table": TableRows(int(60_000 * scale))}


def compete(title: str, ds: Any, folder: Path) -> Contest:
    """Wrap a dataset, then run the epochs of both."""
    from torch.utils.data import DataLoader

    from rowmill.loader.tensordict import Collate_Fn, dataset_to_tensordict

    start = time.perf_counter()
    wrapped = dataset_to_tensordict(ds=ds, DEVICE="cpu", folder=folder, progress=False)
    wrapping = time.perf_counter() - start
    mapped: Any = DataLoader(wrapped, BATCH, shuffle=True, collate_fn=Collate_Fn(batch_size=BATCH, DEVICE="cpu"))
    stock: Any = DataLoader(ds, BATCH, shuffle=True)
    times = [tuple(_epoch(loader) for _ in range(EPOCHS)) for loader in (stock, mapped)]
    return Contest(title, len(ds), wrapping, *times)


def _epoch(loader: Iterable[Any]) -> float:
    start = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - start


def report(found: Sequence[Contest]) -> Table:
    """What was measured, as a table for the terminal."""
    table = Table("", "items", "wrapping", *(f"epoch {n + 1}" for n in range(EPOCHS)), "pays after", title="Seconds")
    for contest in found:
        table.add_row(f"{contest.title}, {STOCK}", f"{contest.items:,}", "", *(f"{s:.2f}" for s in contest.stock), "")
        epochs = f"{contest.break_even:.1f} epochs"
        wrapped = (f"{contest.wrapping:.2f}", *(f"{s:.3f}" for s in contest.mapped))
        table.add_row(f"{contest.title}, {MAPPED}", "", *wrapped, epochs)
    return table


def draw(found: Sequence[Contest], path: Path) -> None:
    """Time spent after each epoch, wrapping included, and where the two lines meet."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), facecolor="white")
    FigureCanvasAgg(figure)
    for axes, contest in zip(figure.subplots(1, len(found)), found, strict=True):
        axes.plot(range(EPOCHS + 1), _sums(0.0, contest.stock), "o-", color="#8A9099", label=f"{STOCK}, item by item")
        label = "wrapped once, then mapped"
        axes.plot(range(EPOCHS + 1), _sums(contest.wrapping, contest.mapped), "o-", color="#0072B2", label=label)
        if contest.break_even <= EPOCHS:
            axes.axvline(contest.break_even, color="#E69F00", linestyle="--", linewidth=1.5)
            axes.annotate(f"pays after {contest.break_even:.1f} epochs", (contest.break_even, 0), (6, 6), fontsize=9,
                          textcoords="offset points", color="#22262B")  # fmt: skip
        faster = sum(contest.stock) / sum(contest.mapped)
        axes.set_title(f"{contest.title}: epochs {faster:.0f} times as fast", loc="left", fontsize=11)
        axes.set_xlabel("epochs")
        axes.set_ylabel("seconds in all, wrapping included")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=9, framealpha=1, edgecolor="none")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _sums(start: float, seconds: Sequence[float]) -> list[float]:
    return [start + sum(seconds[:count]) for count in range(len(seconds) + 1)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rowmill.tools.demo_memmap", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder for the picture")
    parser.add_argument("--scale", type=float, default=1.0, help="how many items, in times of the usual number")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 110)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for title, ds in contests(options.scale).items():
            with console.status(f"{title}: wrapping, then {EPOCHS} epochs both ways"):
                found.append(compete(title, ds, Path(folder)))
    console.print(report(found))
    path = options.output / "memmap.png"
    draw(found, path)
    console.print(f"Picture: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
