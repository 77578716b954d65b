"""From a graph to a query: the expressions of all operators nested into one selection, cut only where they must be.

A resolved graph comes in; a `Program` that turns a frame of the table into a frame of the wanted columns goes out. It
is cut into steps where a Python function runs, where rows change, where a column that is costly to make is used more
than once, and where expressions would be nested too deeply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.execution.failures import typed
from rowmill.graph.execution.steps import FEW, CallStep, ColumnStep, RowStep, Step, roots, used
from rowmill.graph.node import Apply, Concat, Group, Named, Node, Only, Select, Without, walk
from rowmill.graph.operator import ROW, Call, Inputs, Operator, StatOperator, Value
from rowmill.graph.resolve import Resolved
from rowmill.sources.names import frame_of, safe

Values = dict[str, pl.Expr]
WIDE = 32  # columns read by one expression, each as often as it stands there: filling reads its input three times
DEEP = 32  # operators whose expressions are nested into one another; Polars walks through expressions recursively


@dataclass(frozen=True)
class Program:
    """Steps on a frame, and the columns that come out. `inputs` are the table's columns that it reads."""

    steps: tuple[Step, ...]
    outputs: Mapping[str, pl.Expr]
    inputs: tuple[str, ...]
    numbered: bool  # whether it needs the number of each row, in a column named ROW
    rowwise: bool
    changes_rows: bool

    @property
    def row_for_row(self) -> bool:
        """Whether each row that goes in comes out, and depends on no other: any slice of a table can be made alone."""
        return self.rowwise and not self.changes_rows

    def run(self, frame: pl.DataFrame, start: int = 0) -> pl.DataFrame:
        """The columns made of the rows of a frame; `start` is the number of its first row in the table."""
        if any(safe(name) != name for name in frame.columns):
            taken = [frame.get_column(name).alias(safe(name)) for name in self.inputs]
            frame = frame_of(taken) if taken else pl.DataFrame(height=frame.height)
        if self.numbered:
            frame = frame.with_columns(pl.int_range(start, start + frame.height, dtype=pl.Int64, eager=True).alias(ROW))
        for step in self.steps:
            with typed_query():
                frame = step.run(frame)
        if not self.outputs:
            return pl.DataFrame(height=frame.height)
        select = frame.select_seq if frame.height <= FEW else frame.select
        with typed_query():
            return select(self._named)

    @cached_property
    def _named(self) -> list[pl.Expr]:
        return [expr.alias(name) for name, expr in self.outputs.items()]


def compile_outputs(resolved: Resolved, columns: Sequence[str] | None = None, *, training: bool = False) -> Program:
    """The program that makes the graph's output columns, or some of them."""
    compiler = _Compiler(resolved, [resolved.output], training)
    made = compiler.values(resolved.output)
    wanted = list(made) if columns is None else columns
    return compiler.program({name: made[name] for name in wanted})


def compile_inputs(resolved: Resolved, nodes: Sequence[Apply]) -> Program:
    """The program that makes what the operators of these nodes learn from; names begin with `made_by`."""
    compiler = _Compiler(resolved, [parent for node in nodes for parent in node.upstream], training=True)
    outputs: Values = {}
    for node in nodes:
        operator: StatOperator = node.operator
        inputs = compiler.inputs(node)
        prefix = made_by(resolved.number[id(node)])
        columns = {name: inputs[name] for name in (*inputs.schema.column_names, *inputs.needed.column_names)}
        measured = operator.measured(inputs)
        for name in measured:
            if name in columns:
                raise ArgumentError(f"{operator.label} needs the name {name!r} for itself; rename that column")
        measured = compiler.called(measured, f"{prefix}measured ")
        for name, expr in {**columns, **measured}.items():
            outputs[prefix + name] = expr
    return compiler.program(outputs)


def made_by(number: int) -> str:
    """How the names of columns begin that a node has put into the frame, beside the table's own."""
    return f"__made_by_{number}__"


def row_changes(node: Node) -> frozenset[int]:
    """Which operators change the rows on the way to this node: what two nodes must share to be used together."""
    return frozenset(
        id(n) for parent in node.upstream for n in walk(parent) if isinstance(n, Apply) and n.operator.changes_rows
    )


class _Compiler:
    """Goes through the nodes once and keeps, for each, the expressions of its columns."""

    def __init__(self, resolved: Resolved, targets: Sequence[Node], training: bool) -> None:
        self._resolved = resolved
        self._training = training
        self._steps: list[Step] = []
        self._depth: dict[int, int] = {}
        self._values: dict[int, Values] = {}
        self._rowwise = True
        self._new_rows: str | None = None  # the operator after which the table's own columns are gone
        self._targets = {id(target) for target in targets}
        seen: set[int] = set()
        for target in targets:
            for node in walk(target):
                if id(node) not in seen:
                    seen.add(id(node))
                    self._values[id(node)] = self._compile(node)

    def values(self, node: Node) -> Values:
        return self._values[id(node)]

    def inputs(self, node: Apply) -> Inputs:
        exprs: Values = {}
        for parent in reversed(node.upstream):
            if id(parent) in self._values:
                exprs.update(self._values[id(parent)])
        return replace(self._resolved.inputs(node), exprs={**exprs, ROW: pl.col(ROW)}, training=self._training)

    def program(self, outputs: Values) -> Program:
        steps, wanted = used(self._steps, roots(outputs.values()))
        changes = any(isinstance(step, RowStep) for step in steps)
        inputs = tuple(name for name in self._resolved.root.column_names if safe(name) in wanted)
        return Program(steps, outputs, inputs, ROW in wanted, self._rowwise, changes)

    def _compile(self, node: Node) -> Values:
        self._depth[id(node)] = max((self._depth[id(parent)] for parent in node.upstream), default=0)
        if isinstance(node, Select):
            self._check_rows(node)
            return {name: pl.col(safe(name)) for name in self._resolved.schema(node).column_names}
        if isinstance(node, Apply):
            return self._applied(node)
        if isinstance(node, Concat):
            joined: Values = {}
            for parent in node.upstream:
                joined.update(self.values(parent))
            return joined
        assert isinstance(node, Group | Named | Only | Without)
        made = self.values(node.upstream[0])
        return {name: made[name] for name in self._resolved.schema(node).column_names}

    def _applied(self, node: Apply) -> Values:
        operator: Operator = node.operator
        fitted = self._resolved.state(node)
        number = self._resolved.number[id(node)]
        self._rowwise = self._rowwise and operator.rowwise
        inputs = self.inputs(node)
        if operator.changes_rows:
            return self._changed(node, operator, inputs, made_by(number))
        if shared := operator.shared(inputs, fitted):
            prefix = f"{made_by(number)}shared "
            inputs = replace(inputs, exprs={**inputs.exprs, **self._kept(self.called(shared, prefix), prefix)})
        made = {output.column.name: output.value for output in operator.outputs(inputs, fitted)}
        values = self.called({name: value for name, value in made.items() if value is not None}, made_by(number))
        often = len(self._resolved.consumers[number]) > 1 and id(node) not in self._targets
        self._depth[id(node)] += 1
        wide = any(len(expr.meta.root_names()) > WIDE for expr in values.values())
        if often or wide or self._depth[id(node)] >= DEEP:
            self._depth[id(node)] = 0
            return self._kept(values, made_by(number))
        return values

    def called(self, values: Mapping[str, Value], prefix: str) -> Values:
        """The columns of the step, with those that functions make put into the frame."""
        calls = {prefix + name: value for name, value in values.items() if isinstance(value, Call)}
        if calls:
            self._steps.append(CallStep(calls))
        return {n: pl.col(prefix + n) if isinstance(value, Call) else value for n, value in values.items()}

    def _kept(self, values: Values, prefix: str) -> Values:
        """These columns, computed once and put into the frame."""
        costly = {name: expr for name, expr in values.items() if not _is_plain(expr)}
        if costly:
            self._steps.append(ColumnStep({prefix + name: expr for name, expr in costly.items()}))
        return {name: pl.col(prefix + name) if name in costly else expr for name, expr in values.items()}

    def _changed(self, node: Apply, operator: Operator, inputs: Inputs, prefix: str) -> Values:
        taken = {name: inputs[name] for name in inputs.schema.column_names}
        for other, values in self._values.items():  # what was made of the rows before goes with its rows
            self._values[other] = self._kept(values, f"{prefix}{other}:")
        inputs = self.inputs(node)
        taken = {name: inputs[name] for name in (*inputs.schema.column_names, *inputs.needed.column_names)}
        self._steps.append(RowStep(operator, replace(inputs, exprs={}), taken, prefix))
        outputs = list(operator.outputs(inputs, self._resolved.state(node)))
        given = {output.column.name: output.value for output in outputs if output.value is not None}
        made = self.called(given, f"{prefix}after ")
        if all(output.value is None for output in outputs):
            self._check_alone(node)
            self._new_rows = operator.label
        return {
            output.column.name: made.get(output.column.name, pl.col(prefix + output.column.name)) for output in outputs
        }

    def _check_alone(self, node: Apply) -> None:
        """Columns from before cannot stand beside the new rows."""
        before = {id(n) for n in walk(node)} - {id(node)}
        number = self._resolved.number
        for other in self._values:
            node_number = next((n for i, n in number.items() if i == other), None)
            children = [] if node_number is None else self._resolved.consumers[node_number]
            if any(id(child) not in before and child is not node for child in children) or other in self._targets:
                raise _mixed(node.operator.label)

    def _check_rows(self, node: Node) -> None:
        if self._new_rows is not None:
            raise _mixed(self._new_rows)


def _mixed(label: str) -> ArgumentError:
    return ArgumentError(
        f"{label} makes new rows, and columns from before it cannot stand beside them; select every column you want "
        f"through {label}"
    )


def _is_plain(expr: pl.Expr) -> bool:
    """Whether it is just a column."""
    return expr.meta.is_column()


@contextmanager
def typed_query() -> Iterator[None]:
    """Errors of Polars' queries as errors of Rowmill. Errors of a user's function come out as they are."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        with typed("the workflow"):
            raise error
