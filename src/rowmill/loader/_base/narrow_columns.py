"""Fewer columns for a loader that has not begun: a schema comes in, the arguments to make the loader anew with go out.

Called by `loader`, when `loader.input_schema` is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowmill.errors import ColumnError, DtypeError, closest
from rowmill.schema import Schema, Tags


def described(table: Any, schema: Schema) -> Any:
    """The table, with what the schema says of its columns."""
    if not isinstance(schema, Schema):
        raise DtypeError(
            f"input_schema is {type(schema).__name__}; wanted rowmill.Schema, such as dataset.schema[names]"
        )
    for name in schema.column_names:
        if name not in table.schema:
            known = table.schema.column_names
            raise ColumnError(f"input_schema has {name!r}, which is no column of this dataset{closest(name, known)}")
    if not len(schema):
        raise ColumnError("input_schema has no columns; wanted those to deliver, such as dataset.schema[names]")
    return table.with_schema(table.schema + schema) if hasattr(table, "with_schema") else table


def dict_arguments(schema: Schema, targets: Sequence[str], weight: str | None) -> dict[str, Any]:
    """The arguments of a loader of dicts: targets are those that the schema tags, or those that it keeps."""
    tagged = schema.select_by_tag(Tags.TARGET).column_names
    kept = tagged or [name for name in targets if name in schema]
    features = [name for name in schema.column_names if name not in kept and name != weight]
    return {"columns": features, "targets": kept, "sample_weight": weight if weight in schema else None}


def group_arguments(schema: Schema, groups: dict[str, Sequence[str]]) -> dict[str, Any]:
    """The arguments of a loader of ids, numbers and labels: what the schema keeps of each, and what it newly tags."""
    known = {name for names in groups.values() for name in names}
    tags = (Tags.CATEGORICAL, Tags.CONTINUOUS, Tags.TARGET)
    found: dict[str, Any] = {}
    for (argument, names), tag in zip(groups.items(), tags, strict=True):
        new = [name for name in schema.select_by_tag(tag).column_names if name not in known]
        found[argument] = [name for name in names if name in schema] + new
    return found
