"""Builds the store of a table: reads all rows that it lacks, with several threads, and completes it.

Called by `table_cache`, for `build_cache()`.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate

from rowmill._system.threads import Cancel, map_threads
from rowmill.errors import DataFileError, DtypeError
from rowmill.feed.pack.pack_columns import Decode
from rowmill.store.cache.store_opener import StoreOpener
from rowmill.store.store import Store
from rowmill.store.write_through import WriteThrough, keep


def build_store(opener: StoreOpener, decode: Decode, fragment_rows: Sequence[int], threads: int) -> None:
    """Read all rows that are missing, store them, and complete the store."""
    firsts, cancel = [0, *accumulate(fragment_rows)], Cancel()
    opener.renew()

    def decoded(store: Store, gaps: Iterable[tuple[int, int]]) -> Iterator[WriteThrough]:
        for gap, rows in gaps:
            first = gap
            while first < gap + rows:
                fragment = bisect_right(firsts, first) - 1
                stop = min(gap + rows, firsts[fragment + 1])
                for columns in decode(fragment, first - firsts[fragment], stop - first):
                    if cancel.requested:
                        return
                    yield WriteThrough(store, first, columns, partial(opener.stop_writing, store))
                    first += columns.rows

    def build(run: range) -> None:
        first, rows = firsts[run.start], firsts[run.stop] - firsts[run.start]
        while (store := opener.store) is not None and not store.complete and store.missing(first, rows):
            if cancel.requested:
                return
            try:
                with store.claim(first, rows) as gaps:
                    keep(store, decoded(store, gaps))
            except DataFileError:  # the source, not the store
                raise
            except (OSError, DtypeError) as error:
                opener.stop_writing(store, error)
                if isinstance(error, DtypeError) and store.shape == opener.widest:
                    raise
            if store.missing(first, rows):  # another process has them in hand
                threading.Event().wait(0.01)

    count = len(fragment_rows)
    each = -(-count // threads)  # neighbours, so that few windows are cut at an end
    runs = [range(start, min(start + each, count)) for start in range(0, count, each)]
    store = None
    while store is not opener.store:  # again if it was begun anew: some runs may have been done before
        store = opener.store
        map_threads(build, runs, threads, "rowmill-store", cancel)
    opener.finish()
    opener.wait_until_finished()
