"""Iceberg tables: a `pyiceberg.table.Table` in, the files of one snapshot out. `pyiceberg` reads the metadata.

Columns are found by their field ids, so renamed ones are right. Deletes that leave the files as they are (positional,
by equality, deletion vectors) and columns with default values are refused by name.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rowmill.errors import ArgumentError, DataFileError
from rowmill.sources.tables.table_version import DataFile, TableVersion, milliseconds
from rowmill.sources.types import arrow_types


def iceberg_version(
    table: Any, snapshot_id: int | None = None, timestamp: str | datetime | None = None
) -> TableVersion:
    """The files of a snapshot: the current one, that of an id, or that of a moment."""
    from pyiceberg.exceptions import NotInstalledError
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    name = table.location()
    snapshot = _snapshot(table, name, snapshot_id, timestamp)
    schema = table.schema()
    if snapshot_id is not None or timestamp is not None:  # the columns as they were then
        schema = table.schemas().get(snapshot.schema_id, schema)
    for field in schema.fields:
        if getattr(field, "initial_default", None) is not None:
            raise ArgumentError(
                f"column {field.name!r} of the Iceberg table {name} has a default value for older files, which is not "
                f"read here; write the table again"
            )
    dtypes = arrow_types(schema_to_pyarrow(schema, include_field_ids=False))
    names = {field.field_id: field.name for field in schema.fields}
    files = []
    try:
        tasks = [] if snapshot is None else list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    except (NotInstalledError, OSError, ValueError) as error:
        raise DataFileError(f"cannot list the files of the Iceberg table {name}: {error}") from error
    for task in tasks:
        if task.delete_files:
            raise ArgumentError(
                f"snapshot {snapshot.snapshot_id} of the Iceberg table {name} has delete files (rows that are deleted "
                f"without writing their data file again); compact the table (rewrite_data_files) and open that snapshot"
            )
        if "parquet" not in str(task.file.file_format).lower():
            raise ArgumentError(f"the Iceberg table {name} has {task.file.file_format} files; wanted Parquet")
        files.append(DataFile(task.file.file_path, {}))
    ordered = tuple(sorted(files, key=lambda file: file.path))
    number = -1 if snapshot is None else snapshot.snapshot_id
    identity = {names.get(one.source_id, "") for one in table.spec().fields if str(one.transform) == "identity"}
    return TableVersion("Iceberg", name, number, dtypes, ordered, names, frozenset(identity))


def _snapshot(table: Any, name: str, snapshot_id: int | None, timestamp: str | datetime | None) -> Any:
    if snapshot_id is not None and timestamp is not None:
        raise ArgumentError("both snapshot_id= and timestamp= are given; pass one of them")
    if snapshot_id is not None:
        found = table.snapshot_by_id(snapshot_id)
        if found is None:
            known = ", ".join(str(one.snapshot_id) for one in table.snapshots())
            raise ArgumentError(f"the Iceberg table {name} has no snapshot {snapshot_id}; it has {known or 'none'}")
        return found
    if timestamp is not None:
        found = table.snapshot_as_of_timestamp(milliseconds(timestamp))
        if found is None:
            raise ArgumentError(f"the Iceberg table {name} had no snapshot at {timestamp}; its first is later")
        return found
    return table.current_snapshot()
