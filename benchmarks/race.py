"""How fast is each way to make batches? All contestants on one table, in turn. Question `race`."""

from __future__ import annotations

import contestants
import tables
from clock import read, rounds
from journal import Journal

BATCH = 65_536


def ask(journal: Journal, *, quick: bool) -> None:
    """4M rows, batch 65,536, five rounds. Slow ones get fewer rows of the same table; rates are compared."""
    table = tables.criteo(1_000_000 if quick else 4_000_000)
    tensors = contestants.in_memory(table)
    few, more = (65_536, 131_072) if quick else (262_144, 524_288)
    runs = {
        "ceiling": contestants.ceiling(table),
        "rowmill": contestants.rowmill_run(table, BATCH),
        "rowmill-ordered": contestants.rowmill_run(table, BATCH, shuffle=False),
        "rowmill-int32": contestants.rowmill_run(table, BATCH, index_dtype="int32"),
        "rowmill-loader": contestants.rowmill_dicts(table, BATCH),
        "perm": contestants.permuted(tensors, BATCH),
        "tensordict": contestants.tensordict(tensors, BATCH),
        "arrow": contestants.arrow(table, BATCH),
        "stock-0": contestants.stock(_head(tensors, few), BATCH, workers=0),
        "stock-2": contestants.stock(_head(tensors, more), BATCH, workers=2),
    }
    for name, run in runs.items():
        if not name.startswith("stock"):
            read(run)  # compile, fault in, start threads: not what is asked
    for number, name, reading in rounds(runs, 2 if quick else 5):
        journal.add("race", name, number, reading, batch_size=BATCH, table_rows=table.rows)


def _head(tensors: contestants.Tensors, rows: int) -> contestants.Tensors:
    cats, conts, label = (tensor[:rows].clone() for tensor in tensors)
    return cats, conts, label
