"""A table larger than memory: `Dataset` opens files or frames, describes them, and hands out their rows in pieces.

Paths, patterns, URLs or frames come in; a `Source` (what loaders read), a `Schema` and frames go out.
Opening reads footers and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import polars as pl
from numpy.random import Generator, Philox

from rowmill._dataset.choose_rows import ChoosesRows
from rowmill._dataset.growing_table import GrowingTable
from rowmill._system.display import Displayed, DisplayRows
from rowmill._system.forked import check_fork
from rowmill._system.interrupts import interruptible
from rowmill._system.sizes import parse_bytes, partition_bytes
from rowmill.errors import ArgumentError, DtypeError
from rowmill.schema import Schema, described
from rowmill.sinks.export import to_parquet, validate
from rowmill.sinks.files import Shuffle
from rowmill.sinks.parquet import WriteOptions
from rowmill.sinks.rearrange import group_by_folder, group_by_hash, join, lazy, recut
from rowmill.sources.frames.frame_source import LazySource
from rowmill.sources.frames.pandas_frames import check_backend, pandas_frame
from rowmill.sources.frames.pandas_index import unlisted_schema
from rowmill.sources.frames.partitions import Partitions
from rowmill.sources.names import columns as columns_of
from rowmill.sources.open import open_source, stored_schema
from rowmill.sources.source import Fragment, Source, fit_fragments
from rowmill.sources.summary import table_summary
from rowmill.sources.wrap.time_cut import TimeCut
from rowmill.utils import global_dask_client

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from rowmill.loader._torch.map_style import MapStyle


class Dataset(ChoosesRows, GrowingTable, Displayed):
    """Rows from Parquet, CSV or Arrow files, or from a frame in memory.

    `path_or_source`: a file, list, glob pattern, folder, URL, frame, dict of arrays, Arrow stream, or a
    `Source`. `key=value` folders are columns: those below what all paths have in common, and those that end it.
    `engine`: "parquet", "csv", "ipc", "json" (lines) or "avro"; by default told by the file names. `part_size` (bytes
    or "128MB") or `part_mem_fraction` (of the machine's memory): how much a partition may hold.
    `npartitions`: in how many partitions a frame is cut.
    `dtypes`: column to dtype, applied while reading; "hex" reads hexadecimal strings as integers.
    `columns`: the columns to have, in this order; by default all but an index of pandas without a name
    (`__index_level_0__`), which is a column only where it is named here or when rows are read.
    `storage_options`: credentials and end point of an object store, as fsspec or object-store spell them.
    `schema`: a `Schema` whose tags and properties describe the columns; by default the one stored beside the files.
    `client`: a Dask client; `to_parquet` then writes each file on one of its workers. `cpu` and `use_cpu` are
    accepted for compatibility and mean nothing. `verify`: compare the checksums of Parquet pages, in files that
    have them, with their bytes whenever they are read. `since`: what `state_dict()` of a dataset or a loader returned
    earlier; only the rows of files added since are there. Delta tables: `"delta://folder"` or a `DeltaTable`, with
    `version=` or `timestamp=`; Iceberg tables: a table of pyiceberg, with `snapshot_id=` or `timestamp=`. Other keyword
    arguments belong to the format (CSV: `sep`, `names`, `header`, `null_values`, ...): `null_values=["NA", "?"]` reads
    these texts as nulls, `{"x": "NA"}` in one column.
    """

    @interruptible
    def __init__(
        self,
        path_or_source: Any,
        engine: str | None = None,
        *,
        npartitions: int | None = None,
        part_size: int | str | None = None,
        part_mem_fraction: float | None = None,
        storage_options: Mapping[str, Any] | None = None,
        dtypes: Mapping[str, Any] | None = None,
        columns: str | Sequence[str] | None = None,
        client: Any = None,
        cpu: bool | None = None,
        use_cpu: bool | None = None,
        base_dataset: Dataset | None = None,
        schema: Schema | None = None,
        verify: bool = True,
        since: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if schema is not None and not isinstance(schema, Schema):
            raise DtypeError(f"schema is {type(schema).__name__}; wanted rowmill.Schema; build one with Schema([...])")
        if npartitions is not None and npartitions < 1:
            raise ArgumentError(f"npartitions is {npartitions}; wanted at least 1")
        self.part_bytes = partition_bytes(part_size, part_mem_fraction)
        self.source: Source = open_source(
            path_or_source,
            engine,
            npartitions=npartitions,
            storage_options=storage_options,
            dtypes=dtypes,
            columns=columns,
            verify=verify,
            **kwargs,
        )
        given = {"storage_options": storage_options, "dtypes": dtypes, "columns": columns, "verify": verify, **kwargs}
        self._remember(path_or_source, engine, given, since)
        self.schema = described(self.source.schema, schema or stored_schema(self.source))
        self.base_dataset = self if base_dataset is None else base_dataset
        self.cuts: tuple[TimeCut, ...] = ()  # at which `split(time=, at=)` has cut the table
        self.keyed_by: frozenset[str] = frozenset()  # columns by which shuffle_by_keys has made the partitions
        self.dtypes, self.client, self.cpu, self.engine = dtypes, client, True, engine

    def described(self) -> Schema:
        """The columns as the source has them, with the tags, properties and shapes of `schema`, as it is now."""
        return described(self.source.schema, self.schema)

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The partitions: row groups, joined or cut to `part_size` where one was given."""
        natural = self.source.fragments
        if self.part_bytes is None:
            return natural
        rows = int(self.part_bytes / max(self.source.row_bytes(self.columns), 1e-9))
        return fit_fragments(natural, max(1, rows))

    @property
    def columns(self) -> list[str]:
        return self.schema.column_names

    @property
    def num_rows(self) -> int:
        return sum(f.rows for f in self.source.fragments)

    @property
    def npartitions(self) -> int:
        return len(self.fragments)

    @property
    def partition_lens(self) -> list[int]:
        """Rows of each partition."""
        return [f.rows for f in self.fragments]

    def __len__(self) -> int:
        return self.num_rows

    def _display(self) -> tuple[str, DisplayRows]:
        return table_summary(self.source, self.schema)

    def with_schema(self, schema: Schema) -> Dataset:
        """This dataset described by another schema (its tags and properties)."""
        return self._like(self.source, schema)

    def with_tags(self, tags: Mapping[str, str | Iterable[str]]) -> Dataset:
        """This dataset with tags added: `with_tags({"label": Tags.TARGET})`."""
        changed = Schema(self.schema[name].with_tags(new) for name, new in tags.items())
        return self._like(self.source, self.schema + changed)

    def _like(self, source: Source, schema: Schema | None = None) -> Dataset:
        """Another dataset with this one's settings."""
        other = Dataset(source, schema=self.schema if schema is None else schema, base_dataset=self.base_dataset)
        other.part_bytes, other.engine, other.client = self.part_bytes, self.engine, self.client
        other.cuts = self.cuts
        return other

    def head(self, n: int = 5) -> pl.DataFrame:
        """The first `n` rows."""
        check_fork()
        frames, left = [], n
        for fragment in self.source.fragments:
            if left <= 0:
                break
            frames.append(self.source.read(fragment.slice(0, min(left, fragment.rows)), self.columns))
            left -= frames[-1].height
        return pl.concat(frames) if frames else self.empty()

    def empty(self) -> pl.DataFrame:
        """A frame with the columns and no rows."""
        return self.source.read(Fragment(0, 0, 0), self.columns)

    def to_iter(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        indices: Sequence[int] | None = None,
        shuffle: bool = False,
        seed: int | None = None,
        use_file_metadata: bool | None = None,
        epochs: int = 1,
        dtype_backend: str | None = None,
    ) -> Partitions:
        """One pandas frame per partition; `len()` is the number of rows. `shuffle` changes the order of partitions.

        `to_iter().polars()` gives Polars frames instead, which need no pandas. `indices` choose partitions by their
        place after the shuffle. `use_file_metadata` means nothing: rows are always counted from metadata.
        `dtype_backend` is that of `to_pandas`; each partition has the types that its own nulls ask for.
        """
        fragments = list(self.fragments)
        if shuffle:
            order = Generator(Philox(seed)).permutation(len(fragments))
            fragments = [fragments[i] for i in order]
        if indices is not None:
            fragments = [fragments[i] for i in indices]
        return Partitions(self.source, fragments * epochs, self._names(columns), dtype_backend)

    def _names(self, columns: str | Sequence[str] | None) -> list[str]:
        if columns is None:
            return self.columns
        names = [columns] if isinstance(columns, str) else list(columns)
        known = unlisted_schema(self.source)
        return [name if name in known else self.schema[name].name for name in names]

    @interruptible
    def to_polars(self, columns: str | Sequence[str] | None = None) -> pl.DataFrame:
        """The whole table in memory."""
        frames = list(self.to_iter(columns).polars())
        return pl.concat(frames) if frames else self.empty().select(columns_of(self._names(columns)))

    def to_pandas(
        self, columns: str | Sequence[str] | None = None, *, dtype_backend: str | None = None
    ) -> pd.DataFrame:
        """The whole table in memory, in NumPy's types; numbers and flags with nulls in pandas' nullable types.

        `dtype_backend`: "numpy_nullable" for nullable types in all columns, "pyarrow" for Arrow's types. Text has
        pandas' type for it, and lists are NumPy arrays.
        """
        check_backend(dtype_backend)
        return pandas_frame(self.to_polars(columns), dtype_backend)

    def compute(self, *, dtype_backend: str | None = None) -> pd.DataFrame:
        """The whole table in memory, as `to_pandas()` gives it."""
        return self.to_pandas(dtype_backend=dtype_backend)

    def to_arrow(self, columns: str | Sequence[str] | None = None) -> pa.Table:
        """The whole table in memory."""
        return self.to_polars(columns).to_arrow()

    @interruptible
    def to_ddf(
        self,
        columns: str | Sequence[str] | None = None,
        shuffle: bool = False,
        seed: int | None = None,
        *,
        dtype_backend: str | None = None,
    ) -> Any:
        """The table as a Dask dataframe (of pandas frames), a partition for each of ours; read when computed.

        `shuffle` changes the order of partitions. `dtype_backend` is that of `to_pandas`. All partitions have the same
        types: Parquet's footers and frames tell where there are nulls; numbers and flags of other data (CSV, the
        result of a workflow) are read once to see it, unless a `dtype_backend` is given.
        """
        from rowmill.sources.frames.dask_source import to_dask

        names = self._names(columns)
        fragments = self.to_iter(names, shuffle=shuffle, seed=seed).fragments
        return to_dask(self.source, fragments, names, dtype_backend)

    def to_lazy(self) -> pl.LazyFrame:
        """The table as a lazy Polars query that reads partition by partition, only the columns needed."""
        return lazy(self.source)

    @interruptible
    def to_parquet(
        self,
        output_path: str | PathLike[str],
        shuffle: Shuffle | bool | None = None,
        *,
        preserve_files: bool = False,
        output_files: int | Sequence[str] | Mapping[Any, Sequence[int]] | None = None,
        out_files_per_proc: int | None = None,
        num_threads: int = 0,
        dtypes: Mapping[str, Any] | None = None,
        cats: Sequence[str] | None = None,
        conts: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        suffix: str = ".parquet",
        partition_on: str | Sequence[str] | None = None,
        method: str = "subgraph",
        row_group_size: int | None = None,
        compression: str = "snappy",
        seed: int | None = None,
        progress: bool | None = None,
    ) -> None:
        """Write the table as Parquet files with their side files; the folder appears when all of it is written.

        By default one file a partition. `output_files`: a number of files, a list of names, or a dict of
        name to partition numbers; `out_files_per_proc`: a number of files too, with a Dask client for each worker;
        `preserve_files`: a file for each input file; `partition_on`: `key=value` folders. `cats`, `conts`,
        `labels` become tags. An existing folder is replaced only if an earlier `to_parquet` wrote
        everything in it. `num_threads` and `method` are accepted for compatibility and mean nothing.
        """
        to_parquet(
            self, output_path, shuffle, preserve_files=preserve_files, output_files=output_files,
            out_files_per_proc=out_files_per_proc, dtypes=dtypes, suffix=suffix, partition_on=partition_on,
            method=method, seed=seed, client=self.client or global_dask_client(),
            options=WriteOptions(
                row_group_size, compression, tuple(cats or ()), tuple(conts or ()), tuple(labels or ()), progress
            ),
        )  # fmt: skip

    def repartition(self, npartitions: int | None = None, partition_size: int | str | None = None) -> Dataset:
        """This dataset in the same order, in partitions of equal size: give their number, or their bytes."""
        if (npartitions is None) == (partition_size is None):
            raise ArgumentError("give one of npartitions and partition_size")
        if npartitions is None:
            size = self.num_rows * self.source.row_bytes(self.columns)
            npartitions = max(1, math.ceil(size / parse_bytes(partition_size or 0, "partition_size")))
        if npartitions < 1:
            raise ArgumentError(f"npartitions is {npartitions}; wanted at least 1")
        other = self._like(recut(self.source, npartitions))
        other.part_bytes = None
        return other

    @interruptible
    def shuffle_by_keys(
        self,
        keys: str | Sequence[str],
        hive_data: bool | None = None,
        npartitions: int | None = None,
        *,
        progress: bool | None = None,
    ) -> Dataset:
        """All rows with the same keys in the same partition; at most 256 partitions.

        Keys that are `key=value` folders need no work (`hive_data=False` forbids this); others are dealt
        by hash to temporary files, removed with the dataset.
        """
        names = self._names(keys)
        grouped: Source | None = None if hive_data is False else group_by_folder(self.source, names, npartitions)
        if grouped is None:
            grouped = group_by_hash(self.source, names, npartitions or self.npartitions, progress)
        other = self._like(grouped)
        other.part_bytes, other.keyed_by = None, frozenset(names)
        return other

    @classmethod
    def merge(cls, left: Dataset, right: Any, **kwargs: Any) -> Dataset:
        """The join of two datasets: `on`, `left_on`, `right_on`, `how`, `suffixes` as in pandas.

        Run once, when rows are first needed, into a temporary file; the right side has to fit in memory.
        """
        other = right if isinstance(right, Dataset) else Dataset(right)
        joined = cls(LazySource(join(left.source, other.source, **kwargs)))
        return joined.with_schema(left.schema + other.schema)

    def as_map_style(
        self,
        columns: Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
        *,
        nulls: Any = "error",
        memory: int | float | str = "256MB",
        cache: str | PathLike[str] | None = None,
        cache_size: int | float | str | None = None,
    ) -> MapStyle:
        """Rows by their number, for a stock PyTorch `DataLoader` with its samplers and workers.

        An item is a dict of values, or `(dict, target)` with `targets`; a list or slice of rows gives a batch of them.
        Pass `collate_fn=view.collate` to make batches without touching single rows. With a complete `cache`, rows are
        copied from it. For shuffled epochs over large tables `Loader` is many times faster.
        """
        from rowmill.loader._torch.map_style import MapStyle

        return MapStyle(self, columns, targets, nulls=nulls, memory=memory, cache=cache, cache_size=cache_size)

    def validate_dataset(
        self,
        add_metadata_file: bool = False,
        require_metadata_file: bool = True,
        row_group_max_size: int | str | None = None,
        file_min_size: int | str | None = None,
    ) -> bool:
        """Whether the files suit streaming: a `_metadata` file, row groups not too large, files not too small.

        Warns of each thing found. `add_metadata_file=True` writes the missing `_metadata`.
        """
        sizes = (row_group_max_size, file_min_size, self.part_bytes)
        return validate(self.source, add_metadata_file, require_metadata_file, *sizes)

    def infer_schema(self, n: int = 1) -> Schema:
        """The schema as the source has it, without tags; `n` means nothing, as types are known exactly."""
        self.schema = self.source.schema.copy()
        return self.schema

    def sample_dtypes(self, n: int = 1, annotate_lists: bool = False) -> dict[str, Any]:
        """Column to dtype name, or to `{"dtype": ..., "is_list": ...}`; `n` means nothing."""
        if annotate_lists:
            return {c.name: {"dtype": c.dtype, "is_list": c.is_list} for c in self.schema}
        return {c.name: c.dtype for c in self.schema}

    def to_cpu(self) -> None:
        """Means nothing here: the data are always on the CPU until a loader moves a batch."""

    def to_gpu(self) -> None:
        """Means nothing here: a loader moves batches to its device."""
