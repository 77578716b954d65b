"""The `key=value` folders of file paths: which of them count, and what they say of each file.

Paths as they were written come in; a mapping a file goes out. Called by `paths` when a dataset is opened.
"""

# Paths stay strings: a Path object for each of 10,000 files would cost more than finding them.
# ruff: noqa: PTH118, PTH119, PTH120, PTH208

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NULL = "__HIVE_DEFAULT_PARTITION__"


def hive_top(folders: Iterable[str]) -> str | None:
    """The folder below which all `key=value` folders count: the deepest one above all of these folders, or the one
    above the `key=value` folders that end its path. None where relative and absolute paths have nothing in common.
    """
    try:
        top = os.path.commonpath({os.path.normpath(folder or ".") for folder in folders})
    except ValueError:
        return None
    while split_folder(os.path.basename(top)):
        top = os.path.dirname(top)
    return top


def hive_values(path: str, top: str) -> dict[str, str | None]:
    """The keys and values of the folders between `top` and a file."""
    below = os.path.relpath(path, top or ".").split("/")[:-1]
    return dict(pair for part in below if (pair := split_folder(part)))


def split_folder(name: str) -> tuple[str, str | None] | None:
    """Key and value of a folder named `key=value`; the value is None where Hive's name for null stands."""
    key, equals, value = name.partition("=")
    if not key or not equals:
        return None
    return unquote(key), None if value == _NULL else unquote(value)


def text_keys(
    named: Iterable[str], tops: Collection[str], hive: Iterable[Mapping[str, str | None]], system: FileSystem | None
) -> frozenset[str]:
    """The keys of which a folder beside the named ones has a value that is no integer, though none of theirs has.

    A list of `month=10` and `month=11` has text for months, as the whole table with its `month=01` has.
    """
    texts = {
        key for values in hive for key, value in values.items() if value is not None and not INTEGER.fullmatch(value)
    }
    parents: dict[str, set[str]] = {}
    for folder in set(named):
        here = os.path.normpath(folder or ".")
        while here not in tops and os.path.basename(here) not in ("", ".", ".."):
            pair = split_folder(os.path.basename(here))
            here = os.path.dirname(here)
            if pair and pair[0] not in texts:
                parents.setdefault(here, set()).add(pair[0])
    found: set[str] = set()
    for parent, keys in parents.items():
        if keys <= found:
            continue
        for name in _folders(parent, system):
            key, value = split_folder(name) or ("", None)
            text = key in keys and value is not None and not INTEGER.fullmatch(value)
            if text and _holds_files(os.path.join(parent, name), system):
                found.add(key)
    return frozenset(found)


def _folders(parent: str, system: FileSystem | None) -> list[str]:
    """The names of the folders in a folder; none where it cannot be listed, as the files were named one by one."""
    try:
        if system is None:
            with os.scandir(parent or ".") as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        from pyarrow.fs import FileSelector, FileType

        return [i.base_name for i in system.get_file_info(FileSelector(parent)) if i.type == FileType.Directory]
    except OSError:
        return []


def _holds_files(folder: str, system: FileSystem | None) -> bool:
    """Whether there is anything in a folder; object stores have no empty ones."""
    if system is not None:
        return True
    try:
        return any(name[0] not in "_." for name in os.listdir(folder))
    except OSError:
        return False
