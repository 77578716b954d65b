"""The index of a pandas frame, as files and Arrow tables store it: columns that are rows' numbers and no features.

An index without a name is stored as `__index_level_0__` (and 1, 2, ... for its other levels). Sources leave such
columns out of their schema and read them where they are asked for by name. An index with a name is a column like any
other. An index that counts evenly (a `RangeIndex`) is not stored with the rows at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from rowmill.errors import warn
from rowmill.schema import Schema

_LEVEL = re.compile(r"__index_level_\d+__")
_T = TypeVar("_T")


def listed(columns: Mapping[str, _T]) -> dict[str, _T]:
    """The columns that a schema lists: all but those of an index; all where there is nothing else."""
    return {name: value for name, value in columns.items() if not _LEVEL.fullmatch(name)} or dict(columns)


def unlisted(columns: Mapping[str, _T]) -> dict[str, _T]:
    """The columns of an index, which can be read but are not listed."""
    kept = listed(columns)
    return {name: value for name, value in columns.items() if name not in kept}


def unlisted_schema(source: object) -> Schema:
    """The columns of a source that can be read but are not in its schema."""
    found = getattr(source, "unlisted", None)
    return found if isinstance(found, Schema) else Schema()


def only_common_index(tables: Sequence[tuple[str, Mapping[str, _T]]]) -> list[tuple[str, Mapping[str, _T]]]:
    """Tables without the index columns that some of them lack: pandas stores an index only where rows were dropped or
    moved, so files of one table may differ in it."""
    common = set.intersection(*(set(types) for _, types in tables)) if tables else set()
    return [
        (name, {c: t for c, t in types.items() if c in common or not _LEVEL.fullmatch(c)}) for name, types in tables
    ]


def range_names(metadata: bytes | None) -> list[str]:
    """The names of the even indices that a file's pandas metadata describe; one without a name only counts the rows."""
    try:
        levels = json.loads(metadata or b"{}")["index_columns"]
        found = [level["name"] for level in levels if isinstance(level, dict) and level.get("kind") == "range"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    return [name for name in found if isinstance(name, str)]


def warn_of_ranges(names: Iterable[str], where: str) -> None:
    """Warn of even indices with a name, such as ids, which are not among the rows of a file."""
    for name in sorted(set(names)):
        warn(
            f"the index {name!r} of {where} counts evenly, so pandas has not stored it with the rows, and it is no "
            f"column here; if it is wanted, write the frame with frame.reset_index().to_parquet(...)",
        )
