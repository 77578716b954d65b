"""A dataset in, `TableFacts` out: footers for what is exact, and a sample of rows for what columns look like.

The sample is taken in slices spread evenly over the table, so that a sorted one is not judged by its beginning. Called
by `rowmill inspect`, `rowmill report` and `loader.report()`.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from rowmill._system.progress import progress_bar
from rowmill.dataset import Dataset
from rowmill.report.advice import advise
from rowmill.report.facts import ColumnFacts, TableFacts
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.null_texts import NullTexts, find_null_texts
from rowmill.sources.summary import version_text

SAMPLE_ROWS = 200_000  # looking at 40 columns of them takes about a second
SLICES = 64  # places the sample is taken from; each may cost the decoding of a row group
BINS = 24
FEW = 50  # integers with no more distinct values are shown value by value
LONG_TAIL = 2.0  # skewness from which on bins are logarithmic, or nearly all values stand in the first
TEXT = 40  # letters of a value that are shown


def measure_table(
    dataset: Dataset, path: str = "", *, sample: int = SAMPLE_ROWS, progress: bool | None = None
) -> TableFacts:
    """The figures of a table, with advice. At most about `sample` rows are read; a smaller table is read whole."""
    frame = sample_rows(dataset, sample, progress=progress)
    fragments = dataset.source.fragments
    columns = []
    with progress_bar("Looking at columns", len(dataset.schema), progress) as done:
        for column in dataset.schema:
            columns.append(measure_column(frame[column.name], column))
            done(1)
    rows_of_file = Counter[int]()
    for fragment in fragments:
        rows_of_file[fragment.unit] += fragment.rows
    facts = TableFacts(
        path=path,
        rows=dataset.num_rows,
        files=len(rows_of_file),
        file_bytes=_file_bytes(dataset),
        row_bytes=float(dataset.source.row_bytes(dataset.columns)),
        fragment_rows=tuple(fragment.rows for fragment in fragments),
        sampled_rows=frame.height,
        columns=tuple(columns),
        engine=getattr(getattr(dataset.source, "files", None), "engine", None),
        version=version_text(dataset.source),
    )
    return replace(facts, advice=tuple(advise(facts, tuple(rows_of_file.values()))))


def measure_text(dataset: Dataset, *, sample: int = SAMPLE_ROWS) -> tuple[ColumnFacts, ...]:
    """The figures of the text columns of a table, from a sample of its rows."""
    texts = [column for column in dataset.schema if column.dtype == "string" and not column.is_list]
    if not texts:
        return ()
    frame = sample_rows(Dataset(dataset.source, columns=[c.name for c in texts]), sample, progress=False)
    return tuple(measure_column(frame[column.name], column) for column in texts)


def sample_rows(dataset: Dataset, most: int = SAMPLE_ROWS, *, progress: bool | None = None) -> pl.DataFrame:
    """About `most` rows from all over the table, in table order; all of them if there are no more."""
    fragments = list(dataset.source.fragments)
    total = dataset.num_rows
    frames = []
    with progress_bar("Reading a sample", min(most, total), progress) as done:
        for number, start, rows in _slices([f.rows for f in fragments], most):
            frames.append(dataset.source.read(fragments[number].slice(start, rows), dataset.columns))
            done(rows)
    return pl.concat(frames) if frames else dataset.empty()


def _slices(fragment_rows: list[int], most: int) -> Iterator[tuple[int, int, int]]:
    """Fragment, first row and number of rows of each slice."""
    total = sum(fragment_rows)
    if total <= most:
        yield from ((number, 0, rows) for number, rows in enumerate(fragment_rows))
        return
    ends = np.cumsum(fragment_rows)
    count = min(SLICES, max(1, most))
    for place in range(count):
        row = total * place // count
        number = int(np.searchsorted(ends, row, side="right"))
        start = row - int(ends[number] - fragment_rows[number])
        yield number, start, min(most // count, fragment_rows[number] - start)


def measure_column(series: pl.Series, column: ColumnSchema) -> ColumnFacts:
    """What the rows of one column show."""
    series = series.alias("values")  # the table's name for it could be read as a pattern
    nulls = series.null_count() / max(1, len(series))
    length = None
    if isinstance(series.dtype, pl.List | pl.Array):
        lengths = series.cast(pl.List(series.dtype.inner)).list.len().cast(pl.Float64).drop_nulls()
        length = float(lengths.sum()) / max(1, len(lengths))
        series = series.explode(empty_as_null=False, keep_nulls=False)
    values = series.drop_nulls()
    if values.dtype.is_nested() or values.dtype in (pl.Null, pl.Object):
        return _unknown(column, nulls, length)
    nulls_as_text = NullTexts() if length is not None else find_null_texts(values)
    counts = values.value_counts(sort=True, name="rows")
    top = int(counts["rows"][0]) if counts.height else 0
    numbers = _numbers(values)
    skewness = _skewness(numbers)
    kind, low, high, shape, names = _shape(counts, numbers, column, skewness or 0.0)
    return ColumnFacts(
        name=column.name,
        dtype=column.dtype,
        is_list=bool(column.is_list),
        tags=tuple(sorted(column.tags)),
        nulls=nulls,
        distinct=counts.height,
        top_share=top / max(1, len(values)),
        top_value=_text(counts[counts.columns[0]][0]) if counts.height else "",
        minimum=_text(values.min()) if len(values) and values.dtype != pl.Binary else "",
        mean=_mean(numbers),
        maximum=_text(values.max()) if len(values) and values.dtype != pl.Binary else "",
        skewness=skewness,
        length=length,
        kind=kind,
        low=low,
        high=high,
        shape=shape,
        names=names,
        null_texts=nulls_as_text.texts,
        numeric_text=nulls_as_text.numeric,
    )


def _numbers(values: pl.Series) -> Any:
    """The finite values as float64, or None for what is not a number."""
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        return None
    numbers = values.cast(pl.Float64).to_numpy()
    return numbers[np.isfinite(numbers)]


def _shape(counts: pl.DataFrame, numbers: Any, column: ColumnSchema, skewness: float) -> tuple[Any, ...]:
    ids = {str(Tags.CATEGORICAL), str(Tags.TARGET)} & column.tags
    if numbers is not None and len(numbers) and not ids and counts.height > FEW:
        low, high = np.quantile(numbers, [0.005, 0.995])  # or a single outlier leaves all others in one bin
        if high > low:
            kind, clipped = "numbers", np.clip(numbers, low, high)
            if skewness > LONG_TAIL:
                kind, clipped = "logarithms", np.log1p(BINS * (clipped - low) / np.mean(clipped - low))
            heights, _ = np.histogram(clipped, BINS)
            return kind, float(low), float(high), tuple(int(n) for n in heights), ()
    if not counts.height:
        return "none", None, None, (), ()
    head = counts.head(BINS)
    return "values", None, None, tuple(head["rows"].to_list()), tuple(_text(v) for v in head[head.columns[0]])


def _mean(numbers: Any) -> float | None:
    if numbers is None or not len(numbers):
        return None
    with np.errstate(over="ignore"):
        found = float(numbers.mean())
    return found if math.isfinite(found) else None


def _skewness(numbers: Any) -> float | None:
    """The third standardised moment: 0 is symmetric, above 1 a long tail to the right."""
    if numbers is None or len(numbers) < 3:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        centred = numbers - numbers.mean()
        spread = math.sqrt(float((centred**2).mean()))
        found = float((centred**3).mean()) / spread**3 if spread > 0 else 0.0
    return found if math.isfinite(found) else None


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = repr(value) if isinstance(value, bytes) else str(value)
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"


def _unknown(column: ColumnSchema, nulls: float, length: float | None) -> ColumnFacts:
    tags = tuple(sorted(column.tags))
    return ColumnFacts(column.name, column.dtype, bool(column.is_list), tags, nulls, 0, 0.0, "", "", None, "", None,
                       length, "none", None, None, (), ())  # fmt: skip


def _file_bytes(dataset: Dataset) -> int | None:
    """Bytes on disk, where the dataset is of local files."""
    files = getattr(dataset.source, "files", None)
    if files is None or getattr(files, "filesystem", None) is not None:
        return None
    return sum(os.path.getsize(path) for path in files.paths)  # noqa: PTH202
