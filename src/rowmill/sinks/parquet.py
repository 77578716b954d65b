"""Writing a dataset as Parquet files with their side files, streaming and all or nothing. Called by
`Dataset.to_parquet`.

A plan (see `files.py`) says which rows go to which file; rows stream through one writer at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.random import Generator, Philox, SeedSequence
from polars import selectors

from rowmill._system.progress import progress_bar
from rowmill.errors import ArgumentError, ColumnError, DataFileError, writing
from rowmill.schema import Schema
from rowmill.sinks.files import Shuffle, hive_folder
from rowmill.sinks.scatter import shuffled
from rowmill.sinks.shared import SharedFolder, make_folders
from rowmill.sinks.side_files import write_side_files
from rowmill.sinks.staging import staged_folder
from rowmill.sources.names import columns as columns_of
from rowmill.sources.source import Fragment, Source

__all__ = ["Shuffle", "WriteOptions", "write_files", "write_hive"]

_GROUP_ROWS = 262_144
_COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "brotli", "none")
_GROUP_BYTES = 128 << 20
_SAMPLE = 65_536


@dataclass(frozen=True)
class WriteOptions:
    """How files are written: rows of a row group, compression, and the columns by their use in a model."""

    row_group_size: int | None = None
    compression: str = "snappy"
    cats: Sequence[str] = ()
    conts: Sequence[str] = ()
    labels: Sequence[str] = ()
    progress: bool | None = None

    def __post_init__(self) -> None:
        if str(self.compression).lower() not in _COMPRESSIONS:
            raise ArgumentError(f"compression is {self.compression!r}; wanted one of {', '.join(_COMPRESSIONS)}")

    def group_rows(self, source: Source) -> int:
        if self.row_group_size is not None:
            return self.row_group_size
        return max(1, min(_GROUP_ROWS, int(_GROUP_BYTES / max(source.row_bytes(source.schema.column_names), 1.0))))


@dataclass(frozen=True)
class Written:
    """A finished file: its name within the folder, its rows and its footer."""

    name: str
    rows: int
    footer: Any


def write_files(
    source: Source,
    plan: Sequence[tuple[str, Sequence[Fragment]]],
    target: Path,
    schema: Schema,
    options: WriteOptions,
    shuffle: Shuffle | None = None,
    seed: int | None = None,
    client: Any = None,
) -> None:
    """Write the fragments of each planned file, shuffled as asked, into a folder that appears when all is done.

    `client`: a Dask client whose workers see the folder too; each file is then written by one of them.
    """
    seed = int(SeedSequence().entropy) % 2**63 if seed is None else seed  # type: ignore[arg-type]
    columns = source.schema.column_names
    total = sum(f.rows for _, fragments in plan for f in fragments)
    with staged_folder(target) as folder, progress_bar("writing", total, options.progress) as advance:
        shared = SharedFolder.new(folder, target)
        files = [
            _File(source, name, fragments, shuffle, (seed, number), options.group_rows(source), options.compression)
            for number, (name, fragments) in enumerate(plan)
        ]
        if shuffle is Shuffle.FULL:
            every = [fragment for _, fragments in plan for fragment in fragments]
            whole = _Stream(shuffled(source, every, columns, _generator((seed,))))
            done = [file.write(shared, whole.take(file.rows), advance) for file in files]
        elif client is not None:
            shared.check_workers(client)
            done = client.gather([client.submit(_File.write, file, shared, pure=False) for file in files])
        else:
            done = [file.write(shared, None, advance) for file in files]
        shared.close({file.name: file.rows for file in files})
        with writing(target):
            write_side_files(folder, done, schema, options.cats, options.conts, options.labels)


@dataclass(frozen=True)
class _File:
    """A file to be written: its rows, their order, and its form. The same wherever it is written."""

    source: Source
    name: str
    fragments: Sequence[Fragment]
    shuffle: Shuffle | None
    seed: tuple[int, ...]
    group_rows: int
    compression: str

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)

    def write(
        self,
        shared: SharedFolder,
        frames: Iterable[pl.DataFrame] | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Written:
        """Write the file, in another folder until it is whole: on a cluster it may be begun twice."""
        shared.check()
        columns = self.source.schema.column_names
        if frames is None:
            frames = _ordered(self.source, self.fragments, columns, self.shuffle, _generator(self.seed))
        empty = self.source.read(Fragment(0, 0, 0), columns)
        begun = f"{secrets.token_hex(8)}.parquet"
        told = _told(frames, advance or (lambda rows: None))
        path = shared.target / self.name
        done = write_one(shared.unfinished, begun, told, empty, self.group_rows, self.compression, path)
        if done.rows != self.rows:
            raise DataFileError(f"wrote {done.rows} rows to {self.name}; wanted {self.rows}; the source has changed")
        with writing(path):
            make_folders(shared.folder, self.name)
            (shared.unfinished / begun).replace(shared.folder / self.name)
        return Written(self.name, done.rows, done.footer)


def _generator(seed: tuple[int, ...]) -> Generator:
    return Generator(Philox(SeedSequence(seed)))


def write_hive(
    source: Source,
    fragments: Sequence[Fragment],
    target: Path,
    schema: Schema,
    options: WriteOptions,
    keys: Sequence[str],
    shuffle: Shuffle | None = None,
    seed: int | None = None,
) -> None:
    """Write `key=value` folders, a file for each partition and value, and no key column inside the files."""
    generator = Generator(Philox(seed))
    columns = source.schema.column_names
    kept = [c for c in columns if c not in keys]
    total = sum(f.rows for f in fragments)
    with staged_folder(target) as folder, progress_bar("writing", total, options.progress) as advance:
        done: list[Written] = []
        frames = _ordered(source, fragments, columns, shuffle, generator)
        for i, frame in enumerate(_told(frames, advance)):
            for part in frame.partition_by(selectors.by_name(*keys), maintain_order=True):
                values = [part.get_column(key)[0] for key in keys]
                name = f"{hive_folder(keys, values)}/part.{i}.parquet"
                rows = part.select(columns_of(kept))
                done.append(
                    write_one(
                        folder,
                        name,
                        [rows],
                        rows.clear(),
                        options.group_rows(source),
                        options.compression,
                        target / name,
                    )
                )
        with writing(target):
            write_side_files(folder, done, schema, options.cats, options.conts, options.labels)


def write_one(
    folder: Path,
    name: str,
    frames: Iterable[pl.DataFrame],
    empty: pl.DataFrame,
    group_rows: int,
    compression: str,
    shown: Path,
) -> Written:
    """One Parquet file from a stream of frames, in row groups of exactly `group_rows` but for the last.

    `shown` is the path that the file will have, for errors.
    """
    if odd := [column for column in empty.columns if "\0" in column]:
        raise ColumnError(f"column {odd[0]!r} has a NUL in its name, which no file can hold; rename it")
    schema = empty.to_arrow().schema
    footers: list[Any] = []
    rows = 0
    groups = _Stream(frames).cut(group_rows)
    first = next(groups, empty)
    with ExitStack() as held:
        writer = None
        with writing(shown):
            make_folders(folder, name)
            file = held.enter_context(pa.OSFile(str(folder / name), "wb"))
        try:
            with writing(shown):
                writer = pq.ParquetWriter(
                    file, schema, compression=compression, use_dictionary=_repetitive(first), metadata_collector=footers
                )
            for frame in chain([first] if first.height else [], groups):
                with writing(shown):
                    writer.write_table(_arrow(frame, schema), row_group_size=frame.height)
                rows += frame.height
            with writing(shown):
                writer.close()
        except BaseException:
            if writer is not None:
                writer.is_open = False  # else it writes a footer when it is collected, and prints what it cannot write
            raise
        with writing(shown):
            file.close()
    return Written(name, rows, footers[0])


def _repetitive(frame: pl.DataFrame) -> list[str]:
    """The columns worth a dictionary: building one for every column would take 4 to 7 times as long."""
    sample = frame.head(_SAMPLE)
    texts = [c for c, t in sample.schema.items() if t in (pl.String, pl.Binary)]
    numbers = [c for c, t in sample.schema.items() if t.is_numeric()]
    limits = {**dict.fromkeys(texts, sample.height // 2), **dict.fromkeys(numbers, 1000)}
    return [c for c, most in limits.items() if sample[c].alias("values").n_unique() <= most]


def _arrow(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    table = frame.to_arrow()
    return table if table.schema.equals(schema) else table.cast(schema)


def _ordered(
    source: Source,
    fragments: Sequence[Fragment],
    columns: Sequence[str],
    shuffle: Shuffle | None,
    generator: Generator,
) -> Iterator[pl.DataFrame]:
    """The rows of one file: as they are, or fragments and the rows within them permuted, or all permuted."""
    if shuffle is Shuffle.PER_WORKER or shuffle is Shuffle.FULL:
        yield from shuffled(source, fragments, columns, generator)
        return
    for fragment in fragments:
        frame = source.read(fragment, columns)
        yield frame if shuffle is None else frame[generator.permutation(frame.height)]


def _told(frames: Iterable[pl.DataFrame], advance: Any) -> Iterator[pl.DataFrame]:
    for frame in frames:
        yield frame
        advance(frame.height)


class _Stream:
    """Frames of any size in, frames of the size asked for out; holds at most one of either."""

    def __init__(self, frames: Iterable[pl.DataFrame]) -> None:
        self._frames = iter(frames)
        self._held: list[pl.DataFrame] = []
        self._rows = 0

    def take(self, rows: int) -> Iterator[pl.DataFrame]:
        """Frames of `rows` rows in all."""
        while rows > 0:
            frame = self._held.pop(0) if self._held else next(self._frames, None)
            if frame is None:
                raise DataFileError(f"the source ended {rows} rows early; wanted as many as it promised; open it again")
            if frame.height > rows:
                self._held.insert(0, frame.slice(rows))
                frame = frame.head(rows)
            rows -= frame.height
            yield frame

    def cut(self, rows: int) -> Iterator[pl.DataFrame]:
        """Frames of exactly `rows` rows, and a last one with what is left."""
        for frame in self._frames:
            self._held.append(frame)
            self._rows += frame.height
            while self._rows >= rows:
                joined = pl.concat(self._held) if len(self._held) > 1 else self._held[0]
                yield joined.head(rows)
                self._rows -= rows
                self._held = [joined.slice(rows)] if self._rows else []
        if self._rows:
            yield pl.concat(self._held)
