"""The check of a whole store before its rows are read in any order. Called by `table_cache` and wrapped datasets."""

from __future__ import annotations

import os
from functools import partial

from rowmill._system.threads import map_threads
from rowmill.store import files
from rowmill.store.store import Store


def verify(store: Store) -> bool:
    """Sum all of a store, with up to 8 threads, unless that was done before; rows are then read from it at random."""
    if store.summed:
        return True
    for held in store.maps:
        files.expect_at_random(held)
    step = store.shape.piece_rows * 16
    starts = range(0, store.shape.rows, step)
    verified = partial(_verify_rows, store, step)
    store.summed = all(map_threads(verified, starts, min(8, os.cpu_count() or 1), "rowmill-store"))
    return store.summed


def _verify_rows(store: Store, rows: int, first: int) -> bool:
    return store.verify(first, min(rows, store.shape.rows - first))
