"""Whatever a user may hand to `Dataset` in, the source of a version of a Delta or Iceberg table out, if it is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rowmill.errors import ArgumentError

if TYPE_CHECKING:
    from rowmill.sources.tables.table_version import TableVersionSource

_DELTA = "delta://"


def open_table(
    given: Any,
    storage_options: Mapping[str, Any] | None,
    version: int | None,
    snapshot_id: int | None,
    timestamp: Any,
    *,
    verify: bool,
) -> TableVersionSource | None:
    """The source of a version of a table; None if `given` is not a table with versions."""
    kind = _kind(given)
    _check(kind, version, snapshot_id, timestamp)
    if kind is None:
        return None
    from rowmill.sources.tables.delta import delta_version
    from rowmill.sources.tables.iceberg import iceberg_version
    from rowmill.sources.tables.table_version import TableVersionSource

    if kind == "Delta":
        found = delta_version(given, version, timestamp, storage_options)
    else:
        found = iceberg_version(given, snapshot_id, timestamp)
    return TableVersionSource(found, storage_options, verify=verify)


def _kind(given: Any) -> str | None:
    if isinstance(given, str | os.PathLike):
        return "Delta" if str(given).startswith(_DELTA) else None
    classes = {(base.__module__.partition(".")[0], base.__name__) for base in type(given).__mro__}
    if ("deltalake", "DeltaTable") in classes:
        return "Delta"
    return "Iceberg" if ("pyiceberg", "Table") in classes else None


def _check(kind: str | None, version: int | None, snapshot_id: int | None, timestamp: Any) -> None:
    for name, value in (("version", version), ("snapshot_id", snapshot_id)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise ArgumentError(f"{name} is {value!r}; wanted a whole number")
    if kind is None and (version, snapshot_id, timestamp) != (None, None, None):
        raise ArgumentError(
            "version=, snapshot_id= and timestamp= are for tables with versions; open a Delta table by "
            "'delta://folder' or a DeltaTable, and an Iceberg table by the table of pyiceberg"
        )
    if kind == "Delta" and snapshot_id is not None:
        raise ArgumentError("snapshot_id= is for Iceberg tables; pass version= for a Delta table")
    if kind == "Iceberg" and version is not None:
        raise ArgumentError("version= is for Delta tables; pass snapshot_id= for an Iceberg table")
