"""What do small batches cost? Question `batches`."""

from __future__ import annotations

import contestants
import tables
from clock import read, rounds
from journal import Journal
from race import BATCH


def ask(journal: Journal, *, quick: bool) -> None:
    """Batches of 1,024 and of 65,536 rows."""
    table = tables.criteo(1_000_000 if quick else 4_000_000)
    runs = {f"rowmill {size}": contestants.rowmill_run(table, size) for size in (1_024, BATCH)}
    for run in runs.values():
        read(run)
    for number, name, reading in rounds(runs, 2 if quick else 5):
        contestant, size = name.split()
        journal.add("batches", contestant, number, reading, varied=int(size))
