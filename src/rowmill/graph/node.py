"""The graph that `cats >> Categorify() + conts` builds: immutable nodes, each knowing its parents.

Nothing here knows data or schemas; `rowmill.graph.resolve` gives every node its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rowmill.errors import ArgumentError
from rowmill.graph.selector import ColumnSelector, as_selector


class Node:
    """A step of a graph. Combine nodes with `>>` (apply), `+` (and), `-` (without) and `[...]` (only)."""

    parents: tuple[Node, ...] = ()

    def __rshift__(self, operator: Any) -> Node:
        return apply(self, operator)

    def __add__(self, other: Any) -> Node:
        return Concat((*_members(self), *_members(as_node(other, grouped=True))))

    def __radd__(self, other: Any) -> Node:
        return as_node(other, grouped=True) + self

    def __sub__(self, other: Any) -> Node:
        return Without((self, other)) if isinstance(other, Node) else Without((self,), as_selector(other))

    def __rsub__(self, other: Any) -> Node:
        return as_node(other) - self

    def __getitem__(self, columns: Any) -> Node:
        return Only((self,), as_selector(columns))

    @property
    def label(self) -> str:
        """What the node does, in a few words, for a picture."""
        raise NotImplementedError

    @property
    def graph(self) -> Any:
        """The picture of the graph up to this node."""
        from rowmill.graph.draw import Picture

        return Picture(self)

    def __repr__(self) -> str:
        return f"<{self.label}>"


class Select(Node):
    """Columns of the table itself."""

    def __init__(self, selector: ColumnSelector) -> None:
        self.selector = selector

    @property
    def label(self) -> str:
        names = [*(f"[{tag}]" for tag in self.selector.tags), *map(str, self.selector.grouped_names)]
        return ", ".join(names[:4]) + (f", ... {len(names)} in all" if len(names) > 4 else "")


class Concat(Node):
    """The columns of all parents; where two have the same name, that of the later parent."""

    def __init__(self, parents: tuple[Node, ...]) -> None:
        self.parents = parents

    @property
    def label(self) -> str:
        return "+"


class Without(Node):
    """The columns of the first parent, but for some names, or for those of the second parent."""

    def __init__(self, parents: tuple[Node, ...], selector: ColumnSelector | None = None) -> None:
        self.parents = parents
        self.selector = selector or ColumnSelector()

    @property
    def label(self) -> str:
        return "- " + ", ".join(map(str, self.selector.grouped_names))


class Only(Node):
    """Some columns of its parent."""

    def __init__(self, parents: tuple[Node, ...], selector: ColumnSelector) -> None:
        self.parents = parents
        self.selector = selector

    @property
    def label(self) -> str:
        return "only " + ", ".join(map(str, self.selector.grouped_names))


class Named(Node):
    """Its parent under a name: a part of the graph that can be taken out with `get_subworkflow`."""

    def __init__(self, name: str, parent: Node) -> None:
        self.name = name
        self.parents = (parent,)

    @property
    def label(self) -> str:
        return f"part {self.name!r}"


class Apply(Node):
    """An operator on the columns of its first parent; the other parents are what it needs besides."""

    def __init__(self, operator: Any, parents: tuple[Node, ...]) -> None:
        self.operator = operator
        self.parents = parents

    @property
    def label(self) -> str:
        return str(self.operator.label)


def Subgraph(name: str, node: Any) -> Node:  # noqa: N802 - the name that people know
    """A part of a graph with a name, for `workflow.get_subworkflow(name)`."""
    return Named(name, as_node(node))


def apply(left: Any, operator: Any) -> Node:
    """`left >> operator`: an operator, the class of one, or a function of a column (a pandas Series)."""
    if isinstance(operator, type) and hasattr(operator, "outputs"):
        operator = operator()
    if not hasattr(operator, "outputs"):
        if not callable(operator):
            raise ArgumentError(f"cannot apply {operator!r}; wanted an operator of rowmill.ops or a function")
        from rowmill.ops.udf import LambdaOp

        operator = LambdaOp(operator)
    needed = tuple(as_node(needs) for needs in operator.dependencies())
    return Apply(operator, (as_node(left), *needed))


def select(columns: Any) -> Node:
    """The node of these columns of the table."""
    return Select(as_selector(columns))


def as_node(given: Any, *, grouped: bool = False) -> Node:
    """A node from a node or from columns. `grouped`: a list of lists and nodes is taken apart, as `+` does."""
    if isinstance(given, Node):
        return given
    if isinstance(given, list | tuple) and any(isinstance(item, Node) for item in given):
        return Concat(tuple(as_node(item, grouped=grouped) for item in given))
    return select(given)


def _members(node: Node) -> tuple[Node, ...]:
    """The operands of `+`, so that `a + b + c` is one node with three parents."""
    return node.parents if isinstance(node, Concat) else (node,)


def walk(node: Node) -> Iterator[Node]:
    """Every node once, parents before children, in an order that depends on the graph only."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        current, parents_done = stack.pop()
        if id(current) in seen:
            continue
        if parents_done:
            seen.add(id(current))
            yield current
        else:
            stack.append((current, True))
            stack.extend((parent, False) for parent in reversed(current.parents))
