"""Operators outside of a workflow, and operators that users write: a class with `transform(selector, frame)`.

`transform_alone` and `schema_alone` run or describe one operator on the columns of one frame. `made_by_user` describes
what the `transform` of a user's own class makes: it is called with pandas frames, and with an empty one to learn which
columns come out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.execution.row_types import as_rows
from rowmill.graph.execution.transform import Transformation
from rowmill.graph.node import Apply, Select, apply, select, walk
from rowmill.graph.operator import Call, Inputs, Operator, Output, StatOperator
from rowmill.graph.resolve import Resolved
from rowmill.schema import Schema
from rowmill.sources.frames.frame_source import as_frame, as_pandas
from rowmill.sources.types import column_schema, frame_type

MADE = "\0made"  # the struct of all columns that a user's operator has made


def transform_alone(operator: Operator, selector: Any, given: Any) -> Any:
    """What an operator makes of the selected columns of a frame, in the kind of frame that was given."""
    rows = as_rows(given)
    schema = Schema(column_schema(name, dtype) for name, dtype in rows.frame.schema.items())
    step = Transformation(_resolved(operator, selector, schema, learnt=True)).step()
    return rows.form(step.run(rows.frame), same_rows=step.program.row_for_row)


def schema_alone(operator: Operator, schema: Schema, selector: Any) -> Schema:
    """The columns that an operator makes of the selected columns of a table."""
    learnt = isinstance(operator, StatOperator) and operator.fitted
    return _resolved(operator, selector, schema, learnt=learnt).output_schema


def _resolved(operator: Operator, selector: Any, schema: Schema, *, learnt: bool) -> Resolved:
    chosen = schema.column_names if selector is None else selector
    node = apply(select(chosen), operator)
    assert isinstance(node, Apply)
    number = sum(1 for _ in walk(node)) - 1  # parents have smaller numbers
    fitted = {number: operator.learnt} if learnt and isinstance(operator, StatOperator) else {}
    needed = {name for other in node.upstream[1:] if isinstance(other, Select) for name in other.selector.names}
    return Resolved(node, schema, fitted, frozenset(needed - set(schema.column_names)))


def made_by_user(operator: Operator, inputs: Inputs) -> tuple[Mapping[str, Call], list[Output]]:
    """The call of a user's `transform`, whose result is a struct, and the columns in it."""
    given = inputs.schema + inputs.needed
    run = _called(operator, inputs.schema.column_names, given.column_names)
    empty = pl.DataFrame(schema={c.name: frame_type(c) for c in given})
    try:
        found = run(empty.get_columns()).struct.unnest()
    except Exception as error:
        raise ArgumentError(
            f"{operator.label}.transform fails on an empty frame: {type(error).__name__}: {error}; mend it, or use "
            f"LambdaOp(f, dtype=...)"
        ) from error
    outputs = []
    for name, dtype in found.schema.items():
        column = column_schema(name, dtype)
        if name in inputs.schema:
            known = {k: v for k, v in inputs.schema[name].properties.items() if k != "value_count"}
            column = column.with_tags(inputs.schema[name].tags).with_properties(known)
        outputs.append(Output(column, inputs[MADE].struct.field(name)))
    checked = partial(_checked, run, found.schema, operator.label)
    call = Call(checked, {name: inputs[name] for name in given.column_names}, operator.label, users=True)
    return {MADE: call}, outputs


def _checked(
    run: Callable[[list[pl.Series]], pl.Series], declared: pl.Schema, label: str, columns: list[pl.Series]
) -> pl.Series:
    """What the operator makes of some rows, in the types that it makes of none."""
    made = run(columns).struct.unnest()
    if made.columns != declared.names():
        raise ArgumentError(
            f"{label}.transform made columns {made.columns}, and {declared.names()} of an empty frame; make the same "
            f"columns of any rows"
        )
    for column in made.get_columns():
        wanted = declared[column.name]
        if column.dtype == wanted:
            continue
        cast = column.cast(wanted, strict=False)
        if not cast.cast(column.dtype, strict=False).equals(column, null_equal=True):
            raise ArgumentError(
                f"{label}.transform made column {column.name!r} as {column.dtype}, and as {wanted} of an empty frame; "
                f"make the same types of any rows, or use LambdaOp(f, dtype=...)"
            )
        made = made.with_columns(cast)
    return made.to_struct(MADE)


def _called(operator: Any, selected: list[str], names: list[str]) -> Callable[[list[pl.Series]], pl.Series]:
    from rowmill.graph.selector import ColumnSelector

    def call(columns: list[pl.Series]) -> pl.Series:
        frame = pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)])
        made = as_frame(operator.transform(ColumnSelector(selected), as_pandas(frame)))
        if made is None:
            raise ArgumentError(f"{operator.label}.transform gave no frame; return a pandas or Polars frame")
        return made.to_struct(MADE)

    return call
