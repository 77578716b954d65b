"""The graph that `cats >> Categorify() + conts` builds: immutable nodes, each knowing those that it is made of.

Nothing here knows data or schemas; `rowmill.graph.resolve` gives every node its columns, and a workflow that has seen a
table notes them in its nodes, for people to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rowmill.errors import ArgumentError, NotFittedError
from rowmill.graph.selector import ColumnSelector, NestedGroupsError, as_selector

if TYPE_CHECKING:
    from rowmill.schema import Schema


class Node:
    """A step of a graph. Combine nodes with `>>` (apply), `+` (and), `-` (without) and `[...]` (only).

    `Node(["a", "b"])` selects columns of the table. `upstream` are the nodes that it is made of. What columns it gets
    and makes is known once a workflow with it has seen a table (`fit`, `fit_schema`).
    """

    __array_ufunc__ = None  # so that an array of names + a node is left to the node
    __pandas_priority__ = 10_000  # and a pandas Index + a node
    upstream: tuple[Node, ...] = ()
    _seen: tuple[Schema, Schema] | None = None

    def __new__(cls, selector: Any = None, *_: Any) -> Node:
        return object.__new__(Select if cls is Node else cls)

    def __rshift__(self, operator: Any) -> Node:
        return apply(self, operator)

    def __add__(self, other: Any) -> Node:
        if _is_nothing(other):
            return self
        return Concat((*_operands(self), *_operands(as_node(other, grouped=True))))

    def __radd__(self, other: Any) -> Node:
        return self if _is_nothing(other) else as_node(other, grouped=True) + self

    def __sub__(self, other: Any) -> Node:
        if not isinstance(other, Node) and _holds_node(other):
            other = as_node(other)
        return Without((self, other)) if isinstance(other, Node) else Without((self,), as_selector(other))

    def __rsub__(self, other: Any) -> Node:
        return as_node(other) - self

    def __getitem__(self, columns: Any) -> Node:
        return Only((self,), as_selector(columns))

    @property
    def op(self) -> Any:
        """The operator that the node applies; None where it only selects, joins or leaves out columns."""
        return None

    @property
    def parents(self) -> list[Node]:
        """The node that this one is mainly made of: the input of an operator, the first operand of `+` or `-`."""
        return list(self.upstream[:1])

    @property
    def dependencies(self) -> list[Node]:
        """What this node is made of besides: what an operator needs, the other operands of `+` and `-`."""
        first = self.parents
        return [node for node in self.upstream if not any(node is parent for parent in first)]

    @property
    def parents_with_dependencies(self) -> list[Node]:
        return [*self.parents, *self.dependencies]

    @property
    def input_schema(self) -> Schema:
        """The columns that come in, once a workflow with this node has seen a table."""
        return self._columns_seen()[0]

    @property
    def output_schema(self) -> Schema:
        """The columns that come out, once a workflow with this node has seen a table."""
        return self._columns_seen()[1]

    @property
    def input_columns(self) -> ColumnSelector:
        return ColumnSelector(self.input_schema.column_names)

    @property
    def output_columns(self) -> ColumnSelector:
        return ColumnSelector(self.output_schema.column_names)

    @property
    def dependency_columns(self) -> ColumnSelector:
        """The columns of the nodes that this one needs besides its input."""
        return ColumnSelector([name for node in self.dependencies for name in node._names()])

    def _names(self) -> list[str]:
        """The names of the columns that come out."""
        return self.output_schema.column_names

    def compute_schemas(self, root_schema: Schema) -> None:
        """Note which columns this node and those before it have, for a table with these columns."""
        from rowmill.graph.resolve import Resolved

        Resolved(self, root_schema, {}).note()

    def note(self, taken: Schema, made: Schema) -> None:
        """Keep what columns come in and out, for people to look at; nothing is computed from it."""
        self._seen = (taken, made)

    def _columns_seen(self) -> tuple[Schema, Schema]:
        if self._seen is None:
            raise NotFittedError(
                "the columns of this node are not known yet; call fit(dataset) or fit_schema(schema) of a workflow "
                "that has it"
            )
        return self._seen

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_seen"}

    @property
    def label(self) -> str:
        """What the node does, in a few words, for a picture."""
        raise NotImplementedError

    @property
    def graph(self) -> Any:
        """The picture of the graph up to this node."""
        from rowmill.graph.display.picture import Picture

        return Picture(self)

    def __repr__(self) -> str:
        from rowmill.graph.display.steps_text import steps_text

        return " + ".join(steps_text(self))


class Select(Node):
    """Columns of the table itself."""

    def __init__(self, selector: Any = None) -> None:
        self.selector = selector

    @property
    def selector(self) -> ColumnSelector:
        return self._selector

    @selector.setter
    def selector(self, given: Any) -> None:
        self._selector = ColumnSelector() if given is None else as_selector(given)

    def _names(self) -> list[str]:
        return self.selector.names if self.selector.is_plain else super()._names()

    @property
    def label(self) -> str:
        names = [*(f"[{tag}]" for tag in self.selector.tags), *map(str, self.selector.grouped_names)]
        return ", ".join(names[:4]) + (f", ... {len(names)} in all" if len(names) > 4 else "")


class Concat(Node):
    """The columns of all operands of `+`; where two have the same name, that of the later one."""

    def __init__(self, operands: tuple[Node, ...]) -> None:
        self.upstream = operands

    @property
    def parents(self) -> list[Node]:
        made = [node for node in self.upstream if not isinstance(node, Select)]
        return [*made, *self.upstream][:1]

    @property
    def label(self) -> str:
        return "+"


class Without(Node):
    """The columns of the first parent, but for some names, or for those of the second parent."""

    def __init__(self, parents: tuple[Node, ...], selector: ColumnSelector | None = None) -> None:
        self.upstream = parents
        self.selector = selector or ColumnSelector()

    @property
    def label(self) -> str:
        return "- " + ", ".join(map(str, self.selector.grouped_names))


class Only(Node):
    """Some columns of its parent."""

    def __init__(self, parents: tuple[Node, ...], selector: ColumnSelector) -> None:
        self.upstream = parents
        self.selector = selector

    @property
    def label(self) -> str:
        return "only " + ", ".join(map(str, self.selector.grouped_names))


class Group(Node):
    """The columns of its parent as one group, to be used jointly: `[country + "user"]`."""

    def __init__(self, parent: Node) -> None:
        self.upstream = (parent,)

    @property
    def label(self) -> str:
        return "group"


class Named(Node):
    """Its parent under a name: a part of the graph that can be taken out with `get_subworkflow`."""

    def __init__(self, name: str, parent: Node) -> None:
        self.name = name
        self.upstream = (parent,)

    @property
    def label(self) -> str:
        return f"part {self.name!r}"


class Apply(Node):
    """An operator on the columns of its first parent; the other parents are what it needs besides."""

    def __init__(self, operator: Any, parents: tuple[Node, ...]) -> None:
        self.operator = operator
        self.upstream = parents

    @property
    def op(self) -> Any:
        return self.operator

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
    node = as_node(left)
    selected = node.selector.names if isinstance(node, Select) and node.selector.is_plain else None
    needed = tuple(as_node(each) for each in needs_of(operator))
    missing = () if needed or selected is None else operator.completing(selected)
    return Apply(operator, (node, *needed, *([select(list(missing))] if missing else [])))


def needs_of(operator: Any) -> list[Any]:
    """The nodes or columns that an operator needs besides its input; a user's class may have them as a property."""
    given = operator.dependencies() if callable(operator.dependencies) else operator.dependencies
    return [given] if isinstance(given, str | Node) else list(given or ())


def select(columns: Any) -> Node:
    """The node of these columns of the table."""
    return Select(columns)


def as_node(given: Any, *, grouped: bool = False) -> Node:
    """A node from a node or from columns.

    In a list, what `+` has joined is a group of columns to be used jointly, and so is a list that holds a node.
    `grouped`: the list itself is such a group if it holds a node, as an operand of `+`.
    """
    if isinstance(given, Node):
        return given
    if not _holds_node(given):
        return select(given)
    parts = [_group(item) if isinstance(item, Concat | list | tuple) else as_node(item) for item in given]
    if grouped and not (len(parts) == 1 and isinstance(parts[0], Group)):
        return _group(parts)
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _group(items: Any) -> Node:
    """What `[...]` around nodes and names means: their columns as one group."""
    if isinstance(items, Concat):
        inner: Node = items
    else:
        parts = [as_node(item) for item in items]
        inner = parts[0] if len(parts) == 1 else Concat(tuple(parts))
    if any(isinstance(node, Group) for node in (inner, *inner.upstream)):
        raise NestedGroupsError(
            "a group of columns holds another group; write each group as a list of its own: [[a, b], [c, d]]"
        )
    return Group(inner)


def _holds_node(given: Any) -> bool:
    """Whether a list has a node in it, or in a list of it."""
    if not isinstance(given, list | tuple):
        return False
    return any(isinstance(item, Node) or _holds_node(item) for item in given)


def _is_nothing(given: Any) -> bool:
    return given is None or (isinstance(given, list | tuple | str) and not given)


def _operands(node: Node) -> tuple[Node, ...]:
    """The operands of `+`, so that `a + b + c` is one node made of three."""
    return node.upstream if isinstance(node, Concat) else (node,)


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
            stack.extend((parent, False) for parent in reversed(current.upstream))


def postorder_iter_nodes(nodes: Node | Sequence[Node]) -> Iterator[Node]:
    """Every node that the given ones are made of, once, each after what it is made of; the given ones too."""
    seen: set[int] = set()
    for last in [nodes] if isinstance(nodes, Node) else nodes:
        for node in walk(last):
            if id(node) not in seen:
                seen.add(id(node))
                yield node


def iter_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """Every node that the given ones are made of, once, each before what it is made of; the given ones too."""
    return iter(list(postorder_iter_nodes(list(nodes)))[::-1])
