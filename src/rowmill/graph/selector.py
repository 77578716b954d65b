"""Which columns: by name, in groups, by tag, or all of them. Resolved against a schema when the graph is built."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rowmill.errors import ArgumentError
from rowmill.schema import Schema, Tags

if TYPE_CHECKING:
    from rowmill.graph.node import Node

ALL = "*"
Group = str | tuple[str, ...]


@dataclass(frozen=True, init=False)
class ColumnSelector:
    """Columns by `names` (a nested list or tuple is a group that is used jointly), `subgroups` and `tags`.

    `"*"` stands for all columns. `a + b` selects both; `selector >> Op()` applies an operator.
    """

    plain: tuple[str, ...]
    subgroups: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]

    def __init__(self, names: Any = None, subgroups: Any = None, tags: Any = None) -> None:
        plain: list[str] = []
        groups: list[tuple[str, ...]] = []
        found: list[str] = [str(tag) for tag in ([tags] if isinstance(tags, str) else tags or ())]
        given: Iterable[Any] = (names,) if isinstance(names, str | ColumnSelector) else names or ()
        for name in (*given, *(subgroups or ())):
            if isinstance(name, Tags):
                found.append(str(name))
            elif isinstance(name, str):
                plain.append(name)
            elif isinstance(name, ColumnSelector):
                groups.extend(name.subgroups)
                groups.extend([name.plain] if name.plain else [])
                found.extend(name.tags)
            elif isinstance(name, list | tuple):
                groups.append(_group(name))
            else:
                raise ArgumentError(f"cannot select columns by {name!r}; wanted names, tags, or a list of names")
        object.__setattr__(self, "plain", _once(plain))
        object.__setattr__(self, "subgroups", _once(groups))
        object.__setattr__(self, "tags", _once(found))

    @property
    def all(self) -> bool:
        return ALL in self.plain

    @property
    def names(self) -> list[str]:
        """All names, those outside of groups first."""
        return list(_once([*self.plain, *(name for group in self.subgroups for name in group)]))

    @property
    def grouped_names(self) -> list[Group]:
        return [*self.plain, *self.subgroups]

    def resolve(self, schema: Schema) -> ColumnSelector:
        """The same selection by names only."""
        plain = [n for name in self.plain for n in (schema.column_names if name == ALL else [name])]
        if self.tags:
            plain.extend(schema.select_by_tag(self.tags).column_names)
        return ColumnSelector([*plain, *self.subgroups])

    def filter_columns(self, other: ColumnSelector) -> ColumnSelector:
        """This selection without the columns of another; a group that holds one of them goes as a whole."""
        gone = set(other.names)
        kept = [group for group in self.subgroups if not gone & set(group)]
        return ColumnSelector([*(n for n in self.plain if n not in gone), *kept], tags=self.tags)

    def __bool__(self) -> bool:
        return bool(self.plain or self.subgroups or self.tags)

    def __add__(self, other: Any) -> Any:
        if other is None:
            return self
        if not isinstance(other, ColumnSelector | str | list | tuple):
            return NotImplemented
        right = as_selector(other)
        names = [*self.grouped_names, *right.grouped_names]
        return ColumnSelector(names, tags=(*self.tags, *right.tags))

    def __radd__(self, other: Any) -> Any:
        return NotImplemented if not isinstance(other, str | list | tuple) else as_selector(other) + self

    def __sub__(self, other: Any) -> Node:
        from rowmill.graph.node import select

        node: Node = select(self).__sub__(other)
        return node

    def __rshift__(self, operator: Any) -> Node:
        from rowmill.graph.node import apply

        return apply(self, operator)


def as_selector(given: Any) -> ColumnSelector:
    """A selector from a name, a tag, a list of names (nested lists are groups), or a selector."""
    if isinstance(given, ColumnSelector):
        return given
    if isinstance(given, Tags):
        return ColumnSelector(tags=[given])
    if isinstance(given, str | list | tuple):
        return ColumnSelector(given)
    raise ArgumentError(f"cannot select columns by {type(given).__name__}; wanted a name, a list of names, or a tag")


def members(group: Group) -> tuple[str, ...]:
    """The columns of a group: of a plain name, that one."""
    return (group,) if isinstance(group, str) else group


def _group(names: Sequence[Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"too many nested groups in {names!r}; a group is a plain list of column names")
    return tuple(names)


def _once(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))
