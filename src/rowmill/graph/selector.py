"""Which columns: by name, in groups, by tag, or all of them. Resolved against a schema when the graph is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rowmill.errors import ArgumentError, DtypeError, warn
from rowmill.schema import Schema, Tags
from rowmill.tags import many, tag_of

if TYPE_CHECKING:
    from rowmill.graph.node import Node

ALL = "*"
Group = str | tuple[str, ...]


class NestedGroupsError(ArgumentError, AttributeError):
    """A group of columns in a group."""


@dataclass(frozen=True, init=False, repr=False)
class ColumnSelector:
    """Columns by `names` (a nested list or tuple is a group that is used jointly), `subgroups` and `tags`.

    `"*"` stands for all columns. `a + b` selects both; `selector >> Op()` applies an operator.
    """

    plain: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    tagged: tuple[str, ...]

    def __init__(self, names: Any = None, subgroups: Any = None, tags: Any = None) -> None:
        plain: list[str] = []
        groups = [_group(each) for each in ([subgroups] if isinstance(subgroups, ColumnSelector) else subgroups or ())]
        found = [tag_of(tag) for tag in many(tags)]
        if isinstance(names, ColumnSelector):
            found.extend(names.tagged)
            names = names.grouped_names
        for name in [] if names is None else listed(names):
            if isinstance(name, Tags):
                found.append(name)
            elif isinstance(name, str):
                plain.append(name)
            elif isinstance(name, ColumnSelector):
                found.extend(name.tagged)
                groups.extend([_group(name)] if name.grouped_names else [])
            else:
                groups.append(_group(name))
        object.__setattr__(self, "plain", _once(plain))
        object.__setattr__(self, "groups", _once(groups))
        object.__setattr__(self, "tagged", _once(found))

    @property
    def all(self) -> bool:
        return ALL in self.plain

    @property
    def is_plain(self) -> bool:
        """Whether it names its columns: no tags, and not all columns."""
        return not self.tagged and not self.all

    @property
    def tags(self) -> list[str]:
        return list(self.tagged)

    @property
    def subgroups(self) -> list[ColumnSelector]:
        """The groups of columns that are used jointly, each as a selector."""
        return [ColumnSelector(list(group)) for group in self.groups]

    @property
    def names(self) -> list[str]:
        """All names, those outside of groups first."""
        return list(_once([*self.plain, *(name for group in self.groups for name in group)]))

    @property
    def grouped_names(self) -> list[Group]:
        return [*self.plain, *self.groups]

    def resolve(self, schema: Schema) -> ColumnSelector:
        """The selection by names only, for a table with these columns."""
        plain = [n for name in self.plain for n in (schema.column_names if name == ALL else [name])]
        if self.tagged:
            plain.extend(schema.select_by_tag(self.tagged).column_names)
        return ColumnSelector([*plain, *self.groups])

    def filter_columns(self, other: ColumnSelector) -> ColumnSelector:
        """This selection without the columns of another; a group that holds one of them goes as a whole."""
        gone = set(other.names)
        kept = [group for group in self.groups if not gone & set(group)]
        return ColumnSelector([*(n for n in self.plain if n not in gone), *kept], tags=self.tagged)

    def __bool__(self) -> bool:
        return bool(self.plain or self.groups or self.tagged)

    def __repr__(self) -> str:
        tags = f", tags={[str(tag) for tag in self.tagged]}" if self.tagged else ""
        return f"ColumnSelector({self.grouped_names}{tags})"

    def __add__(self, other: Any) -> Any:
        if other is None:
            return self
        if _is_node(other) or (isinstance(other, list | tuple) and any(map(_is_node, other))):
            from rowmill.graph.node import select

            return select(self) + other
        right = as_selector(other)
        names = [*self.grouped_names, *right.grouped_names]
        return ColumnSelector(names, tags=(*self.tagged, *right.tagged))

    def __radd__(self, other: Any) -> Any:
        return self if other is None else as_selector(other) + self

    def __sub__(self, other: Any) -> Node:
        from rowmill.graph.node import select

        node: Node = select(self).__sub__(other)
        return node

    def __rshift__(self, operator: Any) -> Node:
        from rowmill.graph.node import apply

        return apply(self, operator)


def ColumnGroup(columns: Any) -> ColumnSelector:  # noqa: N802 - the name that older programs use
    """The older name of `ColumnSelector`."""
    warn("ColumnGroup is deprecated; use ColumnSelector", DeprecationWarning)
    return ColumnSelector(columns)


def as_selector(given: Any) -> ColumnSelector:
    """A selector from a name, a tag, names in a list, set or pandas Index (nested lists are groups), or a selector."""
    if isinstance(given, ColumnSelector):
        return given
    if isinstance(given, Tags):
        return ColumnSelector(tags=[given])
    return ColumnSelector(given)


def listed(given: Any) -> list[Any]:
    """The items of a list, tuple, set, array, pandas Index or dict view of names; one name alone is a list of it."""
    if isinstance(given, str):
        return [given]
    if _is_node(given):
        raise DtypeError(_NO_NODES)
    if isinstance(given, set | frozenset):
        return sorted(given, key=str)
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise ArgumentError(
            f"cannot select columns by {type(given).__name__}; wanted a name, a list of names, or a tag"
        )
    return list(given)


def members(group: Group) -> tuple[str, ...]:
    """The columns of a group: of a plain name, that one."""
    return (group,) if isinstance(group, str) else group


def _group(names: Any) -> tuple[str, ...]:
    """The names of a group, given as a list or as a selector."""
    if _is_node(names):
        raise ArgumentError(_NO_NODES)
    for name in (found := names.grouped_names if isinstance(names, ColumnSelector) else listed(names)):
        if _is_node(name):
            raise ArgumentError(_NO_NODES)
        if not isinstance(name, str):
            raise NestedGroupsError(f"Too many nested groups in {names!r}; a group is a plain list of column names")
    return tuple(found)


def _is_node(given: Any) -> bool:
    return hasattr(given, "upstream")


def _once(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


_NO_NODES = "Nodes cannot be in a ColumnSelector; use the node itself, or join columns and nodes with +"
