"""Does a value cost the same in a narrow table and in a wide one? Question `columns`."""

from __future__ import annotations

import contestants
import tables
from clock import read, rounds
from journal import Journal
from race import BATCH


def ask(journal: Journal, *, quick: bool) -> None:
    """10, 40, 100 and 400 columns, 160M values in each table and 10M in each row group."""
    values = 40_000_000 if quick else 160_000_000
    laps = 1 if quick else 3
    runs = {}
    for columns in (10, 40, 100, 400):
        table = tables.wide(values // columns, columns, row_group_rows=10_000_000 // columns)
        runs[f"rowmill {columns}"] = contestants.rowmill_run(table, BATCH, epochs=laps)
        runs[f"ceiling {columns}"] = contestants.repeated(contestants.ceiling(table), laps)
    for run in runs.values():
        read(run)
    for number, name, reading in rounds(runs, 2 if quick else 9):
        contestant, columns_read = name.split()
        journal.add("columns", contestant, number, reading, varied=int(columns_read))
