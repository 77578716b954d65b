"""The cache of one table: opens or builds its store, and reads rows from it or from their source.

`CacheSettings` holds what a user asks for (`cache="folder"` or `"auto"`). Bound to a table it is a `TableCache`: rows
come from the store where it has them, else from their source, and are written to the store on the way. If the store
fails, rows go on from their source after one warning. Called by `feed.run.stream`, through the loaders.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from rowmill._system.lock import Lock
from rowmill._system.sizes import parse_bytes
from rowmill._system.threads import Cancel, ThreadGroup, map_threads
from rowmill.errors import (
    ArgumentError,
    CacheWarning,
    DamagedStoreError,
    DataFileError,
    DtypeError,
    StoreError,
    describe_os_error,
    warn,
)
from rowmill.feed.pack.pack_columns import Columns, Decode, RowSource
from rowmill.feed.report.text_table import bytes_text
from rowmill.feed.run.cache_protocol import Request
from rowmill.feed.run.chunk_buffer import Read
from rowmill.sources.files.paths import local_path
from rowmill.store import files
from rowmill.store.cache.cache_directory import default_folder, make_room, own_folder, stale
from rowmill.store.cache.tier_policy import choose_tier
from rowmill.store.format import BUILDING, FORMAT, StoreShape, by_dtype
from rowmill.store.store import Store
from rowmill.store.verify import verify
from rowmill.store.write_through import WriteThrough, keep

T = TypeVar("T")


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


class TableCache:
    """The store of one table, as one loader sees it: opened when it is needed, and given up when it fails."""

    def __init__(self, cache: CacheSettings, request: Request) -> None:
        self._cache, self._request = cache, request
        self._widest = StoreShape(by_dtype(request.layout), request.rows, request.lists)
        self.shape = self._widest.narrow  # until a value turns up that does not fit
        self.tier, self.why = choose_tier(request, cache.folder, cache.limit)
        self._store: Store | None = None
        self._finishing: ThreadGroup | None = None
        self._lock = Lock()
        self._warned = False

    @property
    def name(self) -> Path:
        """Where the complete store is, or will be."""
        return self._name_of(self.shape)

    def _name_of(self, shape: StoreShape) -> Path:
        folder, narrow = self._cache.folder or default_folder(), shape != self._widest
        return folder / f"{self._request.place[:12]}-{self._request.key[:20]}-{FORMAT}{'n' if narrow else ''}"

    @property
    def _nbytes(self) -> int:
        return self._request.nbytes - (self._widest.nbytes - self.shape.nbytes)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None, "_finishing": None}

    def reader(self, decode: Decode, fragment_rows: Sequence[int]) -> Read:
        """Like `decode`, but rows that are stored are not decoded, and rows that are not are stored."""
        firsts = [0, *accumulate(fragment_rows)]
        self._renew()

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
            store = self._store
            if store is None or store.complete:
                yield columns
            else:
                yield WriteThrough(store, first, columns, partial(self._stop_writing, store))
            first += columns.rows

    def _stored(self, first: int, rows: int) -> Iterator[RowSource]:
        """These rows from the store, if it has all of them; they end early where it turns out to be damaged."""
        store = self._store
        if store is None:
            return
        try:
            yield from store.runs(first, rows)
        except DamagedStoreError as error:
            self._rebuild(store, error)
        except OSError as error:
            self._give_up(error)

    def complete_store(self) -> Store:
        """The store with all rows, every piece verified; raises `StoreError` if rows are missing."""
        self._renew()
        if self._finishing is not None:
            self._finishing.join()
            self._renew()
        store = self._full_store()
        try:
            while not store.complete and (self.shape.lists or store.folder is None):  # lists must be in order
                store.finish(self._about())
                self._renew()
                if self._store is store and not store.complete:  # another loader or process is completing it
                    threading.Event().wait(0.01)
                store = self._full_store()
            if not verify(store):
                raise DamagedStoreError("a piece that is not what was written")
        except DamagedStoreError as error:
            self._rebuild(store, error)
            raise StoreError(
                f"the store {self.name} was damaged ({error}) and is gone; call loader.build_cache() to build it again"
            ) from error
        return store

    def _full_store(self) -> Store:
        """The store, if it has all rows."""
        store = self._store
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
        firsts, cancel = [0, *accumulate(fragment_rows)], Cancel()
        self._renew()

        def decoded(store: Store, gaps: Iterable[tuple[int, int]]) -> Iterator[WriteThrough]:
            for gap, rows in gaps:
                first = gap
                while first < gap + rows:
                    fragment = bisect_right(firsts, first) - 1
                    stop = min(gap + rows, firsts[fragment + 1])
                    for columns in decode(fragment, first - firsts[fragment], stop - first):
                        if cancel.requested:
                            return
                        yield WriteThrough(store, first, columns, partial(self._stop_writing, store))
                        first += columns.rows

        def build(run: range) -> None:
            first, rows = firsts[run.start], firsts[run.stop] - firsts[run.start]
            while (store := self._store) is not None and not store.complete and store.missing(first, rows):
                if cancel.requested:
                    return
                try:
                    with store.claim(first, rows) as gaps:
                        keep(store, decoded(store, gaps))
                except DataFileError:  # the source, not the store
                    raise
                except (OSError, DtypeError) as error:
                    self._stop_writing(store, error)
                    if isinstance(error, DtypeError) and store.shape == self._widest:
                        raise
                if store.missing(first, rows):  # another process has them in hand
                    threading.Event().wait(0.01)

        count = len(fragment_rows)
        each = -(-count // threads)  # neighbours, so that few windows are cut at an end
        runs = [range(start, min(start + each, count)) for start in range(0, count, each)]
        store = None
        while store is not self._store:  # again if it was begun anew: some runs may have been done before
            store = self._store
            map_threads(build, runs, threads, "rowmill-store", cancel)
        self.finish()
        if self._finishing is not None:
            self._finishing.join()

    def finish(self) -> None:
        """Complete the store if it has all rows: in a thread beside the training loop, because the disk takes its time.
        Called whenever an epoch ends."""
        store = self._store
        if store is None or store.complete or not store.full or (self._finishing and self._finishing.is_alive()):
            return
        self._finishing = ThreadGroup(1, "rowmill-store", daemon=False)
        with suppress(RuntimeError):  # the interpreter is ending: the next run completes it
            self._finishing.start(partial(self._finish, store))

    def _finish(self, store: Store) -> None:
        try:
            store.finish(self._about())
        except (OSError, DamagedStoreError) as error:
            if store.here:  # else somebody has removed it
                self._warn(f"the store {self.name} could not be completed: {error}; rows are read from their source")

    def _about(self) -> dict[str, Any]:
        return {"key": self._request.key, "source": self._request.source}

    def _renew(self) -> None:
        """Open the store if it is not open, or has been completed since."""
        if self.tier == "source":
            return
        with self._lock:
            if self._store is not None and (self._store.complete or self._store.folder is None):
                return
            try:
                self._store = self._opened()
            except OSError as error:
                self._give_up(error)
        self.finish()

    def _opened(self) -> Store | None:
        if self.tier == "memory":
            return Store.building(self.shape, None)
        if self._cache.folder is None:
            own_folder()
        for _ in range(3):  # a store may be completed or removed while we look
            self._look_for_wide()
            try:
                found = Store.completed(self.shape, self.name)
            except DamagedStoreError as error:
                self._remove(self.name, error)
                continue
            if found is not None:
                files.remove(_building(self.name))  # begun by one who did not see that it was complete
            elif self._store is not None and self._store.here:
                return self._store
            else:
                found = self._begun()
            if found is not None or self.tier == "source":
                return found
        return None

    def _look_for_wide(self) -> None:
        """Whether anybody has found a value that 4 bytes do not hold: then there is a store with 8, or one begun."""
        name, narrow = self._name_of(self._widest), _building(self.name)
        if self.shape != self._widest and (files.is_folder(name) or files.is_folder(_building(name))):
            self.shape = self._widest
            files.remove(narrow)  # unless another process is still to find out

    def _begun(self) -> Store | None:
        name = self.name
        if not files.is_folder(_building(self.name)):
            if others := stale(self._name_of(self._widest), self._name_of(self._widest.narrow)):
                self._warn(
                    f"the data or settings of {others[0].name} have changed since it was stored; it is not used, and "
                    f"a new store is built; rowmill.cache.clear() removes old ones",
                    once=False,
                )
            if not make_room(name, self._nbytes, self._cache.limit):
                self.tier, self.why = "source", "cache_size is too small"
                self._warn(
                    f"a store of {bytes_text(self._nbytes)} does not fit in cache_size="
                    f"{bytes_text(self._cache.limit or 0)} beside those in use; rows are read from their source"
                )
                return None
        try:
            begun = Store.building(self.shape, name)
        except DamagedStoreError as error:
            self._remove(_building(self.name), error)
            return None
        except OSError:
            files.remove(_building(self.name))  # it has no room for the rest either
            raise
        if begun is not None and files.is_folder(name):  # completed since we looked: what we have is new and empty
            begun.close()
            files.remove(_building(self.name))
            return None
        return begun

    def _rebuild(self, store: Store, error: DamagedStoreError) -> None:
        """Do away with a damaged store, and begin a new one."""
        self._begin_anew(store, self.shape, lambda: self._warn_damage(error))

    def _stop_writing(self, store: Store, error: OSError | DtypeError) -> None:
        """Go on without a store; or with a new one, if this one has no room for a value and another would have."""
        if isinstance(error, OSError):
            self._give_up(error)
        elif store.shape != self._widest:
            self._begin_anew(store, self._widest)

    def _begin_anew(self, store: Store, shape: StoreShape, warn: Callable[[], None] = lambda: None) -> None:
        with self._lock:
            if self._store is not store:
                return  # another thread was faster
            warn()
            self.shape = shape
            if store.folder is not None:
                files.remove(store.folder, used=True)
            try:
                self._store = self._opened()
            except OSError as failure:
                self._give_up(failure)

    def _give_up(self, error: OSError) -> None:
        """Go on without a store."""
        self._store, self.tier, self.why = None, "source", describe_os_error(error)[0]
        self._warn(f"the cache {self.name.parent} cannot be used: {self.why}; rows are read from their source")

    def _remove(self, folder: Path, error: DamagedStoreError) -> None:
        files.remove_damaged(folder, error)
        self._warn_damage(error)

    def _warn_damage(self, error: DamagedStoreError) -> None:
        self._warn(f"the store {self.name} was damaged ({error}); it is built again", once=False)

    def _warn(self, text: str, *, once: bool = True) -> None:
        if not (once and self._warned):
            self._warned = self._warned or once
            warn(text, CacheWarning)

    def text(self) -> str:
        """Where rows come from, for a person."""
        if self.tier == "source":
            return f"none: rows are read from their source, {self.why}"
        self._renew()
        store, size = self._store, bytes_text(self._nbytes)
        share = 0 if store is None else store.pieces.rows / self.shape.rows
        where = "in memory" if self.tier == "memory" else f"mapped from {self.name}"
        return f"{size} {where}, {share:.0%} there" if self.tier != "source" else self.text()


def _building(name: Path) -> Path:
    """Where a store is until it is complete."""
    return name.with_name(name.name + BUILDING)
