"""How long until the first batch? Question `first`.

Compared with decoding one row group with all cores, because no batch can come sooner than that.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import polars as pl

import contestants
import tables
from clock import read
from journal import Journal
from race import BATCH


def ask(journal: Journal, *, quick: bool) -> None:
    """A new iterator in a warm process, nothing else running: its first shuffled batch, then it is closed."""
    table = tables.criteo(1_000_000 if quick else 4_000_000)
    groups = cycle(table.row_groups)
    loader = contestants.rowmill_itr(table, BATCH)
    opened: list[Any] = []

    def decode() -> int:
        path, start, rows = next(groups)
        return pl.scan_parquet(path).select(table.columns).slice(start, rows).collect().height

    def first(make: Callable[[], Any]) -> int:
        opened.append(iter(make()))
        return len(next(opened[-1])[-1])

    runs: dict[str, contestants.Run] = {
        "one row group": decode,
        "new iterator": lambda: first(lambda: loader),
        "new loader": lambda: first(lambda: contestants.rowmill_itr(table, BATCH)),
    }
    read(lambda: sum(len(batch[-1]) for batch in loader))
    for number in range(-1, 3 if quick else 15):
        for name, run in runs.items():
            reading = read(run)
            while opened:
                opened.pop().close()  # not timed: the feed ends before the next one starts
            if number >= 0:
                journal.add("first", name, number, reading)
