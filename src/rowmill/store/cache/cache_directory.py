"""The cache directory: listing of stores, disk usage, and removal of the least recently used (LRU eviction).

A store that a process holds is never removed. Called by `cache` and by `rowmill.cache`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from rowmill.errors import DamagedStoreError
from rowmill.store import files, nofollow
from rowmill.store.format import BUILDING, MANIFEST, MOST_TEXT, parse_json


@dataclass(frozen=True)
class Entry:
    """A store in a cache folder."""

    path: Path
    nbytes: int
    used: float  # when it was last opened, in seconds since 1970
    complete: bool
    rows: int | None = None
    source: str = ""


def default_folder() -> Path:
    """`$ROWMILL_CACHE`, else `rowmill` in the user's cache folder."""
    if own := os.environ.get("ROWMILL_CACHE"):
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rowmill"


def own_folder() -> Path:
    """The default folder, made for this user alone if it is not there. Raises an `OSError` if it is another user's, or
    if others may write to it."""
    folder = default_folder()
    if not folder.is_symlink():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
    with _opened(folder) as handle:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise PermissionError(
                errno.EPERM, f"it belongs to user {found.st_uid}; set ROWMILL_CACHE to a folder of your own"
            )
        if found.st_mode & 0o022:
            raise PermissionError(errno.EPERM, f"other users may write to it; run chmod 700 {folder}")
        if found.st_mode & 0o077 and not os.environ.get("ROWMILL_CACHE"):  # made by an earlier version
            os.fchmod(handle, 0o700)
    return folder


def entries(folder: Path) -> list[Entry]:
    """The stores of a folder, the one that was not used for the longest time first."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _opened(folder) as parent:
        for name in files.names_in(parent):
            with contextlib.suppress(OSError):
                if _is_store(name):
                    found.append(_entry(folder / name, parent))
    return sorted(found, key=lambda entry: entry.used)


def stale(*names: Path) -> list[Path]:
    """Stores of the same files and columns as those of these names, made from other contents."""
    place, own = names[0].name.partition("-")[0], [name.name for name in names]
    return [
        entry.path
        for entry in entries(names[0].parent)
        if entry.path.name.startswith(place) and entry.path.name.removesuffix(BUILDING) not in own
    ]


def make_room(name: Path, need: int, limit: int | None) -> bool:
    """Remove the oldest stores until one more of this size fits in the limit; False if it does not."""
    files.sweep(name.parent)
    if limit is None:
        return True
    others = [e for e in entries(name.parent) if e.path.name.removesuffix(BUILDING) != name.name]
    total = sum(entry.nbytes for entry in others)
    for entry in others:
        if total + need <= limit:
            break
        if files.remove(entry.path):
            total -= entry.nbytes
    return total + need <= limit


def free_bytes(folder: Path) -> int:
    """Bytes free on the disk on which a folder is, or would be."""
    try:
        while not folder.exists():
            folder = folder.parent
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def _opened(folder: Path) -> contextlib.AbstractContextManager[int]:
    return files.opened(nofollow.open_cache_folder(folder))


def _is_store(name: str) -> bool:
    parts = name.removesuffix(BUILDING).split("-")
    return len(parts) == 3 and len(parts[0]) == 12 and len(parts[1]) == 20


def _entry(path: Path, parent: int) -> Entry:
    """What a store says of itself. Raises an `OSError` if it is not a folder, or another user's."""
    complete = not path.name.endswith(BUILDING)
    rows, source = None, ""
    with files.opened(nofollow.open_folder(path.name, parent)) as handle:
        used = os.fstat(handle).st_mtime
        with contextlib.suppress(OSError, ValueError, KeyError, DamagedStoreError):
            content = parse_json(nofollow.read_file(MANIFEST, handle, MOST_TEXT))
            rows, source = content["rows"], content["source"]
            if type(rows) is not int or not isinstance(source, str):
                rows, source = None, ""
    return Entry(path, files.disk_bytes(path), used, complete, rows, source)
