"""What speed was promised, and what the newest results show: met, aim met, or missed.

python benchmarks/targets.py [folder of results]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from journal import RESULTS, newest
from summary import Figure, figures, spread, varied


@dataclass(frozen=True)
class Target:
    """A promise: a figure that must be at least (or at most) `wanted`, better `aim`."""

    what: str
    reached: float | None
    wanted: float
    aim: float | None = None
    at_most: bool = False
    unit: str = "x"

    @property
    def verdict(self) -> str:
        if self.reached is None:
            return "not measured"
        if self.aim is not None and self._passes(self.aim):
            return "aim met"
        return "met" if self._passes(self.wanted) else "missed"

    def _passes(self, bound: float) -> bool:
        assert self.reached is not None
        return self.reached <= bound if self.at_most else self.reached >= bound


def targets(folder: Path = RESULTS) -> Iterator[Target]:
    """Every promise, with the figure reached in the newest results, or None where none were taken."""
    race = figures(newest("race", folder))

    def ratio(other: str, of: Callable[[Figure], float] = lambda figure: figure.rows_per_second) -> float | None:
        return of(race["rowmill"]) / of(race[other]) if {"rowmill", other} <= race.keys() else None

    yield Target("rows/s of the ceiling", ratio("ceiling"), 0.7)
    cpu = ratio("ceiling", lambda figure: figure.cpu_per_million)
    yield Target("CPU-seconds of the ceiling", cpu, 1.35, at_most=True)
    yield Target("rows/s of tensor[perm] from RAM", ratio("perm"), 2, 4)
    yield Target("rows/s of TensorDict memmap", ratio("tensordict"), 6)
    yield Target("rows/s of DataLoader, 0 workers", ratio("stock-0"), 40)
    yield Target("rows/s of DataLoader, 2 workers", ratio("stock-2"), 25)
    yield from _flat("rows", "cost per row, 1M to 16M rows", folder)
    yield from _flat("files", "cost per row, 1 to 64 files", folder)
    yield from _flat("columns", "cost per value, 10 to 400 columns", folder)
    sizes = varied(newest("batches", folder), "rowmill")
    small = sizes[1_024].rows_per_second / sizes[65_536].rows_per_second if len(sizes) == 2 else None
    yield Target("rows/s at batch 1,024 of those at 65,536", small, 0.8)
    first = figures(newest("first", folder))
    wait = first["new iterator"].seconds / first["one row group"].seconds if first else None
    yield Target("first batch, in times of decoding a row group", wait, 2, at_most=True)
    yield from _start(figures(newest("start", folder)))
    yield from _store(figures(newest("store", folder)))
    yield from _keras(folder)
    yield from _overhead(newest("overhead", folder))
    yield from _prepare(folder)


def _prepare(folder: Path) -> Iterator[Target]:
    """What a workflow costs against a plain program, and whether a row costs the same in a large table."""
    found = figures(newest("prepare", folder))
    for what, wanted, aim in (("fit", 1.0, 0.7), ("transform", 0.7, 0.4)):
        cpu = found[what].cpu_per_million / found[f"{what} by hand"].cpu_per_million if found else None
        yield Target(f"workflow: CPU-seconds to {what}, of plain Polars", cpu, wanted, aim, at_most=True)
        sizes = varied(newest("prepare_rows", folder), what)
        cpu = sizes[max(sizes)].cpu_per_million / sizes[min(sizes)].cpu_per_million if sizes else None
        yield Target(f"workflow: CPU-seconds a row to {what}, 16M rows of 2M", cpu, 1.2, at_most=True)


def _start(found: dict[str, Figure]) -> Iterator[Target]:
    def ratio(names: str, of: str) -> float | None:
        wanted = names.split(" + ")
        return sum(found[name].seconds for name in wanted) / found[of].seconds if found else None

    decode, by_hand = "decode with Polars", "fit by hand with Polars"
    whole = "import rowmill + import Dataset and Loader + first batch"
    yield Target("new process: imports and first batch, in times of decoding", ratio(whole, decode), 3, at_most=True)
    yield Target("new process: first batch alone, in times of decoding", ratio("first batch", decode), 3, at_most=True)
    yield Target("new process: first fit, in times of Polars by hand", ratio("first fit", by_hand), 3, at_most=True)
    yield Target("later fit, in times of Polars by hand", ratio("later fit", by_hand), 3, at_most=True)


def _store(found: dict[str, Figure]) -> Iterator[Target]:
    """What the store was promised to cost and to save."""

    def ratio(one: str, other: str, of: Callable[[Figure], float] = lambda f: f.rows_per_second) -> float | None:
        return of(found[one]) / of(found[other]) if {one, other} <= found.keys() else None

    def cost(figure: Figure) -> float:
        return 1 / figure.rows_per_second

    yield Target("store: first epoch, in times of one without", ratio("first", "plain", cost), 1.25, at_most=True)
    as_found = ratio("first as found", "plain as found", cost)
    yield Target("store: the same, memory as the host leaves it", as_found, 1.25, at_most=True)
    cpu = ratio("later", "first", lambda figure: figure.cpu_per_million)
    yield Target("store: CPU-seconds of later epochs, of the first's", cpu, 0.5, at_most=True)
    yield Target("store: rows/s of np.take from RAM", ratio("later", "take"), 0.8)
    yield Target("store: full shuffle, rows/s of the chunked one", ratio("full", "later"), 0.6)
    yield Target("store: the same, filled by an epoch", ratio("full filled", "later"), 0.6)
    yield Target("store: the same, read back from disk", ratio("full read back", "later"), 0.6)
    yield Target("store: rows/s of TensorDict memmap", ratio("later", "tensordict"), 5)
    yield Target("store: rows/s of DataLoader, 0 workers", ratio("later", "stock-0"), 50)
    yield Target("store: rows/s of datasets with_format('torch')", ratio("later", "datasets"), 50)
    yield Target("store: rows/s of np.memmap, row by row", ratio("later", "memmap-rows"), 50)
    yield Target("store: wrapping a dataset, in passes over it", ratio("wrap", "pass", cost), 1.1, at_most=True)


def _keras(folder: Path) -> Iterator[Target]:
    """Rows/s of iteration and of `fit` against those of others; a ratio of epoch times is the inverse."""
    found = figures(newest("keras_feed", folder))

    def ratio(one: str, other: str) -> float | None:
        return found[one].rows_per_second / found[other].rows_per_second if {one, other} <= found.keys() else None

    yield Target("TensorFlow: rows/s of the torch loader", ratio("tensorflow", "torch"), 0.9)
    yield Target("TensorFlow: rows/s of tf.data from TFRecord", ratio("tensorflow, small", "tfrecord"), 20)
    yield Target("fit: epoch time of TFRecord's", ratio("fit tfrecord", "fit rowmill"), 0.35, at_most=True)
    yield Target("fit: epoch time of arrays in RAM (PyDataset)", ratio("fit pydataset", "fit rowmill"), 1, at_most=True)
    yield Target("fit: epoch time of arrays in RAM (tf.data)", ratio("fit slices", "fit rowmill"), 1, at_most=True)
    yield Target("fit: rows/s of batches made beforehand", ratio("fit rowmill", "fit ready"), 0.8)
    yield Target("fit: rows/s of a Sequence of rows", ratio("fit rowmill", "fit sequence"), 9)
    yield Target("fit: rows/s of a generator of rows, unshuffled", ratio("fit rowmill", "fit generator"), 9)


def _overhead(records: list[dict[str, Any]]) -> Iterator[Target]:
    """Milliseconds that a loader adds to a batch: the dearest of the frameworks, streaming and from a store."""
    found = figures(records)
    for way in ("streamed", "stored"):
        epochs = [(f, found[name.replace("loader", "bare")]) for name, f in found.items() if f"{way}, loader" in name]
        added = [1e3 * (made.seconds - bare.seconds) / records[0]["batches"] for made, bare in epochs]
        most = max(added) if added else None
        yield Target(f"ms a batch added by a loader, {way}, any framework", most, 0.3, at_most=True, unit=" ms")


def _flat(question: str, what: str, folder: Path) -> Iterator[Target]:
    """The dearest over the cheapest, in wall and in CPU time; in the question `columns` per value."""
    found = varied(newest(question, folder), "rowmill")
    weights = {value: value if question == "columns" else 1 for value in found}
    wall = [1 / figure.rows_per_second / weights[value] for value, figure in found.items()]
    cpu = [figure.cpu_per_million / weights[value] for value, figure in found.items()]
    yield Target(f"{what}: wall, largest/smallest", spread(wall) if wall else None, 1.2, at_most=True)
    yield Target(f"{what}: CPU, largest/smallest", spread(cpu) if cpu else None, 1.2, at_most=True)


def show(folder: Path = RESULTS) -> Table:
    """All promises as a table for the terminal."""
    quick = any(record["machine"].get("quick") for record in newest("race", folder))
    title = "Targets, from a quick run on small tables: not the real figures" if quick else "Targets"
    table = Table("Rowmill, shuffled", "wanted", "aim", "reached", "", title=title)
    colours = {"missed": "red", "met": "green", "aim met": "bold green", "not measured": "yellow"}
    for target in targets(folder):
        sign = "<=" if target.at_most else ">="
        reached = "" if target.reached is None else f"{target.reached:.2f}{target.unit}"
        aim = "" if target.aim is None else f"{sign} {target.aim:g}{target.unit}"
        verdict = f"[{colours[target.verdict]}]{target.verdict}"
        table.add_row(target.what.replace("[", "\\["), f"{sign} {target.wanted:g}{target.unit}", aim, reached, verdict)
    return table


if __name__ == "__main__":
    Console(width=None if sys.stdout.isatty() else 110).print(show(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS))
