"""Rows for pandas users: a Polars frame in, a pandas frame out, in the types that `dtype_backend` asks for.

| `dtype_backend` | numbers and flags | text | times | lists |
|---|---|---|---|---|
| None | NumPy's types; pandas' nullable types (Int64, Float64, boolean) in columns with nulls | pandas' own | datetime64 | NumPy arrays |
| "numpy_nullable" | pandas' nullable types | pandas' own | datetime64 | NumPy arrays |
| "pyarrow" | Arrow's types in all columns |

Called by `Dataset.to_pandas`, `Dataset.to_iter` and `Dataset.to_ddf`.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError, DtypeError
from rowmill.sources.frames.frame_source import as_arrow_pandas, through_arrow

_BACKENDS = (None, "numpy_nullable", "pyarrow")


def check_backend(dtype_backend: str | None) -> None:
    """Refuse a backend that is none."""
    if dtype_backend not in _BACKENDS:
        raise ArgumentError(
            f"dtype_backend is {dtype_backend!r}; pass 'pyarrow' for Arrow's types, 'numpy_nullable' for pandas' "
            f"nullable types, or leave it out for NumPy's types"
        )


def is_masked(dtype: pl.DataType) -> bool:
    """Whether pandas has a nullable type of its own for a column of this type: numbers and flags."""
    return dtype == pl.Boolean or dtype.is_integer() or dtype.is_float()


def pandas_frame(frame: pl.DataFrame, dtype_backend: str | None = None, nullable: Collection[str] = ()) -> Any:
    """A pandas frame. Columns named in `nullable` have a nullable type even where these rows have no null."""
    check_backend(dtype_backend)
    for name, dtype in frame.schema.items():
        if dtype in (pl.Int128, pl.UInt128):
            raise DtypeError(
                f"column {name!r} has integers of 128 bits, for which pandas has no type; leave it out with columns=, "
                f"or open the dataset with dtypes={{{name!r}: 'int64'}} or 'string'"
            )
    if dtype_backend == "pyarrow":
        return as_arrow_pandas(frame)
    made = through_arrow(frame)
    for name in frame.columns:
        series = frame.get_column(name).alias("values")
        wanted = dtype_backend is not None or name in nullable or series.null_count() > 0
        if wanted and is_masked(series.dtype):
            made[name] = _masked(series)
        elif isinstance(series.dtype, pl.List | pl.Array) and _has_null_integers(series):
            made[name] = _exact_lists(series)
    return made


def _masked(series: pl.Series) -> Any:
    """The values as an array of pandas' nullable types. A NaN stays a NaN and is no null."""
    import pandas as pd

    mask = series.is_null().to_numpy().copy()
    if series.dtype == pl.Boolean:
        return pd.arrays.BooleanArray(series.fill_null(value=False).to_numpy().copy(), mask)
    if series.dtype == pl.Float16:  # pandas has no nullable type of 2 bytes
        series = series.cast(pl.Float32)
    kind = pd.arrays.FloatingArray if series.dtype.is_float() else pd.arrays.IntegerArray
    return kind(series.fill_null(0).to_numpy().copy(), mask)


def _has_null_integers(series: pl.Series) -> bool:
    inner: Any = series.dtype.inner  # type: ignore[attr-defined]
    return bool(inner.is_integer()) and series.explode(empty_as_null=False, keep_nulls=False).null_count() > 0


def _exact_lists(series: pl.Series) -> Any:
    """Lists of integers with nulls among them as arrays of objects: as floats, large integers would change."""
    inner = series.dtype.inner  # type: ignore[attr-defined]
    kind = pl.Series(dtype=inner).to_numpy().dtype
    lists = np.empty(len(series), dtype=object)
    for row, values in enumerate(series.to_list()):
        lists[row] = None if values is None else np.array(values, dtype=object if None in values else kind)
    return lists
