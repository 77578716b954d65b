"""Whether rows are those that operators have learnt from, by the digest that each took of them when it was fitted."""

from __future__ import annotations

from typing import Any

import polars as pl

from rowmill.graph.execution.program import compile_inputs, made_by
from rowmill.graph.execution.transform import Transformation, TransformStep
from rowmill.graph.node import Apply
from rowmill.graph.operator import ROWS, StatOperator
from rowmill.graph.resolve import Resolved


def has_fitted_rows(known: Transformation, frame: pl.DataFrame) -> bool:
    """Whether a frame has the values of the fitted rows, in their order, in all columns that operators with folds use.

    A frame without some of these columns is not recognised.
    """
    resolved = known.resolved
    noted = _noted(resolved)
    if not noted:
        return False
    for node, state in noted:
        program = compile_inputs(resolved, [node])
        if any(name not in frame.columns for name in program.inputs):
            return False
        if _digest(resolved, node, TransformStep(program, known.input_schema).run(frame)) != state:
            return False
    return True


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
