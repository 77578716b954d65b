"""What a table looks like: columns with a dtype, tags and properties. Immutable; JSON both ways.

A dtype is written as a short name: `int64`, `float32`, `bool`, `string`, `binary`, `date`, `time`, `datetime[us]`,
`datetime[us, UTC]`, `duration[ns]`, `decimal[38,9]`, or `unknown`. A list column has the dtype of its leaves and
`is_list=True`; a list of fixed length has that length in `width`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from rowmill.errors import ArgumentError, ColumnError, closest


class Tags(StrEnum):
    """What a column is for. Loaders take their columns from CATEGORICAL, CONTINUOUS and TARGET."""

    CATEGORICAL = "categorical"
    CONTINUOUS = "continuous"
    TARGET = "target"
    LIST = "list"
    SEQUENCE = "sequence"
    TEXT = "text"
    TOKENIZED = "tokenized"
    EMBEDDING = "embedding"
    TIME = "time"
    ID = "id"
    USER = "user"
    ITEM = "item"
    SESSION = "session"
    CONTEXT = "context"
    USER_ID = "user_id"
    ITEM_ID = "item_id"
    SESSION_ID = "session_id"
    BINARY = "binary"
    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    BINARY_CLASSIFICATION = "binary_classification"
    MULTI_CLASS_CLASSIFICATION = "multi_class_classification"
    TARGETS = "target"  # the older spelling of TARGET
    MULTI_CLASS = "multi_class_classification"


@dataclass(frozen=True)
class ColumnSchema:
    """One column: its name, the dtype of its values, what it is for, and what is known about it."""

    name: str
    dtype: str = "unknown"
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, Any] = field(default_factory=dict)
    is_list: bool = False
    width: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtype_name(self.dtype))
        object.__setattr__(self, "tags", frozenset(str(tag) for tag in _many(self.tags)))
        object.__setattr__(self, "properties", MappingProxyType(dict(self.properties)))

    def __hash__(self) -> int:
        return hash((self.name, self.dtype, self.tags, self.is_list, self.width))

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnSchema, (self.name, self.dtype, self.tags, dict(self.properties), self.is_list, self.width)

    def with_name(self, name: str) -> ColumnSchema:
        return replace(self, name=name)

    def with_tags(self, tags: str | Iterable[str]) -> ColumnSchema:
        """The same column with these tags added."""
        return replace(self, tags=self.tags | frozenset(str(tag) for tag in _many(tags)))

    def with_properties(self, properties: Mapping[str, Any]) -> ColumnSchema:
        """The same column with these properties added; a new value replaces an old one."""
        return replace(self, properties={**self.properties, **properties})

    def with_dtype(self, dtype: Any, is_list: bool | None = None) -> ColumnSchema:
        return replace(self, dtype=dtype_name(dtype), is_list=self.is_list if is_list is None else is_list)

    def as_list(self) -> ColumnSchema:
        """The same column, where its dtype is that of lists (of strings), described as a list of its leaves."""
        found = re.fullmatch(r"list\[([^\[\],]+)(?:, (\d+))?\]", self.dtype)
        if found is None:
            return self
        return replace(self, dtype=found[1], is_list=True, width=int(found[2]) if found[2] else None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "tags": sorted(self.tags),
            "properties": dict(self.properties),
            "is_list": self.is_list,
            "width": self.width,
        }


class Schema:
    """An ordered, immutable set of columns."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Iterable[ColumnSchema | str] = ()) -> None:
        built = [ColumnSchema(c) if isinstance(c, str) else c for c in columns]
        self._columns: dict[str, ColumnSchema] = {c.name: c for c in built}
        if len(self._columns) != len(built):
            names = [c.name for c in built]
            twice = sorted({n for n in names if names.count(n) > 1})
            raise ArgumentError(f"columns named twice: {twice}; names in a schema must be unique")

    @property
    def column_names(self) -> list[str]:
        return list(self._columns)

    def __iter__(self) -> Iterator[ColumnSchema]:
        return iter(self._columns.values())

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        rows = (f"  {c.name}: {'list of ' if c.is_list else ''}{c.dtype} {sorted(c.tags) or ''}".rstrip() for c in self)
        return "Schema(\n" + "\n".join(rows) + "\n)"

    def __getitem__(self, name: str | Sequence[str]) -> Any:
        """One column by name, or a smaller schema by a list of names."""
        if not isinstance(name, str):
            return Schema(self[n] for n in name)
        if name not in self._columns:
            raise ColumnError(f"no column {name!r} among {_short(self.column_names)}{closest(name, self._columns)}")
        return self._columns[name]

    def select_by_tag(self, tags: str | Iterable[str]) -> Schema:
        """The columns that carry any of these tags."""
        wanted = {str(tag) for tag in _many(tags)}
        return Schema(c for c in self if c.tags & wanted)

    def select_by_name(self, names: str | Iterable[str]) -> Schema:
        """The columns of these names that exist, in the order given; others are passed over."""
        return Schema(self._columns[n] for n in _many(names) if n in self._columns)

    def excluding(self, names: str | Iterable[str]) -> Schema:
        gone = set(_many(names))
        return Schema(c for c in self if c.name not in gone)

    def __add__(self, other: Schema) -> Schema:
        """Both; where a name is in both, the right-hand column stands in the left-hand place."""
        return Schema({**self._columns, **other._columns}.values())

    def __sub__(self, other: Schema) -> Schema:
        return self.excluding(other.column_names)

    def to_json(self) -> str:
        return json.dumps({"version": 1, "columns": [c.to_dict() for c in self]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        try:
            return cls(ColumnSchema(**column) for column in json.loads(text)["columns"])
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ArgumentError(f"not a Rowmill schema ({error}); wanted what Schema.to_json() writes") from error


def dtype_name(dtype: Any) -> str:
    """The short name of a dtype given as a name, a NumPy dtype or type, a Python type, or a framework's dtype."""
    if isinstance(dtype, str):
        return _ALIASES.get(dtype, dtype)
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return _PYTHON_TYPES[dtype]
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(name).rsplit(".", 1)[-1].lower()
    return _ALIASES.get(name, name)


_PYTHON_TYPES: dict[type, str] = {
    int: "int64",
    float: "float64",
    bool: "bool",
    str: "string",
    bytes: "binary",
}
_ALIASES = {
    "boolean": "bool",
    "str": "string",
    "utf8": "string",
    "object": "string",
    "int": "int64",
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "half": "float16",
    "bytes": "binary",
}


def _many(value: str | Iterable[str]) -> Iterable[str]:
    return (value,) if isinstance(value, str) else value


def _short(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return f"[{shown}, ... {len(names)} in all]" if len(names) > 8 else f"[{shown}]"
