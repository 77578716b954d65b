"""`Dataset.to_parquet` and `validate_dataset` behind their signatures: arguments checked, a plan made, files
written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from numpy.random import Generator, Philox

from rowmill._system.forked import check_fork
from rowmill._system.sizes import parse_bytes
from rowmill.errors import ArgumentError, warn, writing
from rowmill.schema import ColumnSchema, Schema
from rowmill.sinks.files import Shuffle, file_per_partition, named_files, parse_shuffle, preserved_files
from rowmill.sinks.parquet import WriteOptions, write_files, write_hive
from rowmill.sinks.side_files import tagged, write_metadata
from rowmill.sources.files.paths import Files, local_path
from rowmill.sources.source import Fragment, Source
from rowmill.sources.wrap.cast import RecastSource

if TYPE_CHECKING:
    from rowmill.dataset import Dataset

_GROUP_MAX = 500_000_000


def to_parquet(
    dataset: Dataset,
    output_path: str | os.PathLike[str],
    shuffle: Any,
    *,
    preserve_files: bool,
    output_files: Any,
    out_files_per_proc: int | None,
    dtypes: Mapping[str, Any] | None,
    suffix: str,
    partition_on: str | Sequence[str] | None,
    method: str,
    seed: int | None,
    options: WriteOptions,
    client: Any = None,
) -> None:
    """See `Dataset.to_parquet`."""
    check_fork()
    target = local_path(output_path, "output_path").expanduser()
    how = parse_shuffle(shuffle)
    if method not in ("subgraph", "worker"):
        raise ArgumentError(f"method is {method!r}; wanted 'subgraph' or 'worker' (they do the same here)")
    if options.row_group_size is not None and options.row_group_size < 1:
        raise ArgumentError(f"row_group_size is {options.row_group_size}; wanted at least 1 row")
    given = [
        n for n, v in (("output_files", output_files), ("out_files_per_proc", out_files_per_proc)) if v is not None
    ]
    given += ["preserve_files"] if preserve_files else []
    if partition_on is not None and given:
        raise ArgumentError(f"partition_on together with {given[0]}; wanted one of them; remove {given[0]}")
    if len(given) > 1 and (preserve_files or isinstance(output_files, Mapping)):
        raise ArgumentError(f"{given[0]} together with {given[1]}; wanted one of them; remove one")
    source: Source = RecastSource(dataset.source, dtypes) if dtypes else dataset.source
    tags = tagged(dataset.schema, options.cats, options.conts, options.labels)
    schema = Schema(_as_written(tags[c.name], c) for c in source.schema)
    if preserve_files:
        plan = preserved_files(dataset.fragments, _input_files(dataset), suffix)
        if how is not None:
            generator = Generator(Philox(seed))
            plan = [(name, _permuted(fragments, generator)) for name, fragments in plan]
        return write_files(source, plan, target, schema, options, how, seed, client)
    fragments: Sequence[Fragment] = dataset.fragments
    if how is Shuffle.PER_PARTITION or how is Shuffle.PER_WORKER:
        fragments = _permuted(fragments, Generator(Philox(seed)))
    if partition_on is not None:
        keys = [partition_on] if isinstance(partition_on, str) else list(partition_on)
        for key in keys:
            schema[key]
            if not key or key[0] in "_.":
                raise ArgumentError(
                    f"partition_on names {key!r}: readers pass over folders whose names begin with _ or .; "
                    f"rename the column"
                )
        if len(keys) == len(schema):
            raise ArgumentError("partition_on names every column; wanted at least one left for the files")
        return write_hive(source, fragments, target, schema, options, keys, how, seed)
    if output_files is not None:
        count = output_files * (out_files_per_proc or 1) if isinstance(output_files, int) else output_files
        plan = named_files(fragments, count, suffix)
    elif out_files_per_proc is not None:
        workers = 1 if client is None else max(1, len(client.nthreads()))
        plan = named_files(fragments, out_files_per_proc * workers, suffix)
    else:
        plan = file_per_partition(fragments, suffix)
    return write_files(source, plan, target, schema, options, how, seed, client)


def _input_files(dataset: Dataset) -> Files | None:
    """The files whose rows these are: the dataset's own, or its base's where the rows still lie as they did there."""
    files: Files | None = getattr(dataset.source, "files", None)
    base = dataset.base_dataset.source
    if files is None and list(base.fragments) == list(dataset.source.fragments):
        files = getattr(base, "files", None)
    return files


def _permuted(fragments: Sequence[Fragment], generator: Generator) -> list[Fragment]:
    return [fragments[i] for i in generator.permutation(len(fragments))]


def validate(
    source: Any,
    add: bool,
    require: bool,
    row_group_max_size: int | str | None,
    file_min_size: int | str | None,
    part_bytes: int | None,
) -> bool:
    """See `Dataset.validate_dataset`."""
    files = getattr(source, "files", None)
    if files is None or files.engine != "parquet" or files.filesystem is not None:
        warn("not a dataset of local Parquet files: nothing to validate")
        return False
    fine = True
    root = Path(files.root or Path(files.paths[0]).parent)
    if require and not (root / "_metadata").is_file():
        if add:
            footers = [(os.path.relpath(p, root), pq.read_metadata(p)) for p in files.paths]
            with writing(root / "_metadata"):
                write_metadata(root / "_metadata", footers)
        else:
            warn(f"no _metadata file in {root}; add_metadata_file=True writes one")
            fine = False
    most = parse_bytes(row_group_max_size or min(part_bytes or _GROUP_MAX, _GROUP_MAX), "row_group_max_size")
    row = source.row_bytes(source.schema.column_names)
    large = [f for f in source.fragments if f.rows * row > most]
    if large:
        where = source.describe(large[0])
        warn(
            f"{len(large)} row groups larger than {most} bytes, first {where}; write smaller ones",
        )
        fine = False
    least = parse_bytes(file_min_size or part_bytes or 1, "file_min_size")
    rows: dict[int, int] = dict.fromkeys(range(len(files.paths)), 0)
    for fragment in source.fragments:
        rows[fragment.unit] += fragment.rows
    small = [files.paths[unit] for unit, n in rows.items() if n * row < least] if len(files.paths) > 1 else []
    if small:
        warn(
            f"{len(small)} files smaller than {least} bytes, first {small[0]}; write fewer files",
        )
        fine = False
    return fine


def _as_written(described: ColumnSchema, stored: ColumnSchema) -> ColumnSchema:
    """What is known of a column, with the type that the source stores it in. Shapes of lists of lists stay."""
    made = described.with_dtype(stored.dtype, stored.is_list)
    nested = described.dims is not None and len(tuple(described.dims)) > 2
    return made.with_shape(described.shape) if nested else made
