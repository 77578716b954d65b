"""Does a row cost the same in a small table and in a large one? Question `rows`."""

from __future__ import annotations

import contestants
import tables
from clock import read, rounds
from journal import Journal
from race import BATCH


def ask(journal: Journal, *, quick: bool) -> None:
    """1M, 4M and 16M rows; small tables are read several times, so that every reading is of as many rows."""
    sizes = (250_000, 1_000_000) if quick else (1_000_000, 4_000_000, 16_000_000)
    group = 62_500 if quick else 250_000
    runs = {}
    for size in sizes:
        table, epochs = tables.criteo(size, row_group_rows=group), sizes[-1] // size
        runs[f"rowmill {size}"] = contestants.rowmill_run(table, BATCH, epochs=epochs)
        runs[f"ceiling {size}"] = contestants.repeated(contestants.ceiling(table), epochs)
    for run in runs.values():
        read(run)
    for number, name, reading in rounds(runs, 2 if quick else 3):
        contestant, size = name.split()
        journal.add("rows", contestant, number, reading, varied=int(size))
