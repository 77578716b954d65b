"""Asks every question, prints the answers, and puts them into docs/benchmarks.md and the README.

python benchmarks/run.py [--quick] [--only race rows ...] [--clean]

A full run takes about ten minutes and 8 GB of disk in the cache folder. `--quick` asks the same of smaller
tables in a minute or two, to see that everything runs: its figures mean little, so they stay in the cache
folder and the README is not touched.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from rich.console import Console
from rich.table import Table

import batches
import columns
import files
import first
import keras_feed
import overhead
import plot
import prepare
import race
import rows
import start
import store
import tables
import targets
from journal import RESULTS, Journal, newest
from publish import publish
from summary import figures, varied
from titles import TITLES

QUESTIONS = {
    module.__name__: module.ask
    for module in (race, rows, files, columns, batches, first, start, store, keras_feed, overhead, prepare)
}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Measure Rowmill against its peers.")
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer rounds; nothing is published")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS), metavar="QUESTION")
    parser.add_argument("--clean", action="store_true", help="remove the cached tables and stop")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 110)
    if options.clean:
        shutil.rmtree(tables.cache())
        return
    results = tables.cache() / "quick-results" if options.quick else RESULTS
    journal = Journal(results, quick=options.quick)
    for name in options.only:
        start = time.perf_counter()
        QUESTIONS[name](journal, quick=options.quick)
        console.print(f"{name}: {time.perf_counter() - start:.0f} s", style="dim")
    for name in options.only:
        console.print(_answers(name, newest(name, results)))
    console.print(targets.show(results))
    if options.quick:
        if race_records := newest("race", results):
            plot.draw(race_records, results / "bench.png")
    elif not publish(results):
        console.print(
            "README.md or docs/benchmarks.md has no markers for the results; both are left as they are.", style="yellow"
        )
    console.print(f"readings: {journal.path}", style="dim")


def _answers(question: str, records: list[dict]) -> Table:
    table = Table("", "million rows/s", "CPU-s per million rows", "ms", "rounds", title=question)
    for name in figures(records):
        several = varied(records, name) if "varied" in records[0] else {}
        answers = (
            {f"{name}, {value:,}": figure for value, figure in sorted(several.items())}
            if several
            else {TITLES.get(name, name): figures(records)[name]}
        )
        for title, figure in answers.items():
            table.add_row(
                title.replace("[", "\\["),
                f"{figure.rows_per_second / 1e6:.3f}",
                f"{figure.cpu_per_million:.3f}",
                f"{figure.seconds * 1e3:.0f}",
                str(figure.rounds),
            )
    return table


if __name__ == "__main__":
    main()
