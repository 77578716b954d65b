"""The cache of one table: rows come from its store, or from their source and go to the store on the way.

`CacheSettings` holds what a user asks for (`cache="folder"` or `"auto"`). Bound to a table it is a `TableCache`: rows
come from the store where it has them, else from their source, and are written to the store on the way. If the store
fails, rows go on from their source after one warning. Called by `feed.run.stream`, through the loaders.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path

from rowmill._system.sizes import parse_bytes
from rowmill.errors import (
    ArgumentError,
    DamagedStoreError,
    StoreError,
)
from rowmill.feed.pack.pack_columns import Columns, Decode, RowSource
from rowmill.feed.run.cache_protocol import Request
from rowmill.feed.run.chunk_buffer import Read
from rowmill.sources.files.paths import local_path
from rowmill.store import files
from rowmill.store.cache.build_store import build_store
from rowmill.store.cache.store_opener import StoreOpener
from rowmill.store.store import Store
from rowmill.store.verify import verify
from rowmill.store.write_through import WriteThrough


@dataclass(frozen=True)
class CacheSettings:
    """A user's wish: a folder, or None for whatever fits; and how many bytes all stores in the folder may take."""

    folder: Path | None
    limit: int | None = None

    def bind(self, request: Request) -> TableCache:
        return TableCache(self, request)


def open_cache(
    cache: str | os.PathLike[str] | None, cache_size: int | float | str | None = None
) -> CacheSettings | None:
    """What the `cache` and `cache_size` of a loader mean: a folder, "auto", or None for no cache."""
    limit = None if cache_size is None else parse_bytes(cache_size, "cache_size")
    if cache is None:
        if limit is not None:
            raise ArgumentError("cache_size without cache; wanted cache='auto' or a folder beside it")
        return None
    if not isinstance(cache, str | os.PathLike) or cache == "":
        raise ArgumentError(f"cache={cache!r}; wanted a folder, 'auto', or None")
    files.check_system()
    return CacheSettings(None if cache == "auto" else local_path(cache, "cache").expanduser().absolute(), limit)


class TableCache(StoreOpener):
    """The rows of one table: from its store where that has them, else from their source and into the store."""

    def __init__(self, settings: CacheSettings, request: Request) -> None:
        super().__init__(settings.folder, settings.limit, request)

    def reader(self, decode: Decode, fragment_rows: Sequence[int]) -> Read:
        """Like `decode`, but rows that are stored are not decoded, and rows that are not are stored."""
        firsts = [0, *accumulate(fragment_rows)]
        self.renew()

        def read(fragment: int, start: int, rows: int) -> Iterator[RowSource]:
            return self._read(firsts[fragment], start, rows, partial(decode, fragment))

        return read

    def _read(
        self, before: int, start: int, rows: int, decode: Callable[[int, int], Iterator[Columns]]
    ) -> Iterator[RowSource]:
        """Rows `start` and on of a fragment that has `before` rows of the table before it."""
        end = start + rows
        for found in self._stored(before + start, rows):
            yield found
            start += found.rows
        if start == end:
            return
        first = before + start
        for columns in decode(start, end - start):
            store = self.store
            if store is None or store.complete:
                yield columns
            else:
                yield WriteThrough(store, first, columns, partial(self.stop_writing, store))
            first += columns.rows

    def _stored(self, first: int, rows: int) -> Iterator[RowSource]:
        """These rows from the store, if it has all of them; they end early where it turns out to be damaged."""
        store = self.store
        if store is None:
            return
        try:
            yield from store.runs(first, rows)
        except DamagedStoreError as error:
            self.rebuild(store, error)
        except OSError as error:
            self.give_up(error)

    def complete_store(self) -> Store:
        """The store with all rows, every piece verified; raises `StoreError` if rows are missing."""
        self.renew()
        self.wait_until_finished()
        self.renew()
        store = self._full_store()
        try:
            while not store.complete and (self.shape.lists or store.folder is None):  # lists must be in order
                store.finish(self.about())
                self.renew()
                if self.store is store and not store.complete:  # another loader or process is completing it
                    threading.Event().wait(0.01)
                store = self._full_store()
            if not verify(store):
                raise DamagedStoreError("a piece that is not what was written")
        except DamagedStoreError as error:
            self.rebuild(store, error)
            raise StoreError(
                f"the store {self.name} was damaged ({error}) and is gone; call loader.build_cache() to build it again"
            ) from error
        return store

    def _full_store(self) -> Store:
        """The store, if it has all rows."""
        store = self.store
        if self.tier == "source":
            raise StoreError(
                f"random access and shuffle='full' need all rows in a store, and these cannot be stored: {self.why}; "
                f"give another cache=, or another shuffle"
            )
        if store is None or not (store.full or not store.missing(0, self.shape.rows)):
            raise StoreError(
                f"random access and shuffle='full' need all {self.shape.rows:,} rows in the store, and it has "
                f"{0 if store is None else store.pieces.rows:,}{f' ({self.why})' if self.why else ''}; run one epoch "
                f"with cache= and another shuffle, or call loader.build_cache()"
            )
        return store

    def build(self, decode: Decode, fragment_rows: Sequence[int], threads: int) -> None:
        """Read all rows that are missing, store them, and complete the store."""
        build_store(self, decode, fragment_rows, threads)
