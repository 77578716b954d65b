"""Does a row cost the same in one file and in many? Question `files`."""

from __future__ import annotations

import contestants
import tables
from clock import read, rounds
from journal import Journal
from race import BATCH


def ask(journal: Journal, *, quick: bool) -> None:
    """4M rows in 1, 8 and 64 files, in row groups of 62,500 rows everywhere: the same work, in other places."""
    size = 1_000_000 if quick else 4_000_000
    runs = {}
    for files in (1, 8, 64):
        table = tables.criteo(size, files=files, row_group_rows=size // 64)
        runs[f"rowmill {files}"] = contestants.rowmill_run(table, BATCH)
        runs[f"ceiling {files}"] = contestants.ceiling(table)
    for run in runs.values():
        read(run)
    for number, name, reading in rounds(runs, 2 if quick else 5):
        contestant, files = name.split()
        journal.add("files", contestant, number, reading, varied=int(files))
