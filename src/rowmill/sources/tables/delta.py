"""Delta tables: a path, URL or `DeltaTable` in, the files of one version out. `deltalake` reads the log.

What our reader would get wrong is refused by name: deletion vectors, column mapping, and reader features that are not
known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from rowmill.errors import ArgumentError, DataFileError, MissingExtraError, NoFilesError
from rowmill.sources.tables.table_version import DataFile, TableVersion, milliseconds
from rowmill.sources.types import arrow_types

SCHEME = "delta://"
_HARMLESS = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "appendOnly", "domainMetadata"}
_REFUSED = {
    "deletionVectors": "deletion vectors (rows that are deleted without writing their file again); write the files "
    "anew with REORG TABLE ... APPLY (PURGE), and turn delta.enableDeletionVectors off",
    "columnMapping": "column mapping (columns whose names differ from those in the files); copy the table to one "
    "without it",
}


def delta_version(
    given: Any,
    version: int | None = None,
    timestamp: str | datetime | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> TableVersion:
    """The files of a version: the latest, that of a number, or that of a moment."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingExtraError("Delta tables are read by deltalake; pip install 'rowmill[delta]'") from error
    if version is not None and timestamp is not None:
        raise ArgumentError("both version= and timestamp= are given; pass one of them")
    name = given.table_uri if isinstance(given, DeltaTable) else str(given).removeprefix(SCHEME)
    options = {key: str(value) for key, value in (storage_options or {}).items()} or None
    try:
        if isinstance(given, DeltaTable):
            options = options or given._storage_options
            table = given if version is None and timestamp is None else DeltaTable(name, storage_options=options)
        else:
            table = DeltaTable(name, storage_options=options)
    except TableNotFoundError as error:
        raise NoFilesError(f"no Delta table at {name}; wanted a folder with a _delta_log; check the path") from error
    except (DeltaError, OSError, ValueError) as error:
        raise DataFileError(f"cannot open the Delta table {name}: {error}") from error
    latest = table.version()
    wanted = version if timestamp is None else _version_at(table, name, timestamp)
    if wanted is not None:
        try:
            table.load_as_version(wanted)
        except (DeltaError, OSError, ValueError, TypeError) as error:
            raise ArgumentError(
                f"the Delta table {name} has no version {wanted}: {str(error).splitlines()[0]}; its latest is version "
                f"{latest}; versions whose log was cleaned up are gone"
            ) from error
    _check_features(table, name)
    dtypes = arrow_types(pa.schema(table.schema().to_arrow()))
    actions = pl.DataFrame(table.get_add_actions(flatten=True))
    partitioned = table.metadata().partition_columns
    rows = {unquote(str(row["path"])): row for row in actions.iter_rows(named=True)}  # the log writes % as %25
    root = table.table_uri.removeprefix("file://").rstrip("/") + "/"
    files = []
    for uri in table.file_uris():
        row = rows.get(uri.removeprefix(root))
        if row is None:
            raise DataFileError(f"cannot tell the partition values of {uri} in version {table.version()} of {name}")
        constants = {column: row[f"partition.{column}"] for column in partitioned}
        files.append((row["modification_time"], uri, DataFile(uri, constants)))
    ordered = tuple(file for _, _, file in sorted(files, key=lambda f: f[:2]))  # in the order of writing
    return TableVersion("Delta", name, table.version(), dtypes, ordered)


def _version_at(table: Any, name: str, timestamp: str | datetime) -> int:
    """The latest version that was written at or before a moment, by the times in the log itself: those of its files
    change when a table is copied."""
    asked = milliseconds(timestamp)
    found = [entry["version"] for entry in table.history() if entry.get("timestamp", asked + 1) <= asked]
    if not found:
        raise ArgumentError(f"the Delta table {name} had no version at {timestamp}; its first was written later")
    return int(max(found))


def _check_features(table: Any, name: str) -> None:
    """Refuse what would be read wrongly."""
    protocol, settings = table.protocol(), table.metadata().configuration
    # A feature may be allowed and not used: columns are mapped if there is a mode, and vectors can be counted.
    features = set(protocol.reader_features or ()) - _HARMLESS - {"columnMapping"}
    if settings.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if "deletionVectors" in features and not any(len(batch) for batch in table.deletion_vectors()):
        features.discard("deletionVectors")
    for feature in sorted(features):
        unknown = f"the feature {feature}, which is not known here; copy the table to one without it"
        raise ArgumentError(f"the Delta table {name} uses {_REFUSED.get(feature, unknown)}")
