"""Avro files as a source: units are files, fragments are runs of their blocks of about 64 thousand rows or 8 MB.

Row counts come from the blocks' own headers. Polars decodes, from blocks that were decompressed with bounds.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import polars as pl
import pyarrow as pa

from rowmill.errors import DataFileError, os_reason
from rowmill.schema import Schema
from rowmill.sources.avro.container import Container, read_container
from rowmill.sources.files.fingerprint import of_values, stamp_pins
from rowmill.sources.files.hive import hive_columns, with_hive
from rowmill.sources.files.paths import Files
from rowmill.sources.files.pins import Pins
from rowmill.sources.locate import Rows, places
from rowmill.sources.missing_columns import check_columns
from rowmill.sources.names import columns as exactly
from rowmill.sources.row_size import Widths
from rowmill.sources.schema_unification import unify
from rowmill.sources.source import Fragment
from rowmill.sources.types import conform, schema_of

_ROWS, _BYTES = 65_536, 8 << 20  # of a fragment
_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, OSError, ValueError, MemoryError)


class AvroSource:
    """The rows of a list of Avro files that agree on their columns."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._pins = Pins.of(files)
        self._containers = [self._opened(unit) for unit in range(len(files.paths))]
        types = [(files.name(unit), self._types(unit)) for unit in range(len(files.paths))]
        self._stored = unify(types)
        self._hive = hive_columns(files, self._stored)
        self.dtypes = {**self._stored, **{name: values.dtype for name, values in self._hive.items()}}
        self._schema = schema_of(self.dtypes)
        self._widths = Widths(self.dtypes)
        self._fragments = tuple(
            fragment for unit, container in enumerate(self._containers) for fragment in _runs(unit, container)
        )

    def _opened(self, unit: int) -> Container:
        name = self.files.name(unit)
        try:
            with self.files.open(unit) as file:
                return read_container(file, self._pins[unit].size)
        except _ERRORS as error:
            raise _damaged(name, error) from error

    def _types(self, unit: int) -> dict[str, pl.DataType]:
        try:
            return dict(_decode(self._containers[unit].uncompressed([]), None).schema)
        except _ERRORS as error:
            raise _damaged(self.files.name(unit), error) from error

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._fragments

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        check_columns(columns, self.dtypes, self.files.name(fragment.unit))
        stored = [name for name in columns if name in self._stored]
        with self._pins.unchanged(fragment.unit, partial(self.describe, fragment)):
            frame = self._rows(fragment, stored) if stored else pl.DataFrame(height=fragment.rows)
        return with_hive(frame, self._hive, fragment.unit, columns)

    def _rows(self, fragment: Fragment, stored: Sequence[str]) -> pl.DataFrame:
        container = self._containers[fragment.unit]
        blocks = [b for b in container.blocks if b.start < fragment.stop and fragment.start < b.start + b.rows]
        parts = []
        with self.files.open(fragment.unit) as file:
            for block in blocks:
                file.seek(block.begin)
                parts.append((block, bytes(file.read(block.size))))
        frame = conform(_decode(container.uncompressed(parts), stored), self._stored)
        wanted = sum(block.rows for block in blocks)
        if frame.height != wanted:
            raise DataFileError(f"found {frame.height} rows in {self.describe(fragment)}; wanted {wanted}")
        return frame.slice(fragment.start - blocks[0].start, fragment.rows) if blocks else frame

    def describe(self, fragment: Fragment) -> str:
        return f"{self.files.name(fragment.unit)} (rows {fragment.start} to {fragment.stop})"

    def file_keys(self) -> list[tuple[str, int, str]]:
        return self._pins.keys()

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(self.files.name(unit), rows)

    def fingerprint(self) -> str:
        return of_values(self._pins.fingerprint(), self._schema)

    def stamp(self) -> tuple[str, str]:
        return stamp_pins(self.files, self._pins, self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._widths.of(columns, self)


def _decode(data: bytes, columns: Sequence[str] | None) -> pl.DataFrame:
    frame = pl.read_avro(io.BytesIO(data))
    return frame if columns is None else frame.select(exactly(columns))


def _runs(unit: int, container: Container) -> list[Fragment]:
    """Neighbouring blocks as fragments, each block in one."""
    edges, size = [0], 0
    for block in container.blocks:
        if block.start > edges[-1] and (block.start + block.rows - edges[-1] > _ROWS or size + block.size > _BYTES):
            edges.append(block.start)
            size = 0
        size += block.size
    last = container.blocks[-1].start + container.blocks[-1].rows if container.blocks else 0
    edges = [*edges[: bisect_right(edges, last)], last]
    return [Fragment(unit, a, b - a) for a, b in pairwise(edges) if b > a]


def _damaged(name: str, error: BaseException) -> DataFileError:
    return DataFileError(
        f"cannot read {name}: {os_reason(error)}; wanted a whole Avro file, with columns that Polars reads; write it "
        f"again or leave it out"
    )
