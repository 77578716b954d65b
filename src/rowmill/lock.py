"""A lock that can be pickled: the copy in another process is a new one, not held."""

from __future__ import annotations

import threading
from types import TracebackType


class Lock:
    """`threading.Lock` as a context manager, for objects that are sent to spawned processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()
