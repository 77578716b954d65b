"""The command: makes the table, runs race and training with live bars, prints a table, draws a picture."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from rich.console import Console

from rowmill import __version__
from rowmill.tools import synthetic
from rowmill.tools.demo.screen import ROWMILL, STOCK, bars, report

if TYPE_CHECKING:
    from rowmill.tools.demo.model import Training
    from rowmill.tools.demo.race import Lap

FILES = 8  # the first two are trained on, the last is held out
# The stock DataLoader, at 0.07 million rows/s, would need minutes for what Rowmill reads in this time.
RACE_SECONDS = 8.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rowmill.tools.demo", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder for the table and the picture")
    parser.add_argument("--rows", type=int, default=3_000_000, help="rows of the table (3,000,000)")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 100)
    if options.rows < 1_000 * FILES:
        console.print(f"--rows {options.rows} is too few to train on; give at least {1_000 * FILES:,}.", style="red")
        return 2
    try:
        import matplotlib  # noqa: F401
        import torch  # noqa: F401
    except ImportError as missing:
        console.print(f'The demo needs {missing.name}; pip install "rowmill\\[demo]".', style="red")
        return 1
    start = time.perf_counter()
    picture = demonstrate(options.output, options.rows, console)
    console.print(f"Picture: {picture}  ({time.perf_counter() - start:.0f} s in all)")
    return 0


def demonstrate(output: Path, rows: int, console: Console) -> Path:
    """Everything, with its results under `output`; returns the picture's path."""
    import torch

    from rowmill.tools.demo import features, model, picture, race

    paths = table(output / "data", rows, console)
    trained, held_out = paths[:2], paths[-1:]
    console.print("Warming up: compiling, and reading the stock loader's rows into memory", style="dim")
    stock, streamed = race.stock(trained), race.rowmill(paths[:-1])
    valid = race.rowmill(held_out, shuffle=False)
    race.lap(streamed, rows=1, seconds=60, passed=_ignore)
    model.train([next(iter(valid))], [next(iter(valid))], _ignore)

    console.print(f"\n[bold]Race:[/] shuffled batches of {race.BATCH:,} rows, nothing done with them")
    goal = 4 * rows
    laps: dict[str, Lap] = {}
    with bars(console, goal) as bar:
        for name, loader in ((STOCK, stock), (ROWMILL, streamed)):
            laps[name] = race.lap(loader, rows=goal, seconds=RACE_SECONDS, passed=bar(name))

    raw_rows = rows // 6
    console.print(
        f"\n[bold]Features:[/] {raw_rows:,} raw clicks, 13 counts filled, clipped, logged, scaled; 26 ids encoded"
    )
    prepared = features.prepare(output / "data", raw_rows)
    console.print(
        f"fitted in {prepared.fit_seconds:.1f} s ({prepared.ids:,} ids), written as Parquet in "
        f"{prepared.transform_seconds:.1f} s; the workflow is saved in {output / 'data' / 'workflow'}"
    )

    console.print(f"\n[bold]Epochs[/] of {_rows_of(paths[:-1]):,} rows with cache=: streamed once, then mapped")
    names = ["streamed", *(f"mapped, {number}" for number in range(2, features.EPOCHS + 1))]
    with bars(console, _rows_of(paths[:-1]), names) as bar:
        features.epochs(paths[:-1], output / "data" / "cache", lambda number: bar(names[number]))

    console.print(f"\n[bold]Training:[/] one epoch of the same {_rows_of(trained):,} rows, the same first weights")
    trainings: dict[str, Training] = {}
    with bars(console, _rows_of(trained)) as bar:
        for name, batches in ((STOCK, stock), (ROWMILL, race.rowmill(trained))):
            trainings[name] = model.train(batches, valid, bar(name))

    console.print(report(laps, trainings))
    console.print(
        f"In the race each had {RACE_SECONDS:.0f} s to deliver {goal:,} rows. The stock DataLoader picked "
        "them from tensors in memory, Rowmill read them from Parquet. "
        f"AUC is on {_rows_of(held_out):,} rows that neither saw.",
        style="dim",
    )
    page = output / "report.html"
    streamed.report(page)
    console.print(f"Report: {page}: the table, the plan and the race's last epoch on one page")
    path = output / "demo.png"
    caption = (
        f"Criteo-shaped table of {rows:,} rows, shuffled batches of {race.BATCH:,}, trained on "
        f"{_rows_of(trained):,} rows. {STOCK}: tensors in memory, 0 workers. {ROWMILL}: Parquet. "
        f"{torch.get_num_threads()} threads, CPU only."
    )
    picture.draw(laps, trainings, path, caption)
    return path


def table(folder: Path, rows: int, console: Console) -> list[Path]:
    """The table's files, from an earlier run or made now."""
    cached = folder / f"criteo-{rows}-{__version__}"
    paths = [cached / f"part_{i}.parquet" for i in range(FILES)]
    if all(path.exists() for path in paths):
        console.print(f"Table: {rows:,} rows from an earlier run in {cached}")
        return paths
    shutil.rmtree(cached, ignore_errors=True)
    start = time.perf_counter()
    with console.status(f"Making {rows:,} rows shaped like the Criteo click logs"):
        synthetic.criteo(cached, rows, files=FILES)
    size = sum(path.stat().st_size for path in paths) / 1e6
    console.print(f"Table: {rows:,} rows, {size:.0f} MB of Parquet, made in {time.perf_counter() - start:.1f} s")
    return paths


def _rows_of(paths: Sequence[Path]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in paths)


def _ignore(rows: int) -> None:
    """Told of rows, says nothing."""


if __name__ == "__main__":
    sys.exit(main())
