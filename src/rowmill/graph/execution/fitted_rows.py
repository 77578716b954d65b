"""Where rows stand among those that a workflow has learnt from: as was said, or as they are recognised.

Operators with folds leave out a row's own fold, which follows from the row's number among the learnt rows. Rows are
recognised by the files they are of, or by the digest that each such operator took of its columns. Called by `Workflow`.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from rowmill.errors import ArgumentError, FittedRowsWarning, warn
from rowmill.graph.execution.learnt_rows import LearntRows
from rowmill.graph.execution.program import compile_inputs, made_by
from rowmill.graph.execution.transform import Transformation, TransformStep
from rowmill.graph.node import Apply
from rowmill.graph.operator import ROWS, StatOperator
from rowmill.graph.resolve import Resolved
from rowmill.sources.source import Source


def first_learnt_row(
    learnt: LearntRows, known: Transformation, source: Source, said: bool | None, frame: pl.DataFrame | None = None
) -> int | None:
    """The number of a table's first row among the learnt rows; None if these are other rows.

    `said`: whether they are learnt rows, where the caller decides. `frame`: the rows, where they are in memory.
    """
    if said is False or not learnt.parts or not known.step(training=True).program.numbered:
        return 0 if said else None  # it makes no difference, or was decided
    rows = sum(fragment.rows for fragment in source.fragments)
    if learnt.rows is None:  # saved by an earlier version
        return 0 if said or learnt.first_row(source) is not None else None
    if rows not in learnt.counts:
        if said:
            counts = " or ".join(f"{count:,}" for count in learnt.counts)
            raise ArgumentError(
                f"fitted_rows=True, and the data have {rows:,} rows where the workflow was fitted on {counts}: folds "
                f"go by the number of a row in the table, so rows would be encoded with their own targets; transform "
                f"the whole table and take the rows from the result"
            )
        return None
    first = learnt.first_row(source)
    if first is None and frame is not None:
        first = _by_digest(learnt, known, frame)
    if first is not None or (said and frame is None):  # files are not read to find out
        return learnt.counts[rows] if first is None else first
    if said:
        warn(
            "fitted_rows=True, and the data are not the rows that the workflow was fitted on, in their order: folds go "
            "by the number of a row, so a target encoding may hold the row's own target",
            FittedRowsWarning,
        )
        return learnt.counts[rows]
    warn(
        f"the data have {rows:,} rows, as many as the workflow was fitted on, and are not recognised as those rows: if "
        f"they are, each target encoding holds the row's own target; say it with transform(data, fitted_rows=True), or "
        f"with fitted_rows=False if these are other rows",
        FittedRowsWarning,
    )
    return None


def _by_digest(learnt: LearntRows, known: Transformation, frame: pl.DataFrame) -> int | None:
    """The number of a frame's first row among the learnt rows, by the values in all columns that operators with folds
    use. A frame without some of these columns is not recognised."""
    resolved = known.resolved
    noted = _noted(resolved)
    programs = [compile_inputs(resolved, [node]) for node, _ in noted]
    if not noted or any(name not in frame.columns for program in programs for name in program.inputs):
        return None
    places = [(0, None), *zip(learnt.starts, range(len(learnt.parts)), strict=True)]
    for first, part in places if len(learnt.parts) > 1 else places[:1]:
        made = [TransformStep(program, known.input_schema).run(frame, first) for program in programs]
        digests = [_digest(resolved, node, rows) for (node, _), rows in zip(noted, made, strict=True)]
        if digests == [_of_part(state, part) for _, state in noted]:
            return first
    return None


def _of_part(state: dict[str, Any], part: int | None) -> Any:
    """The digest that an operator took of all rows, or of one part of them."""
    if part is None:
        return {"count": state.get("count"), "digest": state.get("digest")}
    parts = state.get("parts")
    return parts[part] if isinstance(parts, list) and part < len(parts) else None


def _digest(resolved: Resolved, node: Apply, made: pl.DataFrame) -> Any:
    operator: StatOperator = node.operator
    prefix = made_by(resolved.number[id(node)])
    names = {name: name.removeprefix(prefix) for name in made.columns if name.startswith(prefix)}
    statistic = operator.statistics(resolved.inputs(node))[ROWS]
    return statistic.finish(statistic.update(statistic.start(), made.select(names.keys()).rename(names)))


def _noted(resolved: Resolved) -> list[tuple[Apply, dict[str, Any]]]:
    """The nodes that took a digest of the rows they learnt from, each with it."""
    found = []
    for node in resolved.nodes:
        state = resolved.state(node)
        if not isinstance(node, Apply) or state is None or not isinstance(state.values.get(ROWS), dict):
            continue
        if len(resolved.inputs(node).needed):  # a target that was removed cannot be compared
            found.append((node, state.values[ROWS]))
    return found
