"""The few things a store does to files, each one call of the system: everything that can fail or be killed is here.

Locks are the kernel's and die with the process. A folder in use is held with a shared `flock`; rows that are being
written are held with a byte-range lock in which a row is a byte, so any run of rows can be claimed. Called by `store`
and `cache`.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
import shutil
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmill._system.handles import HAS_FOLDER_HANDLES, Handle, fcntl, lock
from rowmill.errors import DamagedStoreError, StoreError
from rowmill.store import nofollow

AT_ONCE = 256 << 10  # bytes to write; from some MB on they get huge pages, which can take long to come
FINISH = 1 << 62  # a row number no table has: the claim of the one who completes a store
LOCK_SECONDS = 2  # to wait for a folder that another process has locked
_FLOCK = "hhqqixxxx"  # struct flock on 64-bit Linux
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def check_system() -> None:
    """Refuse to make stores on a system without handles on folders and locks of open files."""
    if not HAS_FOLDER_HANDLES:
        raise StoreError(
            "a cache needs handles on folders and locks of open files, which this system (Windows) does not have; "
            "leave out cache="
        )


def create(name: str, folder: int, flags: int = os.O_RDWR, mode: int = 0o644) -> Handle:
    """Open a file of an open folder to write and read, made if it is not there."""
    return nofollow.open_file(name, folder, flags | os.O_CREAT, mode=mode)


def allocate(handle: int, size: int) -> None:
    """Give a file its full size, with room on the disk for all of it: a full disk is found here, not while writing."""
    found = os.fstat(handle).st_size
    if found > size:
        raise DamagedStoreError(f"a file of {found} bytes; wanted {size}")
    if found == size:
        return
    if not hasattr(os, "posix_fallocate"):  # macOS
        os.ftruncate(handle, size)
        return
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        os.ftruncate(handle, size)


def check_size(handle: int, size: int) -> None:
    """Raise `DamagedStoreError` if a file does not have exactly this size."""
    found = os.fstat(handle).st_size
    if found != size:
        raise DamagedStoreError(f"a file of {found} bytes; wanted {size}")


def write_at(handle: int, data: Any, offset: int, at_once: int = AT_ONCE) -> None:
    """Write all of the data at a place in a file, in writes that end at multiples of `at_once` bytes."""
    left = memoryview(data).cast("B")
    while left:
        written = os.pwrite(handle, left[: at_once - offset % at_once], offset)
        left, offset = left[written:], offset + written


def append(handle: int, data: Any) -> int:
    """Write data at the end of a file that others append to as well; returns where it begins."""
    left = memoryview(data).cast("B")
    written = os.write(handle, left)
    if written != len(left):
        raise OSError(errno.ENOSPC, f"only {written} of {len(left)} bytes were written")
    return os.lseek(handle, 0, os.SEEK_CUR) - written


def sync(handle: int) -> None:
    """Wait until a file is on the disk."""
    os.fsync(handle)


def write_whole(name: str, folder: int, data: bytes) -> None:
    """A small file of an open folder that is there as a whole or not at all."""
    part = f".{name}.{secrets.token_hex(8)}"
    with create(part, folder, os.O_RDWR | os.O_EXCL) as handle:
        write_at(handle.fileno(), data, 0)
        sync(handle.fileno())
    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def opened(handle: Handle) -> Iterator[int]:
    """The number of a handle, which is closed at the end of the block."""
    with handle:
        yield handle.fileno()


def begin(folder: Path) -> None:
    """Make the folder of a store that is being built, and the cache folder, if they are not there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with opened(nofollow.open_cache_folder(folder.parent)) as parent, contextlib.suppress(FileExistsError):
        os.mkdir(folder.name, 0o755, dir_fd=parent)


def publish(building: Path, target: Path) -> None:
    """Let a finished folder take its name, in one step."""
    with opened(nofollow.open_cache_folder(building.parent)) as parent:
        os.rename(building.name, target.name, src_dir_fd=parent, dst_dir_fd=parent)
        sync(parent)


def mapped(handle: int, size: int, *, private: bool = False) -> NDArray[np.uint8]:
    """The bytes of a file, mapped so that nobody can write to them (`private`: so that writes do not reach the file).
    The file must have this size."""
    if size == 0:
        return np.empty(0, np.uint8)
    if private:
        return np.frombuffer(mmap.mmap(handle, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE), np.uint8)
    return np.frombuffer(mmap.mmap(handle, size, mmap.MAP_SHARED, mmap.PROT_READ), np.uint8)


def expect_at_random(held: NDArray[np.uint8]) -> None:
    """Let what is read from the disk into a map from now on come in huge pages, where the kernel has them for files.

    Rows read at random from a store of 0.6 GB that had been dropped from memory then took a tenth to a fifth less time.
    Not for rows that are read in table order: the kernel reads less of them ahead, and a first epoch took half as long
    again; nor for a map that does not fit in memory, of which every row would then be 2 MB to read.
    """
    owner = held.base.obj if isinstance(held.base, memoryview) else None
    if isinstance(owner, mmap.mmap) and held.nbytes <= os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // 2:
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            owner.madvise(mmap.MADV_HUGEPAGE)


def hold(path: Path) -> Handle | None:
    """Hold a store's folder against removal; None if it is not there, or goes while we look.

    Raises an `OSError` if what is there is no folder of ours, or if somebody keeps it locked.
    """
    try:
        with opened(nofollow.open_cache_folder(path.parent)) as parent:
            handle = nofollow.open_folder(path.name, parent)
    except FileNotFoundError:
        return None
    _share(handle.fileno(), path)
    if still_there(path, handle.fileno()):
        return handle
    handle.close()
    return None


def _share(handle: int, path: Path) -> None:
    """Take a shared lock. Whoever removes a store holds it for a moment only; any user who can see it can hold it."""
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return lock(handle, shared=True)
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, f"{path.name} has been locked for {LOCK_SECONDS} s") from None
            time.sleep(0.01)


def is_folder(path: Path) -> bool:
    """Whether there is a folder of this name, and not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def still_there(path: Path, handle: int) -> bool:
    """Whether the path still leads to the folder that is open."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def remove(path: Path, *, used: bool = False) -> bool:
    """Remove a store of ours that nobody holds (or any, with `used`: those who have it mapped keep their view)."""
    gone = f".gone-{secrets.token_hex(6)}"
    with contextlib.suppress(OSError), opened(nofollow.open_cache_folder(path.parent)) as parent:
        with opened(nofollow.open_folder(path.name, parent)) as handle:
            if not used:
                lock(handle)
            os.rename(path.name, gone, src_dir_fd=parent, dst_dir_fd=parent)
        shutil.rmtree(gone, ignore_errors=True, dir_fd=parent)
        return True
    return False


def remove_damaged(folder: Path, error: DamagedStoreError) -> None:
    """Remove a store that cannot be used. Raises an `OSError` if it stays."""
    if not remove(folder, used=True) and is_folder(folder):
        raise PermissionError(errno.EPERM, f"the store {folder.name} is damaged ({error}) and cannot be removed")


def names_in(folder: int) -> list[str]:
    """The names in an open folder."""
    return os.listdir(folder)


def sweep(folder: Path) -> None:
    """Remove what was killed while it was being removed."""
    with contextlib.suppress(OSError), opened(nofollow.open_cache_folder(folder)) as parent:
        for name in names_in(parent):
            if name.startswith(".gone-"):
                with contextlib.suppress(OSError), opened(nofollow.open_folder(name, parent)):
                    shutil.rmtree(name, ignore_errors=True, dir_fd=parent)


@contextmanager
def claimed(handle: int, first: int, rows: int) -> Iterator[bool]:
    """Claim rows for the time of the block; gives False if another process or loader has any of them.

    Without locks of open files (macOS) a claim always succeeds: two processes may write the same rows, with the same
    bytes.
    """
    if not hasattr(fcntl, "F_OFD_SETLK"):
        yield True
        return
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, first, rows, 0))
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, first, rows, 0))


def disk_bytes(folder: Path) -> int:
    """Bytes that a folder takes on the disk."""
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(here) / name).lstat().st_blocks * 512
    return total
