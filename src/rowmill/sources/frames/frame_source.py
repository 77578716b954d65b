"""Tables that are in memory already, as a source: pandas, Polars, Arrow, dicts of arrays, Arrow streams.

One unit, cut into fragments of about 128 thousand rows or into `npartitions`. A lazy Polars query is run
once, when its rows are first needed, into a temporary Parquet file that goes away with the source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from rowmill._system.lock import Lock
from rowmill.errors import ArgumentError, DataFileError, DtypeError, RowmillError, writing
from rowmill.schema import Schema
from rowmill.sources.arrow_types import FILES_ONLY, as_polars, refusal, trouble
from rowmill.sources.files.fingerprint import of_frame, stamp_frame
from rowmill.sources.files.paths import Files
from rowmill.sources.files.temporary_files import temporary_folder
from rowmill.sources.frames.pandas_index import listed, unlisted
from rowmill.sources.locate import Rows, places
from rowmill.sources.missing_columns import check_columns
from rowmill.sources.names import column, frame_of
from rowmill.sources.parquet.parquet_source import ParquetSource
from rowmill.sources.row_size import Widths
from rowmill.sources.source import Fragment
from rowmill.sources.types import conform, plain, schema_of

_FRAGMENT_ROWS = 131_072
_FAILURES = (
    pa.ArrowException,
    TypeError,
    ValueError,
    OverflowError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
_PANDAS_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)


class FrameSource:
    """A `polars.DataFrame` held in memory; reading is slicing."""

    def __init__(self, frame: pl.DataFrame, npartitions: int | None = None) -> None:
        self.frame = frame
        self.dtypes = {name: plain(dtype) for name, dtype in frame.schema.items()}
        self._schema = schema_of(listed(self.dtypes))
        self.unlisted = schema_of(unlisted(self.dtypes))
        self._fragments = cut(frame.height, npartitions)
        self._widths = Widths(self.dtypes)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._fragments

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        check_columns(columns, self.dtypes, "the frame")
        if not columns:
            return pl.DataFrame(height=fragment.rows)
        wanted = frame_of(self.frame.get_column(name) for name in columns)
        return conform(wanted.slice(fragment.start, fragment.rows), self.dtypes)

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        return {name: self.frame.get_column(name).null_count() > 0 for name in columns}

    def describe(self, fragment: Fragment) -> str:
        return f"frame in memory (rows {fragment.start} to {fragment.stop})"

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(None, rows)

    def fingerprint(self) -> str:
        return of_frame(self.frame)

    def stamp(self) -> tuple[str, str]:
        return stamp_frame(self.frame)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._widths.of(columns, self)


@contextmanager
def _running(what: str) -> Iterator[None]:
    """Turn what Polars says of a query into a `DataFileError`."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, FileNotFoundError) as error:
        if isinstance(error, RowmillError):
            raise
        raise DataFileError(
            f"{what} failed: {str(error)[:1000]}; mend the query, or the files that it reads"
        ) from error


class LazySource:
    """A Polars query: its schema is known at once; its rows are written to a temporary file when first needed."""

    def __init__(self, query: pl.LazyFrame, npartitions: int | None = None) -> None:
        self._query = query
        self._npartitions = npartitions
        self._lock = Lock()
        with _running("reading the schema of a lazy query"):
            self.dtypes = {name: plain(dtype) for name, dtype in query.collect_schema().items()}
        self._schema = schema_of(listed(self.dtypes))
        self.unlisted = schema_of(unlisted(self.dtypes))

    @cached_property
    def _rows(self) -> ParquetSource:
        path = temporary_folder(self) / "query.parquet"
        casts = [column(n).cast(t) for n, t in self.dtypes.items()]
        with _running("running a lazy query"), writing(path):
            self._query.select(casts).sink_parquet(path, row_group_size=_FRAGMENT_ROWS, compression="lz4")
        return ParquetSource(Files((str(path),), "parquet"))

    def _spooled(self) -> ParquetSource:
        with self._lock:  # several threads may ask first
            return self._rows

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        fragments = self._spooled().fragments
        return cut(sum(f.rows for f in fragments), self._npartitions) if self._npartitions else fragments

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        return self._spooled().read(fragment, columns)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        return self._spooled().read_slices(fragment, columns, max_bytes)

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        return self._spooled().known_nulls(columns)

    def describe(self, fragment: Fragment) -> str:
        return f"result of a lazy query (rows {fragment.start} to {fragment.stop})"

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(None, rows)

    def fingerprint(self) -> str:
        return self._spooled().fingerprint()

    def stamp(self) -> tuple[str, str]:
        return self._spooled().stamp()

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._spooled().row_bytes(columns)


def cut(rows: int, pieces: int | None) -> tuple[Fragment, ...]:
    """`rows` rows of unit 0 in `pieces` nearly equal fragments, or in as many as keep each about 128 thousand rows."""
    pieces = max(1, min(pieces or round(rows / _FRAGMENT_ROWS), rows))
    edges = [rows * i // pieces for i in range(pieces + 1)]
    return tuple(Fragment(0, a, b - a) for a, b in pairwise(edges) if b > a)


def frame_source(given: Any, npartitions: int | None = None) -> FrameSource | LazySource | None:
    """A source over a frame of any known kind, or None where `given` is not one."""
    if isinstance(given, pl.LazyFrame):
        return LazySource(given, npartitions)
    frame = as_frame(given)
    return None if frame is None else FrameSource(frame, npartitions)


def as_frame(given: Any) -> pl.DataFrame | None:
    """Any table in memory as a Polars frame, without copying where its memory is Arrow's."""
    if isinstance(given, pl.DataFrame):
        return given
    if isinstance(given, Mapping):
        return _from_arrays(given)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame):
        names = [str(c) for c in given.columns]
        if len(set(names)) != len(names):
            raise ArgumentError("columns named twice in the pandas frame; names must be unique; rename them")
        for name, dtype in zip(names, given.dtypes, strict=True):
            kind = getattr(dtype, "pyarrow_dtype", None)
            if kind is not None and trouble(kind) > FILES_ONLY:
                raise refusal(name, kind)
        try:
            return pl.from_pandas(given.set_axis(names, axis=1), include_index=False)
        except _FAILURES as error:
            raise _mixed(given, names) from error
    if isinstance(given, pa.Table | pa.RecordBatch):
        return as_polars(given if isinstance(given, pa.Table) else pa.Table.from_batches([given]))
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, str):
        try:
            table = pa.RecordBatchReader.from_stream(given).read_all()
        except (pa.ArrowException, TypeError) as error:
            raise ArgumentError(f"a {type(given).__name__} holds no table of columns ({error}); pass one") from error
        return as_polars(table)
    return None


def as_pandas(frame: pl.DataFrame) -> Any:
    """A pandas frame. Integers and flags beside nulls keep their values, in pandas's nullable types (Int64, boolean):
    as floats they would differ from the same values in a piece of the table that has no null.
    """
    import pandas as pd

    made = through_arrow(frame)
    for name in frame.columns:
        series = frame.get_column(name).alias("values")
        if series.null_count() and (series.dtype == pl.Boolean or series.dtype in _PANDAS_INTEGERS):
            flags = series.dtype == pl.Boolean
            kind = pd.arrays.BooleanArray if flags else pd.arrays.IntegerArray
            values = series.fill_null(value=False) if flags else series.fill_null(0)
            made[name] = kind(values.to_numpy().copy(), series.is_null().to_numpy().copy())
    return made


def through_arrow(frame: pl.DataFrame) -> Any:
    """What `frame.to_pandas()` gives. That holds the GIL while it waits for Polars' threads, which may want it."""
    import pandas as pd

    if not frame.width:
        return pd.DataFrame(index=range(frame.height))
    if pl.Object in frame.dtypes:
        return frame.to_pandas()
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).to_pandas(date_as_object=False)


def as_arrow_pandas(frame: pl.DataFrame) -> Any:
    """A pandas frame of Arrow's types: what `frame.to_pandas(use_pyarrow_extension_array=True)` gives."""
    import pandas as pd

    if not frame.width:
        return pd.DataFrame(index=range(frame.height))
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.to_pandas(self_destruct=True, split_blocks=True, types_mapper=pd.ArrowDtype)


def from_pandas(series: Any) -> pl.Series:
    """A pandas Series as a column."""
    made = pl.from_pandas(series)
    assert isinstance(made, pl.Series)
    return made


def _mixed(frame: Any, names: list[str]) -> DtypeError:
    """The error for a pandas frame with a column that is no column of a table."""
    for name, (_, series) in zip(names, frame.items(), strict=True):
        try:
            pl.from_pandas(series)
        except _FAILURES as error:
            kinds = sorted({type(value).__name__ for value in series.head(1000)})
            return DtypeError(
                f"column {name!r} of the pandas frame has values of {', '.join(kinds)} ({error}); wanted one type; "
                f"convert it first, for example with frame[{name!r}].astype(str)"
            )
    return DtypeError("the pandas frame cannot be read as a table; wanted columns of one type each")


def _from_arrays(arrays: Mapping[str, Any]) -> pl.DataFrame:
    columns = {str(name): _series(str(name), values) for name, values in arrays.items()}
    sizes = {name: len(series) for name, series in columns.items()}
    if len(set(sizes.values())) > 1:
        raise ArgumentError(f"columns of different lengths: {sizes}; wanted one length; cut or fill the short ones")
    return pl.DataFrame(columns)


def _series(name: str, values: Any) -> pl.Series:
    if isinstance(values, pl.Series):
        return values.alias(name)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return as_polars(pa.table([values], names=[name])).to_series()
    if hasattr(values, "detach") and hasattr(values, "numpy"):  # a torch tensor
        values = values.detach().cpu().numpy()
    if isinstance(values, np.ndarray):
        if values.ndim == 0:
            raise ArgumentError(f"column {name!r} is a single value; wanted an array with one value a row")
        values = np.ascontiguousarray(values) if values.dtype != object else values.tolist()
    elif not isinstance(values, list | tuple) and not hasattr(values, "__arrow_c_stream__"):
        values = list(values)
    try:
        return pl.Series(name, values)
    except _FAILURES as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DtypeError(f"column {name!r} is not of one type ({reason}); convert its values first") from error
