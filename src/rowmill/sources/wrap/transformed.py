"""A source seen through a transformation: each fragment is read and changed when it is asked for.

Comes in: a source and something that makes columns of its columns. Where rows depend on their neighbours or change in
number, the result is written to a temporary folder first, partition by partition, when its rows are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

import polars as pl

from rowmill._system.lock import Lock
from rowmill.errors import UncomparableError, writing
from rowmill.schema import Schema
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.files.paths import Files
from rowmill.sources.files.temporary_files import temporary_folder
from rowmill.sources.locate import Rows, locate
from rowmill.sources.parquet.parquet_source import ParquetSource
from rowmill.sources.source import Fragment, Source, read_slices
from rowmill.sources.types import polars_type, value_bytes


class FrameStep(Protocol):
    """Makes columns of columns: `inputs` are read, and `run` gets them with the number of their first row."""

    @property
    def inputs(self) -> tuple[str, ...]: ...
    def run(self, frame: pl.DataFrame, start: int) -> pl.DataFrame: ...


Prepare = Callable[[tuple[str, ...]], FrameStep]  # the step that makes some of the columns


class TransformedSource:
    """The rows of `base`, with the columns that a transformation makes of them."""

    def __init__(
        self,
        base: Source,
        prepare: Prepare,
        schema: Schema,
        fingerprint: str,
        doubt: str = "",
        first_row: int = 0,
    ) -> None:
        """`first_row`: the number of the first row, where it is not that in `base`."""
        self.base = base
        self._doubt = doubt
        self._first_row = first_row
        self._prepare = prepare
        self._schema = schema
        self._fingerprint = fingerprint

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self.base.fragments

    @property
    def same_fragments_as(self) -> Source:
        """The other source, which has the same rows in the same fragments."""
        return self.base

    @cached_property
    def _rows_before(self) -> dict[int, int]:
        return {unit: self._first_row + rows for unit, rows in rows_before(self.base).items()}

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        step = self._prepare(tuple(columns))
        frame = self.base.read(fragment, step.inputs)
        return step.run(frame, self._rows_before.get(fragment.unit, 0) + fragment.start)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        step, start = self._prepare(tuple(columns)), self._rows_before.get(fragment.unit, 0) + fragment.start
        for frame in read_slices(self.base, fragment, step.inputs, max_bytes):
            yield step.run(frame, start)
            start += frame.height

    def describe(self, fragment: Fragment) -> str:
        return self.base.describe(fragment)

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return locate(self.base, unit, rows)

    def fingerprint(self) -> str:
        return of_values(self.base.fingerprint(), self._fingerprint)

    def stamp(self) -> tuple[str, str]:
        _check(self._doubt)
        where, state = self.base.stamp()
        return where, of_values(state, self._fingerprint)

    def row_bytes(self, columns: Sequence[str]) -> float:
        """Of what goes in and what comes out: both are in memory at once."""
        read = self.base.row_bytes(self._prepare(tuple(columns)).inputs)
        return read + sum(_bytes(self._schema, name) for name in columns)


class SpooledSource:
    """What a transformation makes of whole partitions, kept in a temporary folder once it has been run."""

    def __init__(
        self,
        base: Source,
        partitions: Sequence[Fragment],
        prepare: Prepare,
        schema: Schema,
        fingerprint: str,
        doubt: str = "",
    ) -> None:
        self._base = base
        self._doubt = doubt
        self._partitions = partitions
        self._prepare = prepare
        self._schema = schema
        self._fingerprint = fingerprint
        self._lock = Lock()

    @cached_property
    def _rows(self) -> ParquetSource:
        folder = temporary_folder(self)
        step = self._prepare(tuple(self._schema.column_names))
        before = rows_before(self._base)
        paths = []
        empty = step.run(self._base.read(Fragment(0, 0, 0), step.inputs), 0)
        for number, fragment in enumerate(self._partitions):
            frame = step.run(self._base.read(fragment, step.inputs), before.get(fragment.unit, 0) + fragment.start)
            paths.append(str(folder / f"{number:08}.parquet"))
            with writing(paths[-1]):
                frame.write_parquet(paths[-1], compression="lz4")
        if not paths:
            paths.append(str(folder / "empty.parquet"))
            empty.write_parquet(paths[-1])
        return ParquetSource(Files(tuple(paths), "parquet"))

    def _spooled(self) -> ParquetSource:
        with self._lock:  # several threads may ask first
            return self._rows

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._spooled().fragments

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        return self._spooled().read(fragment, columns)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        return self._spooled().read_slices(fragment, columns, max_bytes)

    def describe(self, fragment: Fragment) -> str:
        return f"rows {fragment.start} to {fragment.stop} of what became of partition {fragment.unit}"

    def fingerprint(self) -> str:
        return of_values(self._base.fingerprint(), self._fingerprint, tuple(self._partitions))

    def stamp(self) -> tuple[str, str]:
        _check(self._doubt)
        where, state = self._base.stamp()
        return where, of_values(state, self._fingerprint, tuple(self._partitions))

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._spooled().row_bytes(columns)


def rows_before(source: Source) -> dict[int, int]:
    """For each unit of a source, the number of rows in the units before it."""
    before: dict[int, int] = {}
    rows = 0
    for fragment in source.fragments:
        before.setdefault(fragment.unit, rows - fragment.start)
        rows += fragment.rows
    return before


def _bytes(schema: Schema, name: str) -> float:
    column = schema[name]
    size = value_bytes(polars_type(column.dtype))
    return 8 + size * (column.width or 8) if column.is_list else size


def _check(doubt: str) -> None:
    """Rows made by a function that may have changed unseen cannot be told from others."""
    if doubt:
        raise UncomparableError(f"a workflow whose function uses {doubt}, which cannot be told from a changed one")
