"""The folder in which stores stand side by side: what is in it, how much room it takes, and what goes first.

A store that a process holds is never removed. Called by `cache` and by `rowmill.cache`.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from rowmill.store import files
from rowmill.store.layout import BUILDING, MANIFEST


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


def entries(folder: Path) -> list[Entry]:
    """The stores of a folder, the one that was not used for the longest time first."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if _is_store(path):
                    found.append(_entry(path))
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


def _is_store(path: Path) -> bool:
    parts = path.name.removesuffix(BUILDING).split("-")
    return len(parts) == 3 and len(parts[0]) == 12 and len(parts[1]) == 20 and path.is_dir()


def _entry(path: Path) -> Entry:
    complete = not path.name.endswith(BUILDING)
    rows, source = None, ""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads((path / MANIFEST).read_bytes())
        rows, source = int(content["rows"]), str(content["source"])
    return Entry(path, files.disk_bytes(path), path.stat().st_mtime, complete, rows, source)
