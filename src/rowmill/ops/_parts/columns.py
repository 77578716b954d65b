"""What the operators share in describing columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError, ColumnError, closest
from rowmill.schema import ColumnSchema, Schema
from rowmill.sources.types import frame_type


def retagged(column: ColumnSchema, tag: str) -> ColumnSchema:
    """The column with a tag, and without the one that contradicts it."""
    return column.with_tags(tag)


def like(column: ColumnSchema, leaf: Any) -> pl.DataType:
    """A type with these leaves: lists where the column has lists."""
    return frame_type(column.with_dtype(leaf))


def per_column(given: Any, schema: Schema, what: str) -> dict[str, Any]:
    """A setting for each column: one for all, or a dict by column name."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(schema.column_names, given)
    check_names(given, schema.column_names, what)
    return dict(given)


def check_names(given: Any, known: Sequence[str], what: str) -> None:
    """Refuse a dict by column name that names something else."""
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            raise ColumnError(f"{what} names {name!r}, which is not selected{closest(str(name), list(known))}")


def whole_number(value: Any, what: str, least: int) -> int:
    """`value` as a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{what} is {value!r}; wanted a whole number of at least {least}")
    return value
