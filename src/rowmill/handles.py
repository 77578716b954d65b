"""Open files whose handles no signal leaves open.

`handle = os.open(...)` has a gap: a signal that comes while the file is opened raises KeyboardInterrupt before the
number is stored, and the file stays open. Here the number is given to an object that closes it, in one compiled call.
That object is a `select.epoll`: of those that take any number it is the one that closes it without a warning, and
without Python code, in which an interrupt would be lost and a message printed. Where there is none (macOS), a plain
object closes it, and a signal at the wrong moment may leave a file open.
"""

from __future__ import annotations

import os
import select
import tempfile
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any


class PlainHandle:
    """What `select.epoll` is used for here: a number of an open file that is closed with its owner."""

    def __init__(self, number: int) -> None:
        self._number = number

    fromfd = classmethod(lambda cls, number: cls(number))

    def fileno(self) -> int:
        if self._number < 0:
            raise ValueError("I/O operation on closed file")
        return self._number

    def close(self) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)

    def __enter__(self) -> PlainHandle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


if TYPE_CHECKING:
    Handle = select.epoll  # `with handle:`, `handle.fileno()`, `handle.close()`
else:
    Handle = getattr(select, "epoll", PlainHandle)


def open_handle(path: str | os.PathLike[str], flags: int, mode: int = 0o777, dir_fd: int | None = None) -> Handle:
    """`os.open`. The file is closed with its handle, at the latest when nobody has it any more."""
    return _owned(partial(os.open, path, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd))


def memory_file(name: str) -> Handle:
    """A file that is in memory only; or, without `memfd_create` (macOS), one on disk that no folder shows."""
    if hasattr(os, "memfd_create"):
        return _owned(partial(os.memfd_create, name, os.MFD_CLOEXEC))
    return _owned(_unlinked)


def _unlinked() -> int:
    with tempfile.TemporaryFile(prefix="rowmill-") as file:
        return os.dup(file.fileno())


def _owned(opening: Callable[[], int]) -> Handle:
    return next(map(Handle.fromfd, iter(opening, None)))
