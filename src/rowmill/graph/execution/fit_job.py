"""What an engine is given: the statistics of one phase of a fit, and how to make what they look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import polars as pl

from rowmill.graph.execution.failures import typed
from rowmill.graph.execution.program import Program, compile_inputs, made_by, row_changes
from rowmill.graph.node import Apply, Node
from rowmill.graph.operator import Fitted
from rowmill.graph.resolve import Resolved
from rowmill.schema import Schema
from rowmill.sources.source import Fragment, Source, read_bounded, read_slices
from rowmill.sources.wrap.transformed import rows_before
from rowmill.statistics.statistic import Statistic

_SLICE_BYTES = 32 << 20
_COMPUTED = ("_resolved", "_asked", "_programs", "_rows_before")  # anew in each process


class FitJob:
    """All statistics of a phase, in one pass over the data. Programs are compiled where the job runs."""

    def __init__(
        self,
        source: Source,
        output: Node,
        root: Schema,
        fitted: Mapping[int, Fitted],
        nodes: Sequence[int],
        slice_bytes: int = _SLICE_BYTES,
        *,
        keep_all: bool = False,
        kept: Mapping[int, Mapping[str, Any]] | None = None,
        first_row: int = 0,
    ) -> None:
        """`slice_bytes`: the most bytes of a fragment that are in memory at once, where operators work row by row.

        `keep_all`: results hold what is needed to go on with more rows, however much that is. `kept`: what results of
        earlier rows have kept, by node and name, to go on from; `first_row`: the number of those rows.
        """
        self._source = source
        self._slice_bytes = slice_bytes
        self._output = output
        self._root = root
        self._fitted = dict(fitted)
        self._nodes = tuple(nodes)
        self._keep_all = keep_all
        self._kept = kept
        self._first_row = first_row

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _COMPUTED}

    @cached_property
    def _resolved(self) -> Resolved:
        return Resolved(self._output, self._root, self._fitted)

    @cached_property
    def _asked(self) -> list[tuple[int, str, Statistic[Any]]]:
        """(node, the operator's name for it, statistic) for everything that is wanted."""
        asked = []
        for number in self._nodes:
            node = self._resolved.nodes[number]
            assert isinstance(node, Apply)
            for name, statistic in node.operator.statistics(self._resolved.inputs(node)).items():
                whole = self._keep_all and hasattr(statistic, "keep")
                asked.append((number, name, replace(statistic, keep=None) if whole else statistic))
        return asked

    @property
    def statistics(self) -> Sequence[Statistic[Any]]:
        return [statistic for _, _, statistic in self._asked]

    @property
    def resumes(self) -> bool:
        return self._kept is not None

    def started(self) -> list[Any]:
        kept = self._kept
        if kept is None:
            return [statistic.start() for statistic in self.statistics]
        with typed("going on from what was kept of the rows before"):
            return [statistic.resume(kept[number][name]) for number, name, statistic in self._asked]

    @cached_property
    def _programs(self) -> list[tuple[set[int], Program]]:
        """One query for all nodes that look at the same rows."""
        alike: dict[frozenset[int], list[Apply]] = {}
        for number in self._nodes:
            node = self._resolved.nodes[number]
            assert isinstance(node, Apply)
            alike.setdefault(row_changes(node), []).append(node)
        number_of = self._resolved.number
        return [({number_of[id(n)] for n in nodes}, compile_inputs(self._resolved, nodes)) for nodes in alike.values()]

    @cached_property
    def _rows_before(self) -> dict[int, int]:
        return {unit: self._first_row + rows for unit, rows in rows_before(self._source).items()}

    @property
    def rowwise(self) -> bool:
        """Whether fragments may be cut and joined: no operator before the statistics looks at whole partitions."""
        return all(program.rowwise for _, program in self._programs)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        wanted = {name for _, program in self._programs for name in program.inputs}
        return tuple(name for name in self._root.column_names if name in wanted)

    def frames(self, fragment: Fragment) -> Iterator[Sequence[pl.DataFrame]]:
        try:
            start = self._rows_before.get(fragment.unit, 0) + fragment.start
            for frame in self._slices(fragment):
                yield self._made(frame, start)
                start += frame.height
        except BaseException as error:
            error.add_note(f"while fitting on {self._source.describe(fragment)}")
            raise

    def _slices(self, fragment: Fragment) -> Iterator[pl.DataFrame]:
        """The rows of a fragment, a slice at a time, or all at once where operators look at whole partitions."""
        if self.rowwise:
            return read_slices(self._source, fragment, self.inputs, self._slice_bytes)
        return iter([read_bounded(self._source, fragment, self.inputs, self._slice_bytes)])

    def _made(self, frame: pl.DataFrame, start: int) -> Sequence[pl.DataFrame]:
        """What each statistic looks at, of these rows, the first of which is row `start` of the table."""
        made: dict[int, pl.DataFrame] = {}
        for numbers, program in self._programs:
            wide = program.run(frame, start)
            for number in numbers:
                prefix = made_by(number)
                names = {c: c.removeprefix(prefix) for c in wide.columns if c.startswith(prefix)}
                made[number] = wide.select(names.keys()).rename(names)
        return [made[number] for number, _, _ in self._asked]

    def results(self, found: Sequence[Any]) -> dict[int, dict[str, Any]]:
        """The results of the statistics, by node and name."""
        sorted_out: dict[int, dict[str, Any]] = {number: {} for number in self._nodes}
        for (number, name, _), result in zip(self._asked, found, strict=True):
            sorted_out[number][name] = result
        return sorted_out

    def kept(self, results: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
        """What is kept of results, to go on from; None for what is too large."""
        kept: dict[int, dict[str, Any]] = {number: {} for number in self._nodes}
        for number, name, statistic in self._asked:
            kept[number][name] = statistic.kept(results[number][name])
        return kept
