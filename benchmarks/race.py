"""How fast is each way to make batches? All contestants on one table, in turn. Question `race`."""

from __future__ import annotations

import contestants
import tables
from clock import read, rounds
from journal import Journal

BATCH = 65_536


def ask(journal: Journal, *, quick: bool) -> None:
    """4M rows, batch 65,536, five rounds; rates are compared.

    A reading takes at least a second: the fast go through the table several times, the slow get fewer rows of it.
    """
    table = tables.criteo(1_000_000 if quick else 4_000_000)
    tensors = contestants.in_memory(table)
    laps = 1 if quick else 3
    few, more = (65_536, 131_072) if quick else (262_144, 524_288)
    runs = {
        "ceiling": contestants.repeated(contestants.ceiling(table), laps),
        "rowmill": contestants.rowmill_run(table, BATCH, epochs=laps),
        "rowmill-ordered": contestants.rowmill_run(table, BATCH, epochs=laps, shuffle=False),
        "rowmill-int32": contestants.rowmill_run(table, BATCH, epochs=laps, index_dtype="int32"),
        "rowmill-loader": contestants.repeated(contestants.rowmill_dicts(table, BATCH), laps),
        "perm": contestants.repeated(contestants.permuted(tensors, BATCH), laps),
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
