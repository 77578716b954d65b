"""A lock that can be pickled: the copy in another process is a new one, not held."""

from __future__ import annotations

import _thread


class Lock(_thread.RLock):  # type: ignore[misc]  # it can be inherited from
    """`threading.RLock` as a context manager, for objects that are sent to spawned processes.

    Its `__enter__` is compiled. One in Python could be interrupted between taking the lock and returning, and nobody
    would ever release it.
    """

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()
