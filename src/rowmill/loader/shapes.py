"""Shapes that a schema declares for columns, beside what the table holds.

Comes in: a table, whose schema may say `with_shape((None, 3, 4))`. Goes out: a schema of what is stored, and the shape
in which a batch delivers each column. Called by the loaders of all frameworks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rowmill.errors import ArgumentError, ColumnError
from rowmill.schema import ColumnSchema, Schema

_LIST = re.compile(r"list\[(.+?)(?:, \d+)?\]")
_NUMBERS = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|bool")


@dataclass(frozen=True)
class Shaped:
    """The columns as they are stored, and the sizes of one row of those whose shape is fixed."""

    schema: Schema
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    nested: Mapping[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # no plain lists in the table: to be flattened, or cast


def shaped(table: Any) -> Shaped:
    """What the table stores, and the shapes that its schema declares."""
    columns, sizes, nested = [], {}, {}
    stored = table.source.schema
    for declared in table.schema:
        if declared.name not in stored:
            raise ColumnError(f"the schema has {declared.name!r}, which is no column of the table; leave it out")
        column, size = _resolved(stored[declared.name], declared)
        found = stored[declared.name]
        if size is not None:
            sizes[column.name] = size
            if _LIST.fullmatch(found.dtype):
                nested[column.name] = size
        elif column.is_list and found.width != column.width:  # to be delivered as lists of any length
            nested[column.name] = (found.width,)
        known = {name: value for name, value in declared.properties.items() if name != "value_count"}
        columns.append(column.with_tags(declared.tags).with_properties(known))
    return Shaped(Schema(columns), sizes, nested)


def _resolved(stored: ColumnSchema, declared: ColumnSchema) -> tuple[ColumnSchema, tuple[int, ...] | None]:
    """The column as it is stored, and the sizes of one row if they are fixed."""
    shape = declared.shape
    if shape.is_unknown:
        return stored, None
    size = tuple(dimension.max or 0 for dimension in tuple(shape)[1:])
    fixed = bool(size) and not shape.is_ragged
    leaf, depth = _leaf(stored.dtype)
    if depth > 1 and _NUMBERS.fullmatch(leaf) and fixed and len(size) == depth:
        return ColumnSchema(stored.name, leaf, properties=stored.properties, is_list=True), size
    if stored.is_list and not fixed:
        return (stored.with_width(None) if shape.is_ragged else stored), None
    if not fixed or (stored.width is not None and size == (stored.width,)):
        return stored, None
    width = stored.width if stored.is_list else 1
    if stored.dtype.startswith("list") or (width is not None and math.prod(size) != width):
        kind = f"lists of {width} values" if stored.is_list else str(stored.dtype)
        raise ArgumentError(
            f"the schema gives column {stored.name!r} the shape {(None, *size)}, and the table holds {kind}; declare "
            f"the shape that its rows have, with_shape((None, ...))"
        )
    return stored, size


def _leaf(dtype: str) -> tuple[str, int]:
    """The dtype of the values in lists of lists, and how deep they lie."""
    depth = 0
    while (found := _LIST.fullmatch(dtype)) is not None:
        dtype, depth = found[1], depth + 1
    return dtype, depth
