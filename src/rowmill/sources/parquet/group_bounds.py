"""Least and greatest values of columns in row groups, from the statistics in Parquet footers.

Called by `ParquetSource`, for filters: row groups that cannot have a wanted row are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from rowmill.sources.bounds import Bounds

GroupBounds = dict[str, tuple[list[Any], list[Any]]]  # for each column the least and greatest values of all row groups


def footer_bounds(path: str, filesystem: FileSystem | None, dtypes: dict[str, pl.DataType]) -> GroupBounds:
    """What the footer of a file says of these columns; None where it does not say."""
    with (filesystem or LocalFileSystem()).open_input_file(path) as file:
        footer = pq.read_metadata(file)
    places = {footer.schema.column(i).path: i for i in range(len(footer.schema))}
    found: GroupBounds = {name: ([], []) for name in dtypes}
    for group in range(footer.num_row_groups):
        for name, (low, high) in found.items():
            statistics = footer.row_group(group).column(places[name]).statistics if name in places else None
            known = statistics if statistics is not None and statistics.has_min_max else None
            low.append(None if known is None else known.min)
            high.append(None if known is None else known.max)
    return found


def joined_bounds(parts: Sequence[tuple[GroupBounds, range]], dtypes: dict[str, pl.DataType]) -> Bounds:
    """The bounds of fragments: of each the bounds of its file, and the row groups that it is made of. Of a fragment of
    several row groups nothing is said."""
    known: Bounds = {}
    for name, dtype in dtypes.items():
        ends = [
            as_series(
                name, [found[name][end][groups.start] if len(groups) == 1 else None for found, groups in parts], dtype
            )
            for end in (0, 1)
        ]
        if ends[0] is not None and ends[1] is not None:
            known[name] = (ends[0], ends[1])
    return known


def is_ordered(dtype: pl.DataType) -> bool:
    """Whether the order of values in Parquet's statistics is that in which Polars compares them."""
    return dtype.is_integer() or dtype.is_float() or dtype in (pl.Date, pl.String) or isinstance(dtype, pl.Datetime)


def as_series(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series | None:
    """Bounds in the type of the column; None if they are not of that type."""
    try:
        return pl.Series(name, values, dtype=dtype, strict=True)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return None
