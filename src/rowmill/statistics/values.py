"""Values as whole numbers: how a column is hashed, counted and looked up, whatever its type.

Whole numbers, flags, dates and times are 64-bit numbers already. For everything else there is a hash of our own, the
same on every machine and in every version, so that what was saved with it stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill import _native

_NULL = -0x6E756C6C  # what a null is hashed as
VERSION = 1  # of the hash; a saved workflow says which it was made with


def is_whole(dtype: pl.DataType) -> bool:
    """Whether values of this type are 64-bit whole numbers underneath."""
    return dtype == pl.Boolean or dtype.is_temporal() or (dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128))


def whole(values: pl.Series) -> pl.Series:
    """The numbers underneath, as Int64: for unsigned 64-bit ones the same bits."""
    physical = values.to_physical() if values.dtype.is_temporal() else values
    return physical.reinterpret(signed=True) if physical.dtype == pl.UInt64 else physical.cast(pl.Int64)


def from_whole(numbers: NDArray[np.int64], name: str, dtype: pl.DataType) -> pl.Series:
    """The values that `whole` was given, of this type."""
    series = pl.Series("values", numbers)
    return (series.reinterpret(signed=False) if dtype == pl.UInt64 else series.cast(dtype)).alias(name)


def without_nan(values: pl.Series) -> pl.Series:
    """Values with NaN as null, and with one zero."""
    if values.dtype.is_float():
        plain = values.alias("values")  # its own name may be a pattern
        return (plain.fill_nan(None) + 0.0).cast(values.dtype).alias(values.name)  # -0.0 + 0.0 is 0.0
    return values


def hashes(columns: Sequence[pl.Series], seed: int = 0) -> NDArray[np.uint64]:
    """A 64-bit hash of each row of these columns. Nulls have a hash of their own; 1, 1.0 and True differ from '1'."""
    mixed = np.full(len(columns[0]), seed, np.uint64)
    for column in (without_nan(each.alias("values")) for each in columns):
        nulls = column.is_null().to_numpy() if column.null_count() else None
        before = None if nulls is None else mixed[nulls]
        if is_whole(column.dtype):
            _native.hash_numbers(whole(column).fill_null(0).to_numpy(), mixed)
        elif column.dtype.is_float():
            _native.hash_numbers(column.cast(pl.Float64).fill_null(0.0).to_numpy().view(np.int64), mixed)
        else:
            _native.hash_bytes(*_bytes(column), mixed)
        if before is not None:
            _native.hash_numbers(np.full(len(before), _NULL), before)
            mixed[nulls] = before
    return mixed


def _bytes(column: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Strings, or the text of values of other types, as offsets and bytes; a null is empty."""
    import pyarrow as pa

    text = column if column.dtype in (pl.String, pl.Binary) else column.cast(pl.String)
    array: Any = text.cast(pl.Binary).fill_null(b"").rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    array = array.cast(pa.large_binary()) if not isinstance(array, pa.ChunkedArray) else array.combine_chunks()
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return places, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def over_leaves(series: pl.Series, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """`change` applied to the values; of a list column, to the values inside the lists, which keep their lengths."""
    if not isinstance(series.dtype, pl.List | pl.Array):
        return change(series)
    if isinstance(series.dtype, pl.Array):
        changed = over_leaves(series.arr.to_list(), change)
        return changed.list.to_array(series.dtype.size)
    import pyarrow as pa

    array: Any = series.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    leaves = pl.Series(values=array.flatten()) if array.null_count else pl.Series(values=_inside(array))
    changed = change(leaves).rename("")
    lengths = series.list.len().fill_null(0).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    mask = pa.array(series.is_null().to_numpy()) if series.null_count() else None
    built = pa.LargeListArray.from_arrays(offsets, changed.rechunk().to_arrow(), mask=mask)
    return pl.Series(series.name, built)


def _inside(array: Any) -> Any:
    """The leaves of an Arrow list array without nulls, of its own rows only."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)
