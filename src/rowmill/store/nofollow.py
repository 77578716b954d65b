"""Open what is in a cache folder without following symbolic links, and check what was opened.

A cache folder may be shared with other users. Where a store's file is expected there may be a link to a file elsewhere,
a pipe that never answers, a device without an end, or a file that another user can change. So every name is looked up
relative to an open folder, links are refused (`O_NOFOLLOW`), and what is open must be a regular file or a folder that
belongs to this user or to root. Called by `files`, `store` and `cache_folder`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from rowmill._system.handles import O_CLOEXEC, O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, Handle, open_handle
from rowmill.errors import DamagedStoreError

FLAGS = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
FOLDER_FLAGS = os.O_RDONLY | O_DIRECTORY | FLAGS
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}


def is_ours(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, or to root, who can change everything anyway."""
    return found.st_uid in (os.geteuid(), 0)


def open_cache_folder(path: Path) -> Handle:
    """A handle on the cache folder that a user has named. A link there is followed if this user or root made it."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) and not is_ours(found):
        raise PermissionError(
            errno.EPERM, f"it is a symbolic link that belongs to user {found.st_uid}; name the folder itself"
        )
    return open_handle(path, FOLDER_FLAGS & ~O_NOFOLLOW)


def open_folder(name: str, parent: int) -> Handle:
    """A handle on a folder in an open folder. Raises an `OSError` if it is not one, or belongs to another user."""
    try:
        handle = open_handle(name, FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        kind = _kind(os.stat(name, dir_fd=parent, follow_symlinks=False))
        raise NotADirectoryError(errno.ENOTDIR, f"{name} is {kind} and not a store; remove it") from error
    found = os.fstat(handle.fileno())
    if not is_ours(found):
        handle.close()
        raise PermissionError(
            errno.EPERM, f"{name} belongs to user {found.st_uid} and is not trusted; use a cache folder of your own"
        )
    return handle


def open_file(name: str, folder: int, flags: int = os.O_RDONLY, *, mode: int = 0o644) -> Handle:
    """A handle on a file in an open folder; with `O_CREAT` it is made if it is not there.

    Raises `DamagedStoreError` if it is no regular file, belongs to another user, or is to be written and has a second
    name, by which it may be any file of this user.
    """
    try:
        _check(name, os.stat(name, dir_fd=folder, follow_symlinks=False), flags)  # a device may act on being opened
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    try:
        handle = open_handle(name, flags | FLAGS, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # put there after the first look
            raise DamagedStoreError(f"its file {name} is no regular file") from error
        raise
    _check(name, os.fstat(handle.fileno()), flags)
    return handle


def read_file(name: str, folder: int, most: int) -> bytes:
    """All bytes of a file in an open folder. Raises `DamagedStoreError` if there are more than `most`."""
    with open_file(name, folder) as held:
        handle = held.fileno()
        size = os.fstat(handle).st_size
        if size > most:
            raise DamagedStoreError(f"its file {name} has {size} bytes; at most {most} were written")
        found = b""
        while len(found) <= size and (text := os.pread(handle, size + 1 - len(found), len(found))):
            found += text
        return found


def _check(name: str, found: os.stat_result, flags: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise DamagedStoreError(f"its file {name} is {_kind(found)}")
    if not is_ours(found):
        raise DamagedStoreError(f"its file {name} belongs to user {found.st_uid}")
    if flags & os.O_ACCMODE != os.O_RDONLY and found.st_nlink > 1:
        raise DamagedStoreError(f"its file {name} has another name elsewhere (a hard link)")


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
