"""What stands in a cache folder: `rowmill.cache.list()` shows it, `rowmill.cache.clear()` removes it.

A cache folder is one that a loader was given with `cache=`; without an argument, that of `cache="auto"`.
"""

from __future__ import annotations

import builtins
from os import PathLike

from rowmill.sources.files.paths import local_path
from rowmill.store import files
from rowmill.store.cache.cache_directory import Entry, default_folder, entries

__all__ = ["Entry", "clear", "list"]


def list(folder: str | PathLike[str] | None = None) -> builtins.list[Entry]:
    """The stores of a folder, the one that was not used for the longest time first."""
    return entries(default_folder() if folder is None else local_path(folder, "folder"))


def clear(folder: str | PathLike[str] | None = None) -> int:
    """Remove all stores that no process is using; returns how many."""
    path = default_folder() if folder is None else local_path(folder, "folder")
    files.sweep(path)
    return sum(files.remove(entry.path) for entry in entries(path))
