"""The graph against a table: which columns each node has, given the table's schema and what has been learnt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from rowmill.errors import ArgumentError, ColumnError, missing_column
from rowmill.graph.execution.failures import typed
from rowmill.graph.node import Apply, Concat, Named, Node, Only, Select, Without, walk
from rowmill.graph.node import Group as GroupNode
from rowmill.graph.operator import Fitted, Inputs, Operator, Output, StatOperator
from rowmill.graph.selector import Group, members
from rowmill.schema import ColumnSchema, Schema

MAX_LETTERS = 50_000_000  # of the names of all columns of all nodes, and some for each column: about 250,000 columns
_COLUMN = 200  # letters that a column counts for besides those of its name; describing one takes 0.1 ms


class Resolved:
    """Every node of a graph with its schema. Nodes are numbered, parents before children."""

    def __init__(
        self, output: Node, root: Schema, fitted: Mapping[int, Fitted], removed: frozenset[str] = frozenset()
    ) -> None:
        self.output = output
        self.nodes: Sequence[Node] = tuple(walk(output))
        self.number = {id(node): index for index, node in enumerate(self.nodes)}
        self.root = root
        self.fitted = fitted
        self.removed = removed
        self._schemas: dict[int, Schema] = {}
        self._groups: dict[int, tuple[Group, ...]] = {}
        self._letters = 0
        with typed("reading the graph"):
            for node in self.nodes:
                self._resolve(node)

    def __reduce__(self) -> tuple[Any, ...]:
        return Resolved, (self.output, self.root, self.fitted, self.removed)

    def schema(self, node: Node) -> Schema:
        return self._schemas[self.number[id(node)]]

    def groups(self, node: Node) -> tuple[Group, ...]:
        return self._groups[self.number[id(node)]]

    def state(self, node: Node) -> Fitted | None:
        return self.fitted.get(self.number[id(node)])

    @property
    def output_schema(self) -> Schema:
        return self.schema(self.output)

    @cached_property
    def consumers(self) -> dict[int, list[Node]]:
        """The children of each node, by its number."""
        children: dict[int, list[Node]] = {number: [] for number in range(len(self.nodes))}
        for node in self.nodes:
            for parent in node.upstream:
                children[self.number[id(parent)]].append(node)
        return children

    def inputs(self, node: Apply) -> Inputs:
        """What the operator of a node gets, without expressions."""
        needed = Schema()
        for parent in node.upstream[1:]:
            needed = needed + self.schema(parent)
        return Inputs(self.schema(node.upstream[0]), self.groups(node.upstream[0]), needed)

    def note(self) -> None:
        """Tell every node which columns come in and out, for people to look at."""
        for node in self.nodes:
            made = self.schema(node)
            if isinstance(node, Apply):
                taken = self.schema(node.upstream[0])
            else:
                taken = made
            node.note(taken, made)

    def phases(self) -> list[list[Apply]]:
        """The nodes that have to learn, in the order in which they can: each needs only those of earlier phases."""
        level: dict[int, int] = {}
        phases: list[list[Apply]] = []
        for number, node in enumerate(self.nodes):
            before = max((level[self.number[id(parent)]] for parent in node.upstream), default=0)
            level[number] = before
            if isinstance(node, Apply) and isinstance(node.operator, StatOperator):
                level[number] = before + 1
                phases.extend([] for _ in range(level[number] - len(phases)))
                phases[before].append(node)
        return phases

    def _resolve(self, node: Node) -> None:
        schema, groups = self._columns(node)
        number = self.number[id(node)]
        self._schemas[number], self._groups[number] = schema, groups
        if not isinstance(node, Apply):  # whose columns are counted one by one, as they are made
            for name in schema.column_names:
                self._count(name, node)

    def _count(self, name: str, node: Node) -> None:
        """Count the letters of a name, and refuse one that is used inside of workflows."""
        self._letters += _COLUMN + len(name)
        if self._letters > MAX_LETTERS:
            raise ArgumentError(
                f"the nodes up to {node.label[:80]} have too many columns, or names that are too long; use fewer "
                f"operators or columns"
            )
        if name.startswith("\0"):
            raise ColumnError(f"column {name!r}: names that begin with a zero byte are used inside; rename the column")

    def _columns(self, node: Node) -> tuple[Schema, tuple[Group, ...]]:
        if isinstance(node, Select):
            return self._selected(node.selector.resolve(self.root).grouped_names, self.root, allow=self.removed)
        parents = [self.schema(parent) for parent in node.upstream]
        if isinstance(node, Concat):
            schema = Schema({column.name: column for parent in parents for column in parent}.values())
            return schema, tuple(dict.fromkeys(g for parent in node.upstream for g in self.groups(parent)))
        if isinstance(node, GroupNode):
            joined = tuple(parents[0].column_names)
            return parents[0], (joined,) if joined else ()
        if isinstance(node, Named):
            return parents[0], self.groups(node.upstream[0])
        if isinstance(node, Only):
            names = node.selector.resolve(parents[0]).grouped_names
            return self._selected(names, parents[0], allow=self.removed)
        if isinstance(node, Without):
            gone = set(parents[1].column_names) if len(parents) > 1 else set()
            gone |= set(node.selector.resolve(parents[0]).names)
            groups = tuple(g for g in self.groups(node.upstream[0]) if not gone & set(members(g)))
            return parents[0].excluding(gone), groups
        assert isinstance(node, Apply)
        made = Schema(self._described(node))
        return made, tuple(made.column_names)

    def _described(self, node: Apply) -> list[ColumnSchema]:
        operator: Operator = node.operator
        outputs: list[Output] = []
        for output in operator.outputs(self.inputs(node), self.state(node)):
            self._count(output.column.name, node)
            outputs.append(output)
        names = Counter(output.column.name for output in outputs)
        if len(names) != len(outputs):
            twice = sorted(name for name, count in names.items() if count > 1)[:20]
            raise ArgumentError(f"{operator.label} makes columns {twice} twice; rename them with Rename")
        return [output.column for output in outputs]

    def _selected(
        self, wanted: Sequence[Group], schema: Schema, allow: frozenset[str]
    ) -> tuple[Schema, tuple[Group, ...]]:
        groups = [group for group in wanted if not allow & set(members(group))]
        names = dict.fromkeys(name for group in groups for name in members(group))
        for name in names:
            if name not in schema:
                raise missing_column(name, "for the workflow", schema.column_names)
        return Schema(schema[name] for name in names), tuple(groups)
