"""Whatever a user may hand to `Dataset` in, a `Source` out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rowmill.errors import ArgumentError, DataFileError, DtypeError, closest
from rowmill.schema import Schema
from rowmill.sources.files.merlin_schema import merlin_schema
from rowmill.sources.files.paths import find_files, folder_of
from rowmill.sources.frames.frame_source import frame_source
from rowmill.sources.parquet.parquet_source import ParquetSource
from rowmill.sources.source import Source, is_source
from rowmill.sources.tables.open_table import open_table

_ENGINES = {
    "parquet": "parquet", "csv": "csv", "ipc": "ipc", "arrow": "ipc", "feather": "ipc", "json": "json", "jsonl": "json",
    "ndjson": "json", "avro": "avro",
}  # fmt: skip
_SCHEMA_FILE = Path(".rowmill") / "schema.json"
_MAX_SCHEMA_BYTES = 64 << 20
# Options of other Parquet readers that change how they read, not what they give.
_MEANINGLESS = {
    "row_groups_per_part",
    "aggregate_files",
    "dataset",
    "legacy",
    "batch_size",
    "index",
    "split_row_groups",
}


def open_source(
    given: Any,
    engine: str | None = None,
    *,
    npartitions: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    verify: bool = True,
    columns: str | Sequence[str] | None = None,
    version: int | None = None,
    snapshot_id: int | None = None,
    timestamp: Any = None,
    **kwargs: Any,
) -> Source:
    """A source over files, a frame, or the source that was given; `dtypes` and `columns` are applied on top."""
    from rowmill.sources.wrap.cast import RecastSource

    chosen = [columns] if isinstance(columns, str) else columns
    if engine is not None and engine not in _ENGINES:
        raise ArgumentError(f"unknown engine {engine!r}; wanted one of {list(_ENGINES)}; leave it out to go by names")
    source: Source
    table = open_table(given, storage_options, version, snapshot_id, timestamp, verify=verify)
    if table is not None:
        if strange := sorted(set(kwargs) - _MEANINGLESS):
            raise _unknown(strange[0], "tables with versions")
        source = table
    elif is_source(given):
        source = given
    elif not isinstance(given, str | os.PathLike | list | tuple | set | frozenset):
        frame: Source | None = frame_source(given, npartitions)
        if frame is None and hasattr(given, "get_partition"):
            from rowmill.sources.frames.dask_source import DaskSource

            frame = DaskSource(given)
        if frame is None:
            raise DtypeError(
                f"cannot make a dataset of {type(given).__name__}; wanted a path, list of paths, pandas, Polars, "
                f"Arrow or Dask frame, or a dict of arrays; convert it to one of these"
            )
        if strange := sorted(set(kwargs) - _MEANINGLESS):
            raise _unknown(strange[0], "rows in memory")
        source = frame
    else:
        files = find_files(given, _ENGINES[engine] if engine else None, storage_options)
        if files.engine == "csv":
            from rowmill.sources.csv.csv_source import CsvSource

            parsed = CsvSource(files, dtypes=dtypes, **kwargs)
            return parsed if chosen is None else RecastSource(parsed, {}, chosen)
        unknown = sorted(set(kwargs) - _MEANINGLESS)
        if unknown:
            raise _unknown(unknown[0], f"{files.engine} files")
        if files.engine == "json":
            from rowmill.sources.lines.json_source import JsonSource

            lines = JsonSource(files, dtypes=dtypes)
            return lines if chosen is None else RecastSource(lines, {}, chosen)
        if files.engine == "avro":
            from rowmill.sources.avro.avro_source import AvroSource

            source = AvroSource(files)
        elif files.engine == "ipc":
            from rowmill.sources.ipc.ipc_source import IpcSource

            source = IpcSource(files)
        else:
            source = ParquetSource(files, verify=verify)
    return source if not dtypes and chosen is None else RecastSource(source, dtypes or {}, chosen)


def stored_schema(source: Source) -> Schema | None:
    """The schema written beside the files of a source, by us or by Merlin, in their folder or the one above."""
    files = getattr(source, "files", None)
    folder = None if files is None else folder_of(files)
    for place in [] if folder is None else [folder, folder.parent]:
        if (place / _SCHEMA_FILE).is_file():
            try:
                if (place / _SCHEMA_FILE).stat().st_size > _MAX_SCHEMA_BYTES:
                    raise ValueError(f"it has more than {_MAX_SCHEMA_BYTES >> 20} MB")
                return Schema.from_json((place / _SCHEMA_FILE).read_text())
            except (OSError, ValueError, RecursionError) as error:
                raise DataFileError(f"cannot use {place / _SCHEMA_FILE}: {error}; remove or repair it") from error
        if (found := merlin_schema(place)) is not None:
            return found
    return None


def _unknown(name: str, what: str) -> ArgumentError:
    known = (
        "engine",
        "part_size",
        "part_mem_fraction",
        "npartitions",
        "storage_options",
        "dtypes",
        "columns",
        "schema",
        "client",
        "version",
        "snapshot_id",
        "timestamp",
    )
    return ArgumentError(f"unknown argument {name!r} for {what}{closest(name, known)}; remove it or correct it")
