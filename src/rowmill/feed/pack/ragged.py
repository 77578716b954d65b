"""Columns without a fixed width: lists become values and offsets, strings become arrays of Python objects.

Comes in: the variable-size columns of the fragments of a chunk, and the place of each row. Goes out: one array of
values with offsets (or one array of objects) for the whole chunk, in the order of its batches; a batch is a slice of
it. Called by `run.chunk_buffer` when the last fragment of a chunk has arrived: only then the lengths are known.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill import _native
from rowmill.feed.memory.block import Array

_LARGE = 1 << 20

Ragged = tuple[Array, NDArray[np.int64]]
_ITEM_BYTES: dict[Any, int] = {
    pl.Int8: 1, pl.UInt8: 1, pl.Boolean: 1, pl.Int16: 2, pl.UInt16: 2, pl.Float16: 2, pl.Int32: 4, pl.UInt32: 4,
    pl.Float32: 4, pl.Date: 4,
}  # fmt: skip
Piece = tuple[pl.Series, NDArray[np.uint32]]  # rows of a column, and the place of each


def lists(pieces: Sequence[Piece], rows: int) -> Ragged:
    """Values and `rows + 1` offsets, from pieces of a list column."""
    offsets = np.zeros(rows + 1, np.int64)
    for series, places in pieces:
        offsets[1:][places] = series.alias("list").list.len().to_numpy()
    np.cumsum(offsets, out=offsets)
    values: Array | None = None
    for series, places in pieces:  # one after another: a piece of several parts is copied on the way
        source, starts = values_and_offsets(series)
        if values is None:
            values = _empty(int(offsets[-1]), source.dtype)
        _native.copy_lists(source, starts, places, offsets, values)
    return np.empty(0, np.int64) if values is None else values, offsets


def _empty(count: int, dtype: np.dtype[Any]) -> Array:
    """As `np.empty`; large arrays in memory that goes back to the system at once, where malloc would keep it."""
    if count * dtype.itemsize < _LARGE:
        return np.empty(count, dtype)
    return np.frombuffer(mmap.mmap(-1, count * dtype.itemsize), dtype)


def objects(pieces: Sequence[Piece], rows: int) -> Array:
    """An object array, from pieces of a string or binary column."""
    gathered = np.empty(rows, object)
    for series, places in pieces:
        gathered[places] = series.to_numpy()
    return gathered


def nbytes(series: pl.Series) -> float:
    """The bytes of a list, string or binary column once it is values and offsets, or an array of objects."""
    series = series.alias("values")  # methods of a series select it by name, and a name may look like a pattern
    if isinstance(series.dtype, pl.List):
        return 8.0 * len(series) + float(series.list.len().sum() or 0) * _ITEM_BYTES.get(series.dtype.inner, 8)
    if series.dtype in (pl.String, pl.Binary):
        lengths = series.str.len_bytes() if series.dtype == pl.String else series.bin.size()
        return 64.0 * len(series) + float(lengths.sum() or 0)
    return 64.0 * len(series) + float(series.estimated_size())


def values_and_offsets(series: pl.Series) -> Ragged:
    """The leaves of a list column and where each row's begin, as NumPy arrays that look into the column."""
    arrow = series.alias("values").rechunk().to_arrow()  # no Arrow field has a name with a NUL in it
    offsets = arrow.offsets.to_numpy().astype(np.int64, copy=False)
    return arrow.values.to_numpy(zero_copy_only=False), offsets


def slice_rows(column: Ragged, first: int, last: int) -> Ragged:
    """Rows `first` to `last` of a ragged column, with offsets that start at 0."""
    values, offsets = column
    own = offsets[first : last + 1]
    return values[own[0] : own[-1]], own - own[0]
