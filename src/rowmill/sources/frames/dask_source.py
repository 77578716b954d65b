"""Dask dataframes in and out: each of its partitions is a fragment, computed when it is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import polars as pl

from rowmill.errors import DtypeError, MissingExtraError, warn
from rowmill.schema import Schema
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.frames.frame_source import as_frame
from rowmill.sources.frames.pandas_frames import check_backend, is_masked, pandas_frame
from rowmill.sources.locate import Rows, places
from rowmill.sources.missing_columns import check_columns
from rowmill.sources.null_columns import columns_with_nulls
from rowmill.sources.row_size import Widths
from rowmill.sources.source import Fragment, Source
from rowmill.sources.types import conform, plain, schema_of, type_name

_SAMPLE = 1_000  # rows that are looked at where pandas does not tell the type of a column


class DaskSource:
    """The partitions of a Dask dataframe. Their lengths are computed once, when first asked for."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        empty = as_frame(collection._meta)
        assert empty is not None
        unclear = _unclear(empty) or any(str(dtype) == "object" for dtype in collection._meta.dtypes)
        first = as_frame(collection.head(_SAMPLE, npartitions=-1, compute=True)) if unclear else None
        self.dtypes = {name: plain(dtype) for name, dtype in (empty if first is None else first).schema.items()}
        _warn_of_lists(collection, [name for name, dtype in self.dtypes.items() if dtype == pl.String])
        self._schema = schema_of(self.dtypes)
        self._widths = Widths(self.dtypes)

    @property
    def schema(self) -> Schema:
        return self._schema

    @cached_property
    def fragments(self) -> Sequence[Fragment]:
        lengths = self._collection.map_partitions(len).compute()
        return tuple(Fragment(unit, 0, int(rows)) for unit, rows in enumerate(lengths) if rows)

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        check_columns(columns, self.dtypes, "the Dask dataframe")
        if not columns:
            return pl.DataFrame(height=fragment.rows)
        if not fragment.rows:
            return pl.DataFrame(schema={name: self.dtypes[name] for name in columns})
        part = self._collection[list(columns)].get_partition(fragment.unit).compute(scheduler="synchronous")
        frame = as_frame(part)
        assert frame is not None
        try:
            return conform(frame.slice(fragment.start, fragment.rows), self.dtypes)
        except pl.exceptions.PolarsError as error:
            raise self._changed(frame, fragment) from error

    def _changed(self, frame: pl.DataFrame, fragment: Fragment) -> DtypeError:
        """The error for a partition whose types are not those of the first rows."""
        other = {name: dtype for name, dtype in frame.schema.items() if plain(dtype) != self.dtypes[name]}
        name, found = next(iter(other.items()))
        return DtypeError(
            f"column {name!r} is {type_name(plain(found))} in {self.describe(fragment)}, and "
            f"{type_name(self.dtypes[name])} in its first rows; give the column one type in Dask, or write the frame "
            f"to Parquet files and open those"
        )

    def describe(self, fragment: Fragment) -> str:
        return f"partition {fragment.unit} of a Dask dataframe (rows {fragment.start} to {fragment.stop})"

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        return places(None, rows).with_columns(pl.lit(unit, pl.Int64).alias("row_group"))

    def fingerprint(self) -> str:
        return of_values(self._collection._name, tuple(self.fragments))

    def stamp(self) -> tuple[str, str]:
        return of_values(self._collection._name), self.fingerprint()

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._widths.of(columns, self)


def _warn_of_lists(collection: Any, texts: list[str]) -> None:
    """Warn of lists that Dask has turned into text: by default it makes strings of all objects."""
    if not texts:
        return
    first = collection[texts].get_partition(0).map_partitions(_first_rows).compute()  # head() warns of few rows
    for name in texts:
        found = [text for text in first[name] if isinstance(text, str)]
        if found and all(re.fullmatch(r"\[.*\]", text, re.S) for text in found):
            warn(
                f"column {name!r} of the Dask dataframe has texts such as {found[0][:40]!r}: Dask makes text of lists "
                f"unless dask.config.set({{'dataframe.convert-string': False}}) is called before the frame is made",
            )


def _first_rows(frame: Any) -> Any:
    return frame.head(5)


def _unclear(empty: pl.DataFrame) -> bool:
    """Whether an empty frame does not tell the types: pandas has one for strings, lists and everything else."""
    return any(dtype in (pl.Null, pl.Object) or dtype.is_nested() for dtype in empty.dtypes)


def to_dask(
    source: Source, fragments: Sequence[Fragment], columns: Sequence[str], dtype_backend: str | None = None
) -> Any:
    """A Dask dataframe of pandas frames, a partition for each fragment; all have the types that Dask is told."""
    check_backend(dtype_backend)
    try:
        import dask
        import dask.dataframe as dd
    except ImportError as error:
        raise MissingExtraError("Dataset.to_ddf needs Dask's dataframes; pip install 'rowmill[dask]'") from error

    empty = source.read(Fragment(0, 0, 0), columns)
    numbers = [name for name, dtype in empty.schema.items() if is_masked(dtype)]
    nullable = columns_with_nulls(source, numbers) if dtype_backend is None else frozenset()
    read = partial(_read, source, tuple(columns), dtype_backend, nullable)
    meta = pandas_frame(empty, dtype_backend, nullable)
    with dask.config.set({"dataframe.convert-string": False}):  # or Dask makes text of lists
        return dd.from_map(read, list(fragments) or [Fragment(0, 0, 0)], meta=meta)


def _read(
    source: Source, columns: tuple[str, ...], dtype_backend: str | None, nullable: frozenset[str], fragment: Fragment
) -> Any:
    return pandas_frame(source.read(fragment, columns), dtype_backend, nullable)
