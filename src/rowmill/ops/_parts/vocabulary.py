"""The values that Categorify knows of a column, in the order of their codes: how they are chosen, given and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from rowmill.errors import ArgumentError, DataFileError, writing
from rowmill.graph.operator import Fitted
from rowmill.sources.files.paths import local_path
from rowmill.sources.files.temporary_files import temporary_folder
from rowmill.sources.frames.frame_source import as_frame, from_pandas
from rowmill.sources.names import columns
from rowmill.statistics.counts import COUNT, Values, frame_in
from rowmill.statistics.lookup import Lookup
from rowmill.statistics.table import StatisticTable
from rowmill.statistics.values import without_nan

SIZE = "_size"
_RESERVED = 2  # padding and null


@dataclass(frozen=True)
class VocabularySpec:
    """Columns that are encoded with the same values: one, several that share them, or a combination."""

    name: str
    columns: tuple[str, ...]
    combined: bool
    threshold: int
    buckets: int
    most: int

    def __post_init__(self) -> None:
        if self.most and self.most < _RESERVED + self.buckets:
            raise ArgumentError(
                f"max_size is {self.most} for {self.name!r}, and {_RESERVED + self.buckets} codes are reserved for "
                f"padding, null and out-of-vocabulary; wanted at least that"
            )

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """What is counted: rows of all columns together, or the values of each."""
        return (self.columns,) if self.combined else tuple((name,) for name in self.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the table of values."""
        return self.groups[0]

    @property
    def encoded(self) -> Iterator[tuple[str, ...]]:
        """The columns that go into each encoded column."""
        return iter(self.groups)

    @property
    def kept(self) -> int | None:
        """How many values get a code of their own, where that is limited."""
        return self.most - _RESERVED - self.buckets if self.most else None


class LearntTable(pl.DataFrame):
    """What an operator has learnt, to look at: a frame, and a path where one is wanted.

    As a path (`pd.read_parquet(op.categories["x"])`) it is a Parquet file, written to a temporary folder when it is
    first asked for, and removed with what was learnt: when the operator is fitted again, or is gone.
    """

    def __fspath__(self) -> str:
        path: str | None = getattr(self, "_path", None)
        if path is None:
            path = self._path = str(temporary_folder(self) / "learnt.parquet")
            self.write_parquet(path)
        return path


def shown_table(fitted: Fitted, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> LearntTable:
    """A table of a fit to look at, always the same object for one fit."""
    return fitted.once(f"shown {name}", lambda: LearntTable(change(fitted.tables[name].frame)))


def given_vocabulary(given: Any, vocabulary: VocabularySpec, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """A vocabulary from a series, a list, an array, or a Parquet file whose first column has the values."""
    frame = read_vocabulary(given) if isinstance(given, str | PathLike) else given
    if isinstance(frame, pl.DataFrame) and not frame.width:
        raise ArgumentError(f"the vocabulary given for {vocabulary.name!r} has no columns; wanted one with the values")
    if isinstance(frame, pl.DataFrame):
        values = frame.get_column(vocabulary.name if vocabulary.name in frame.columns else frame.columns[0])
    elif not hasattr(given, "__len__"):
        raise ArgumentError(
            f"the vocabulary given for {vocabulary.name!r} is {given!r}; wanted a list, an array, a series, or the "
            f"path of a Parquet file"
        )
    else:
        values = given if isinstance(given, pl.Series) else pl.Series(np.asarray(given) if len(given) else [])
    name = vocabulary.keys[0]
    values = without_nan(values).drop_nulls().alias(name)
    if values.dtype != schema[name]:
        try:
            values = values.cast(schema[name])
        except pl.exceptions.PolarsError as error:
            raise ArgumentError(
                f"the vocabulary given for {name!r} is {values.dtype}, the column {schema[name]}; {str(error)[:200]}"
            ) from error
    if values.n_unique() != len(values):
        raise ArgumentError(f"the vocabulary given for {name!r} has values twice; wanted each once")
    return pl.DataFrame([values, pl.zeros(len(values), pl.Int64, eager=True).alias(COUNT)])


def grown(found: Values, before: StatisticTable, vocabulary: VocabularySpec) -> Values:
    """Counted values in the order of their codes: those of an earlier fit where they were, then new ones as counted.

    Where the number of codes is limited, new values get those that are left.
    """
    if found.frame is None:
        return found
    keys = columns(vocabulary.keys)
    counted = pl.concat([frame_in(frame) for frame in (found.frame, found.rest) if frame is not None])
    old = Lookup(before.frame.select(keys))
    place = pl.Series("place", old.find([counted.get_column(key) for key in vocabulary.keys]))
    known = counted.filter(place >= 0)
    known = known[place.filter(place >= 0).arg_sort()]
    wanted = frame_in(found.frame)
    new = wanted.filter(place.head(wanted.height) < 0)
    if vocabulary.kept is not None:
        new = new.head(max(0, vocabulary.kept - known.height))
    frame = pl.concat([known, new])
    rest = counted.join(frame, on=keys, how="anti", nulls_equal=True) if found.whole else None
    return replace(found, frame=frame, kept=int(frame[COUNT].sum()), rest=rest)


def plain_vocabulary(given: Any) -> Any:
    """A vocabulary as Rowmill keeps it: pandas' and Arrow's values as a Polars series or frame, others as they are."""
    library = type(given).__module__.split(".")[0]
    if library == "pyarrow":
        return pl.from_arrow(given)
    if library != "pandas":
        return given
    return (
        from_pandas(given.to_series() if hasattr(given, "to_series") else given) if given.ndim == 1 else as_frame(given)
    )


def read_vocabulary(path: str | PathLike[str]) -> pl.DataFrame:
    """The table of values in a Parquet file."""
    try:
        return pl.read_parquet(local_path(path, "vocabs"), glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataFileError(
            f"cannot read the vocabulary {path}: {str(error)[:200]}; wanted a Parquet file whose first column has "
            f"the values"
        ) from error


def named(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """A vocabulary as people read it: the values, and `{name}_size`, how often each was seen."""
    return table.rename({COUNT: name + SIZE})


def write_vocabulary(
    folder: str | PathLike[str], vocabulary: VocabularySpec, table: pl.DataFrame, nulls: int, unseen: int
) -> None:
    """The values and what the reserved codes mean, as two Parquet files under `categories`."""
    target = local_path(folder, "out_path") / "categories"
    name = quote(vocabulary.name, safe="-_.~ ").strip(".") or "column"
    kinds = {"pad": (0, 1, 0), "null": (1, 1, nulls), "oov": (2, vocabulary.buckets, unseen)}
    seen = int(table[vocabulary.name + SIZE].sum() or 0)
    kinds["unique"] = (2 + vocabulary.buckets, table.height, seen)
    rows = [(kind, *numbers) for kind, numbers in kinds.items()]
    meta = pl.DataFrame(rows, schema=["kind", "offset", "num_indices", "num_observed"], orient="row")
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
        for kind, frame in (("unique", table), ("meta", meta)):
            part = target / f".{kind}.{name}.part"
            try:
                pq.write_table(
                    frame.to_arrow(), part
                )  # Polars says of a full disk that the file is out of specification
                part.rename(target / f"{kind}.{name}.parquet")
            finally:
                part.unlink(missing_ok=True)
