"""Frames with text in memory of their own: a few rows that were chosen from a large frame, without the rest of it.

Strings in Polars are views: a few of them keep all strings of the frame they come from in memory. Called where rows
are filtered, and where values are counted.
"""

from __future__ import annotations

import polars as pl


def owned(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with its strings, and those inside its lists, copied."""
    copied = [
        pl.Series(column.name, column.alias("values").to_arrow(compat_level=pl.CompatLevel.oldest())).cast(column.dtype)
        for column in frame.get_columns()
        if column.dtype in (pl.String, pl.Binary) or column.dtype.is_nested()
    ]
    return frame.with_columns(copied) if copied else frame
