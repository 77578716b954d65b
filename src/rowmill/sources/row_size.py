"""Estimates how many bytes a decoded row takes: from its type, or from a few rows where the type does not say it.

Every file source answers `row_bytes` with this; the rows are looked at once, when somebody first asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import polars as pl

from rowmill.errors import DataFileError
from rowmill.sources.source import Fragment, Source, read_slices
from rowmill.sources.types import leaf_type, value_bytes

_PLACES = 3  # fragments looked into: the first, one in the middle, the last
_ROWS = 1024
_BYTES = 4 << 20  # of the rows looked at in one place, however large they are

FirstRows = Callable[[Fragment, Sequence[str], int], pl.DataFrame]  # fragment, columns, most bytes


def is_uneven(dtype: pl.DataType) -> bool:
    """Whether values of this type may differ in size."""
    return dtype in (pl.String, pl.Binary) or dtype.is_nested()


class Widths:
    """Bytes a row of each column of a source, remembered."""

    def __init__(self, dtypes: Mapping[str, pl.DataType]) -> None:
        self._dtypes = dtypes
        self._known: dict[str, float] = {}

    def of(self, columns: Sequence[str], source: Source, first_rows: FirstRows | None = None) -> float:
        """The sum over these columns. (The source is not kept: the two would keep each other alive.)

        `first_rows` reads some rows from the start of a fragment; without it, the source's first slice is taken.
        """
        new = [c for c in columns if c not in self._known]
        variable = [c for c in new if is_uneven(self._dtypes[c])]
        self._known.update({c: value_bytes(self._dtypes[c]) for c in new})
        if variable:
            self._known.update(_looked_at(variable, source, first_rows or partial(_first_slice, source)))
        return sum(self._known[c] for c in columns)

    def known(self, column: str) -> float:
        """Bytes a row of a column, without looking at any: what was found before, or what its type says."""
        return self._known.get(column, value_bytes(self._dtypes[column]))


def _first_slice(source: Source, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> pl.DataFrame:
    return next(read_slices(source, fragment, columns, max_bytes))


def _looked_at(columns: Sequence[str], source: Source, first_rows: FirstRows) -> dict[str, float]:
    fragments = source.fragments
    places = sorted({i * (len(fragments) - 1) // max(1, _PLACES - 1) for i in range(_PLACES)}) if fragments else []
    try:
        samples = [fragments[i].slice(0, min(_ROWS, fragments[i].rows)) for i in places]
        frame = pl.concat([first_rows(sample, columns, _BYTES) for sample in samples])
    except (DataFileError, ValueError):
        return {}  # nothing to see, or a damaged file: whoever reads those rows will be told
    return {c: column_bytes(frame[c].alias("values")) for c in columns} if frame.height else {}


def column_bytes(values: pl.Series) -> float:
    """Mean bytes a value of a column."""
    dtype = values.dtype
    if dtype == pl.String:
        return 16 + float(values.str.len_bytes().sum()) / len(values)  # 16 for the view of each
    if dtype == pl.Binary:
        return 16 + float(values.bin.size().sum()) / len(values)
    if isinstance(dtype, pl.List) and not leaf_type(dtype).is_nested() and leaf_type(dtype) != pl.String:
        return 8 + float(values.list.len().sum()) / len(values) * value_bytes(leaf_type(dtype))
    if isinstance(dtype, pl.List):
        leaves = values.explode().drop_nulls()
        return 8 + (column_bytes(leaves) * len(leaves) / len(values) if len(leaves) else 0.0)
    return max(value_bytes(dtype), float(values.estimated_size()) / len(values))
