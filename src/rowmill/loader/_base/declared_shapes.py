"""Shapes that a schema declares for columns, beside what the table holds.

Comes in: a table, whose schema may say `with_shape((None, 3, 4))`. Goes out: a schema of what is stored, and the shape
in which a batch delivers each column. Called by the loaders of all frameworks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rowmill.errors import ArgumentError
from rowmill.schema import ColumnSchema, Schema

_LIST = re.compile(r"list\[(.+?)(?:, \d+)?\]")
_NUMBERS = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|bool")


@dataclass(frozen=True)
class DeclaredShapes:
    """The columns as they are stored, and the sizes of one row of those whose shape is fixed.

    `nested` are columns that are no plain lists in the table: to be flattened, or cast. `wrong` says why a column
    cannot have the shape that is declared; it matters only if the column is delivered.
    """

    schema: Schema
    sizes: Mapping[str, tuple[int, ...]]
    nested: Mapping[str, tuple[int, ...]]
    wrong: Mapping[str, str]

    def check(self, names: Iterable[str]) -> None:
        """Refuse columns whose declared shape is not that of the table."""
        if found := [self.wrong[name] for name in names if name in self.wrong]:
            raise ArgumentError(found[0])


def declared_shapes(table: Any) -> DeclaredShapes:
    """What the table stores, and the shapes that its schema declares."""
    columns: list[ColumnSchema] = []
    sizes: dict[str, tuple[int, ...]] = {}
    nested: dict[str, tuple[int, ...]] = {}
    wrong: dict[str, str] = {}
    for declared in table.schema:
        name = declared.name
        if name not in table.source.schema:
            wrong[name] = f"the schema has {name!r}, which is no column of the table; leave it out"
            columns.append(declared)
            continue
        stored = table.source.schema[name]
        column, size = _resolved(stored, declared)
        if size is not None and not _fits(column, size):
            wrong[name] = _mismatch(stored, size)
        elif size is not None:
            sizes[name] = size
            if _LIST.fullmatch(stored.dtype):
                nested[name] = size
        elif column.is_list and stored.width != column.width:  # to be delivered as lists of any length
            nested[name] = (stored.width,)
        known = {key: value for key, value in declared.properties.items() if key != "value_count"}
        columns.append(column.with_tags(declared.tags).with_properties(known))
    return DeclaredShapes(Schema(columns), sizes, nested, wrong)


def _resolved(stored: ColumnSchema, declared: ColumnSchema) -> tuple[ColumnSchema, tuple[int, ...] | None]:
    """The column as it is stored, and the sizes of one row if they are fixed otherwise than in the table."""
    shape = declared.shape
    size = tuple(dimension.max or 0 for dimension in tuple(shape)[1:])
    if not size or shape.is_ragged:
        return (stored.with_width(None) if stored.is_list and shape.is_ragged else stored), None
    leaf, depth = _leaf(stored.dtype)
    if depth > 1 and _NUMBERS.fullmatch(leaf) and len(size) == depth:
        return ColumnSchema(stored.name, leaf, properties=stored.properties, is_list=True), size
    return stored, size


def _fits(column: ColumnSchema, size: tuple[int, ...]) -> bool:
    """Whether rows of this column can have so many values; those of a list of any length are counted in each batch."""
    if column.dtype.startswith("list"):
        return False
    width = column.width if column.is_list else 1
    return width is None or math.prod(size) == width


def _mismatch(stored: ColumnSchema, size: tuple[int, ...]) -> str:
    kind = f"lists of {stored.width} values" if stored.is_list else str(stored.dtype)
    return (
        f"the schema gives column {stored.name!r} the shape {(None, *size)}, and the table holds {kind}; declare the "
        f"shape that its rows have, with_shape((None, ...))"
    )


def _leaf(dtype: str) -> tuple[str, int]:
    """The dtype of the values in lists of lists, and how deep they lie."""
    depth = 0
    while (found := _LIST.fullmatch(dtype)) is not None:
        dtype, depth = found[1], depth + 1
    return dtype, depth
