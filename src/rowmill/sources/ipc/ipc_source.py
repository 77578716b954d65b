"""Arrow IPC files (Feather version 2) as a source: units are files, natural fragments are record batches.

Row counts come from the headers of the batches. Local files are read by Polars, files on an object store
by PyArrow.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise

import polars as pl
import pyarrow as pa
import pyarrow.ipc
from pyarrow.fs import LocalFileSystem

from rowmill.errors import DataFileError, MemoryLimitError, os_reason
from rowmill.schema import Schema
from rowmill.sources.files.fingerprint import of_values, stamp_pins
from rowmill.sources.files.hive import hive_columns, with_hive
from rowmill.sources.files.paths import Files
from rowmill.sources.files.pins import Pins
from rowmill.sources.frames.pandas_index import listed, only_common_index, unlisted
from rowmill.sources.ipc.batch_sizes import batch_sizes
from rowmill.sources.locate import Rows, places
from rowmill.sources.missing_columns import check_columns
from rowmill.sources.names import columns as exactly
from rowmill.sources.row_size import Widths
from rowmill.sources.schema_unification import unify
from rowmill.sources.source import Fragment, read_even_slices
from rowmill.sources.types import arrow_types, conform, schema_of

_SLICES = 8  # times the bytes of a slice that a compressed batch may take: two thirds of the memory setting, or a third


class IpcSource:
    """The record batches of a list of Arrow IPC files that agree on their columns."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._pins = Pins.of(files)
        self._decoded: dict[int, list[int]] = {}  # bytes that a compressed batch of a local file takes in memory
        tables = []
        self._starts: list[tuple[int, ...]] = []
        for unit in range(len(files.paths)):
            rows, types = self._header(unit)
            tables.append((files.name(unit), types))
            self._starts.append((0, *accumulate(rows)))
        self._stored = unify(only_common_index(tables))
        self._hive = hive_columns(files, self._stored)
        self.dtypes = {**self._stored, **{name: values.dtype for name, values in self._hive.items()}}
        self._schema = schema_of(listed(self.dtypes))
        self.unlisted = schema_of(unlisted(self.dtypes))
        self._widths = Widths(self.dtypes)
        self._fragments = tuple(
            Fragment(unit, start, stop - start)
            for unit, starts in enumerate(self._starts)
            for start, stop in pairwise(starts)
            if stop > start
        )

    def _header(self, unit: int) -> tuple[list[int], dict[str, pl.DataType]]:
        """Rows of each batch and the types of the columns."""
        name = self.files.name(unit)
        try:
            if self.files.filesystem is None:
                with pa.memory_map(name) as file:
                    types = arrow_types(pa.ipc.open_file(file).schema)
                found = batch_sizes(name)
                self._decoded[unit] = [batch.nbytes if batch.compressed else 0 for batch in found]
                return [batch.rows for batch in found], types
            with (self.files.filesystem or LocalFileSystem()).open_input_file(name) as file:
                schema = pa.ipc.open_file(file).schema
                reader = pa.ipc.open_file(
                    file, options=pa.ipc.IpcReadOptions(included_fields=[0] if len(schema) else None)
                )
                return [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)], arrow_types(schema)
        except (
            OSError,
            ValueError,
            pa.ArrowException,
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
        ) as error:
            raise DataFileError(
                f"cannot read {name}: {os_reason(error)}; wanted a whole Arrow IPC file; write it again or leave it out"
            ) from error

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._fragments

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        check_columns(columns, self.dtypes, self.files.name(fragment.unit))
        stored = [c for c in columns if c in self._stored]
        with self._pins.unchanged(fragment.unit, partial(self.describe, fragment)):
            frame = (
                conform(self._decode(fragment, stored), self._stored) if stored else pl.DataFrame(height=fragment.rows)
            )
            if frame.height != fragment.rows:
                raise DataFileError(
                    f"found {frame.height} rows in {self.describe(fragment)}; wanted {fragment.rows}; the file is "
                    f"damaged: write it again or leave it out"
                )
        return with_hive(frame, self._hive, fragment.unit, columns)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        largest = self._decompressed(fragment, columns)
        if largest > _SLICES * max_bytes:
            raise MemoryLimitError(
                f"{self.describe(fragment)} is compressed and takes {largest / 1e6:,.0f} MB once decompressed, as a "
                f"whole, which is too much of the memory setting; pass a memory= that is "
                f"{math.ceil(largest / _SLICES / max_bytes)} times as large, or write the file with smaller batches, "
                f"without compression, or as Parquet"
            )
        yield from read_even_slices(self, fragment, columns, max_bytes)

    def _decompressed(self, fragment: Fragment, columns: Sequence[str]) -> float:
        """The most bytes that these columns take in one of the batches of a fragment, taken to be of equal size."""
        starts, sizes = self._starts[fragment.unit], self._decoded.get(fragment.unit, [])
        first, last = (
            bisect_right(starts, row) - 1 for row in (fragment.start, max(fragment.start, fragment.stop - 1))
        )
        wanted = len(set(columns) & self._stored.keys()) / max(1, len(self._stored))
        return wanted * max(sizes[first : last + 1], default=0)

    def _first_rows(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> pl.DataFrame:
        return next(read_even_slices(self, fragment, columns, max_bytes))

    def _decode(self, fragment: Fragment, stored: Sequence[str]) -> pl.DataFrame:
        path = self.files.name(fragment.unit)
        if self.files.filesystem is None:
            scan = pl.scan_ipc(path, glob=False, hive_partitioning=False)
            return scan.select(exactly(stored)).slice(fragment.start, fragment.rows).collect()
        starts = self._starts[fragment.unit]
        first = bisect_right(starts, fragment.start) - 1
        with self.files.filesystem.open_input_file(path) as file:
            reader = pa.ipc.open_file(file)
            batches = []
            while first < reader.num_record_batches and starts[first] < max(fragment.stop, 1):
                batches.append(reader.get_batch(first).select(list(stored)))
                first += 1
            table = pa.Table.from_batches(batches, reader.schema.empty_table().select(list(stored)).schema)
        skip = fragment.start - starts[bisect_right(starts, fragment.start) - 1]
        frame = pl.from_arrow(table.slice(skip, fragment.rows))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def describe(self, fragment: Fragment) -> str:
        batch = bisect_right(self._starts[fragment.unit], fragment.start) - 1
        return f"{self.files.name(fragment.unit)}, record batch {batch} (rows {fragment.start} to {fragment.stop})"

    def file_keys(self) -> list[tuple[str, int, str]]:
        return self._pins.keys()

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(self.files.name(unit), rows, self._starts[unit])

    def fingerprint(self) -> str:
        return of_values(self._pins.fingerprint(), self._schema)

    def stamp(self) -> tuple[str, str]:
        return stamp_pins(self.files, self._pins, self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._widths.of(columns, self, self._first_rows)
