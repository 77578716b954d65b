"""Opens the store of one table, begins it, completes it, and gives it up when it fails.

Comes in: a cache setting and the description of a table. Goes out: a `Store`, complete or begun, or none. What fails
here leads to one warning, and rows are read from their source. Called by `table_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rowmill._system.lock import Lock
from rowmill._system.threads import ThreadGroup
from rowmill.errors import CacheWarning, DamagedStoreError, DtypeError, describe_os_error, warn
from rowmill.feed.report.text_table import bytes_text
from rowmill.feed.run.cache_protocol import Request
from rowmill.store import files
from rowmill.store.cache.cache_directory import default_folder, make_room, own_folder, stale
from rowmill.store.cache.tier_policy import choose_tier
from rowmill.store.format import BUILDING, FORMAT, StoreShape, by_dtype
from rowmill.store.store import Store


class StoreOpener:
    """The store of one table, as one loader sees it: opened when it is needed, and given up when it fails.

    `folder`: where stores are, or None for that of `cache="auto"`. `limit`: the bytes that all stores there may take.
    """

    def __init__(self, folder: Path | None, limit: int | None, request: Request) -> None:
        self._folder, self._limit, self._request = folder, limit, request
        self.widest = StoreShape(by_dtype(request.layout), request.rows, request.lists)
        self.shape = self.widest.narrow  # until a value turns up that does not fit
        self.tier, self.why = choose_tier(request, folder, limit)
        self.store: Store | None = None
        self._finishing: ThreadGroup | None = None
        self._lock = Lock()
        self._warned = False

    @property
    def name(self) -> Path:
        """Where the complete store is, or will be."""
        return self._name_of(self.shape)

    def _name_of(self, shape: StoreShape) -> Path:
        folder, narrow = self._folder or default_folder(), shape != self.widest
        return folder / f"{self._request.place[:12]}-{self._request.key[:20]}-{FORMAT}{'n' if narrow else ''}"

    @property
    def _nbytes(self) -> int:
        return self._request.nbytes - (self.widest.nbytes - self.shape.nbytes)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "store": None, "_finishing": None}

    def wait_until_finished(self) -> None:
        """Wait for the thread that completes the store, if there is one."""
        if self._finishing is not None:
            self._finishing.join()

    def finish(self) -> None:
        """Complete the store if it has all rows: in a thread beside the training loop, because the disk takes its time.
        Called whenever an epoch ends."""
        store = self.store
        if store is None or store.complete or not store.full or (self._finishing and self._finishing.is_alive()):
            return
        self._finishing = ThreadGroup(1, "rowmill-store", daemon=False)
        with suppress(RuntimeError):  # the interpreter is ending: the next run completes it
            self._finishing.start(partial(self._finish, store))

    def _finish(self, store: Store) -> None:
        try:
            store.finish(self.about())
        except (OSError, DamagedStoreError) as error:
            if store.here:  # else somebody has removed it
                self._warn(f"the store {self.name} could not be completed: {error}; rows are read from their source")

    def about(self) -> dict[str, Any]:
        return {"key": self._request.key, "source": self._request.source}

    def renew(self) -> None:
        """Open the store if it is not open, or has been completed since."""
        if self.tier == "source":
            return
        with self._lock:
            if self.store is not None and (self.store.complete or self.store.folder is None):
                return
            try:
                self.store = self._opened()
            except OSError as error:
                self.give_up(error)
        self.finish()

    def _opened(self) -> Store | None:
        if self.tier == "memory":
            return Store.building(self.shape, None)
        if self._folder is None:
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
            elif self.store is not None and self.store.here:
                return self.store
            else:
                found = self._begun()
            if found is not None or self.tier == "source":
                return found
        return None

    def _look_for_wide(self) -> None:
        """Whether anybody has found a value that 4 bytes do not hold: then there is a store with 8, or one begun."""
        name, narrow = self._name_of(self.widest), _building(self.name)
        if self.shape != self.widest and (files.is_folder(name) or files.is_folder(_building(name))):
            self.shape = self.widest
            files.remove(narrow)  # unless another process is still to find out

    def _begun(self) -> Store | None:
        name = self.name
        if not files.is_folder(_building(self.name)):
            if others := stale(self._name_of(self.widest), self._name_of(self.widest.narrow)):
                self._warn(
                    f"the data or settings of {others[0].name} have changed since it was stored; it is not used, and "
                    f"a new store is built; rowmill.cache.clear() removes old ones",
                    once=False,
                )
            if not make_room(name, self._nbytes, self._limit):
                self.tier, self.why = "source", "cache_size is too small"
                self._warn(
                    f"a store of {bytes_text(self._nbytes)} does not fit in cache_size="
                    f"{bytes_text(self._limit or 0)} beside those in use; rows are read from their source"
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

    def rebuild(self, store: Store, error: DamagedStoreError) -> None:
        """Do away with a damaged store, and begin a new one."""
        self._begin_anew(store, self.shape, lambda: self._warn_damage(error))

    def stop_writing(self, store: Store, error: OSError | DtypeError) -> None:
        """Go on without a store; or with a new one, if this one has no room for a value and another would have."""
        if isinstance(error, OSError):
            self.give_up(error)
        elif store.shape != self.widest:
            self._begin_anew(store, self.widest)

    def _begin_anew(self, store: Store, shape: StoreShape, warn: Callable[[], None] = lambda: None) -> None:
        with self._lock:
            if self.store is not store:
                return  # another thread was faster
            warn()
            self.shape = shape
            if store.folder is not None:
                files.remove(store.folder, used=True)
            try:
                self.store = self._opened()
            except OSError as failure:
                self.give_up(failure)

    def give_up(self, error: OSError) -> None:
        """Go on without a store."""
        self.store, self.tier, self.why = None, "source", describe_os_error(error)[0]
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
        self.renew()
        store, size = self.store, bytes_text(self._nbytes)
        share = 0 if store is None else store.pieces.rows / self.shape.rows
        where = "in memory" if self.tier == "memory" else f"mapped from {self.name}"
        return f"{size} {where}, {share:.0%} there" if self.tier != "source" else self.text()


def _building(name: Path) -> Path:
    """Where a store is until it is complete."""
    return name.with_name(name.name + BUILDING)
