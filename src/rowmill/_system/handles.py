"""Open files whose handles no signal leaves open.

`handle = os.open(...)` has a gap: a signal that comes while the file is opened raises KeyboardInterrupt before the
number is stored, and the file stays open. Here the number is given to an object that closes it, in one compiled call.
That object is a `select.epoll`: of those that take any number it is the one that closes it without a warning, and
without Python code, in which an interrupt would be lost and a message printed. Where there is none (macOS), a plain
object closes it, and a signal at the wrong moment may leave a file open.

Windows also has no handles on folders, no locks of `fcntl` and no reading at a position; what replaces them is here.
"""

from __future__ import annotations

import errno
import os
import select
import tempfile
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

try:
    import fcntl as fcntl  # for others too
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Flags that not every system has; where one is missing it asks for nothing.
O_BINARY, O_CLOEXEC, O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK = (
    getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK")
)
# Whether files can be opened by their name in an open folder, without following links: what stores are made of.
HAS_FOLDER_HANDLES = fcntl is not None and os.open in os.supports_dir_fd and O_NOFOLLOW != 0


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
    return _owned(partial(os.open, path, flags | O_CLOEXEC | O_BINARY, mode, dir_fd=dir_fd))


def lock(handle: Handle | int, *, shared: bool = False) -> None:
    """Lock an open file or folder (`flock`). Raises `BlockingIOError` if another process holds it, and another
    `OSError` where there are no such locks."""
    if fcntl is None:
        raise OSError(errno.ENOSYS, "this system has no locks of open files")
    fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def read_at(handle: int, size: int, at: int) -> bytes:
    """At most `size` bytes of a file from position `at` on. Without `pread` (Windows) the file's own position moves."""
    if hasattr(os, "pread"):
        return os.pread(handle, size, at)
    os.lseek(handle, at, os.SEEK_SET)
    return os.read(handle, size)


def read_into(handle: int, buffer: memoryview, at: int) -> int:
    """Fill a buffer with the bytes of a file from position `at` on; returns how many there were."""
    if hasattr(os, "preadv"):
        return os.preadv(handle, [buffer], at)
    found = read_at(handle, len(buffer), at)
    buffer[: len(found)] = found
    return len(found)


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
