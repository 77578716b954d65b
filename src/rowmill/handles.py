"""Open files whose handles no signal leaves open.

`handle = os.open(...)` has a gap: a signal that comes while the file is opened raises KeyboardInterrupt before the
number is stored, and the file stays open. Here the number is given to an object that closes it, in one compiled call.
That object is a `select.epoll`: of those that take any number it is the one that closes it without a warning, and
without Python code, in which an interrupt would be lost and a message printed.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from functools import partial

Handle = select.epoll  # `with handle:`, `handle.fileno()`, `handle.close()`


def open_handle(path: str | os.PathLike[str], flags: int, mode: int = 0o777, dir_fd: int | None = None) -> Handle:
    """`os.open`. The file is closed with its handle, at the latest when nobody has it any more."""
    return _owned(partial(os.open, path, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd))


def memory_file(name: str) -> Handle:
    """A file that is in memory only."""
    return _owned(partial(os.memfd_create, name, os.MFD_CLOEXEC))


def _owned(opening: Callable[[], int]) -> Handle:
    return next(map(select.epoll.fromfd, iter(opening, None)))
