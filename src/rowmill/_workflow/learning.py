"""Operators learn from a table, phase by phase: a dataset in, what each operator has learnt out. Called by `Workflow`.

An operator of a later phase learns from what those of earlier phases make, so there is one pass over the table for each
phase. Rows that are added later are learnt from by going on from what was kept of the statistics. Nothing is read again
then, so it is refused where rows that were seen before would be made in another way now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowmill.dataset import Dataset
from rowmill.engines.engine import Engine
from rowmill.errors import ArgumentError, ColumnError, missing_column
from rowmill.graph.execution.fit_job import FitJob
from rowmill.graph.node import Apply, Node, walk
from rowmill.graph.operator import Fitted, StatOperator
from rowmill.graph.resolve import Resolved
from rowmill.schema import Schema
from rowmill.sources.source import Fragment, fit_fragments
from rowmill.sources.wrap.cast import RecastSource
from rowmill.whole_partitions import whole_partitions

_SLICE_COPIES = 6  # of a slice of rows: as read, as made, as measured, and what decoding and allocators take
_FRAGMENT_COPIES = 3  # of a fragment: as read, as made, and as measured


@dataclass(frozen=True)
class Learning:
    """How operators of a graph learn. `memory`: bytes for the fragments in flight, with `threads` at a time.

    `keep_all`: what is needed to go on with more rows is kept, however much that is.
    """

    output: Node
    engine: Engine
    memory: int
    threads: int
    keep_all: bool = False
    progress: bool | None = None

    def fit(self, data: Dataset, schema: Schema) -> dict[int, Fitted]:
        """What each operator learns from the rows of a dataset, by the number of its node."""
        fitted: dict[int, Fitted] = {}
        resolved = Resolved(self.output, schema, fitted)
        for phase in _numbers(resolved):
            job, results = self._measure(data, schema, fitted, phase)
            for number in phase:
                node = _applied(resolved, number)
                fitted[number] = node.operator.learn(results[number], resolved.inputs(node))
            _keep(job, results, fitted)
            resolved = Resolved(self.output, schema, fitted)
        return fitted

    def go_on(
        self, data: Dataset, schema: Schema, before: Mapping[int, Fitted], first_row: int, *, strict: bool
    ) -> dict[int, Fitted]:
        """What each operator has learnt after more rows, the first of which has this number. `strict`: only where it
        is what a fit on all rows would give."""
        resolved = Resolved(self.output, schema, before)
        if strict:
            _check_rowwise(resolved)
        _check_kept(resolved, before)
        fitted = dict(before)
        moved: set[int] = set()
        for phase in _numbers(resolved):
            if strict:
                _check_unmoved(resolved, phase, moved)
            kept = {number: before[number].kept for number in phase}
            job, results = self._measure(data, schema, fitted, phase, kept, first_row)
            for number in phase:
                node = _applied(resolved, number)
                fitted[number] = node.operator.learn_more(results[number], resolved.inputs(node), before[number])
                if node.operator.moves_old_rows(before[number], fitted[number]):
                    moved.add(number)
            _keep(job, results, fitted)
            resolved = Resolved(self.output, schema, fitted)
        return fitted

    def _measure(
        self,
        data: Dataset,
        schema: Schema,
        fitted: Mapping[int, Fitted],
        phase: Sequence[int],
        kept: Mapping[int, Mapping[str, Any]] | None = None,
        first_row: int = 0,
    ) -> tuple[FitJob, dict[int, dict[str, Any]]]:
        """One pass over the table: the results of the statistics of a phase, by node and name."""
        slice_bytes = self.memory // (_SLICE_COPIES * self.threads)

        def job_on(table: Dataset) -> FitJob:
            return FitJob(
                table.source, self.output, schema, fitted, phase, slice_bytes,
                keep_all=self.keep_all, kept=kept, first_row=first_row,
            )  # fmt: skip

        job = job_on(data)
        row_bytes = max(1.0, data.source.row_bytes(job.inputs)) * _FRAGMENT_COPIES
        rows = max(1, int(self.memory / self.threads / row_bytes))
        fragments: Sequence[Fragment] = fit_fragments(data.source.fragments, rows)
        if not job.rowwise:
            whole = whole_partitions(data, job.inputs, self.output)
            job, fragments = job_on(whole), whole.fragments
        return job, job.results(self.engine.run(job, fragments, self.progress))


def in_types_of(schema: Schema, data: Dataset) -> Dataset:
    """A dataset with the columns of this schema in its types, as the operators have learnt from them."""
    found = data.schema
    for name in schema.column_names:
        if name not in found:
            raise missing_column(name, "among those of the new rows, and the workflow learns from it", data.columns)
    other = [column for column in schema if column.dtype != found[column.name].dtype]
    for column in other:
        new = found[column.name]
        if column.is_list or new.is_list or _kind(column.dtype) != _kind(new.dtype):
            raise ColumnError(
                f"column {column.name!r} is {new.dtype} in the new rows, and was {column.dtype} when the workflow was "
                f"fitted; cast it first"
            )
    return data._like(RecastSource(data.source, {column.name: column.dtype for column in other})) if other else data


def _kind(dtype: str) -> str:
    """What values are, whatever their size: numbers, dates and times, or the type itself."""
    if dtype.startswith(("int", "uint", "float", "decimal")):
        return "number"
    return "moment" if dtype.startswith("date") else dtype


def _numbers(resolved: Resolved) -> list[list[int]]:
    return [[resolved.number[id(node)] for node in phase] for phase in resolved.phases()]


def _applied(resolved: Resolved, number: int) -> Apply:
    node = resolved.nodes[number]
    assert isinstance(node, Apply)
    return node


def _keep(job: FitJob, results: Mapping[int, Mapping[str, Any]], fitted: Mapping[int, Fitted]) -> None:
    for number, kept in job.kept(results).items():
        fitted[number].kept = kept


def _check_kept(resolved: Resolved, before: Mapping[int, Fitted]) -> None:
    """Refuse what cannot go on, by its settings or because too little was kept of it."""
    for number, state in before.items():
        operator: StatOperator = _applied(resolved, number).operator
        operator.check_growth()
        names = operator.statistics(resolved.inputs(_applied(resolved, number)))
        lost = [name for name in names if state.kept.get(name) is None]
        if lost:
            raise ArgumentError(
                f"{operator.label} cannot go on with more rows: what it needs for {lost[0]!r} was too large to be kept "
                f"by default, or was saved by an earlier version; fit it with workflow.fit(dataset, updatable=True)"
            )


def _check_rowwise(resolved: Resolved) -> None:
    for phase in resolved.phases():
        for node in phase:
            for other in _operators(node.upstream):
                if not other.operator.rowwise:
                    raise ArgumentError(
                        f"{node.operator.label} learns from what {other.operator.label} makes of several rows, and the "
                        f"new rows may belong to rows that were seen before; fit on all rows, or pass strict=False to "
                        f"take the new rows by themselves"
                    )


def _check_unmoved(resolved: Resolved, phase: Sequence[int], moved: set[int]) -> None:
    for number in phase:
        node = _applied(resolved, number)
        for other in _operators(node.upstream):
            if resolved.number[id(other)] in moved:
                raise ArgumentError(
                    f"{node.operator.label} has learnt from what {other.operator.label} made, and with the new rows "
                    f"{other.operator.label} makes something else of the rows that were seen before; nothing was "
                    f"changed; fit on all rows, or pass strict=False to let {node.operator.label} go on from what it "
                    f"saw then"
                )


def _operators(nodes: Iterable[Node]) -> list[Apply]:
    return [each for node in nodes for each in walk(node) if isinstance(each, Apply)]
