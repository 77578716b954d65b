"""What a table looks like: columns with a dtype, tags and properties. JSON both ways.

A dtype is written as a short name: `int64`, `float32`, `bool`, `string`, `binary`, `date`, `time`, `datetime[us]`,
`datetime[us, UTC]`, `duration[ns]`, `decimal[38,9]`, or `unknown`. A list column has the dtype of its leaves and
`is_list=True`; where the table itself has lists of one length, that length is in `width`. `shape` is what is known or
was declared of the sizes: `(None, 10)` for lists of ten, `(None, (1, 10))` for lists of one to ten values.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rowmill.column_schema import ColumnSchema, Domain
from rowmill.dtypes import dtype_name
from rowmill.errors import ArgumentError, DtypeError, RowmillError, missing_column
from rowmill.tags import COMPOUND_TAGS, Tags, TagSet, many

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COMPOUND_TAGS", "ColumnSchema", "Domain", "Schema", "TagSet", "Tags", "dtype_name"]


class Schema:
    """An ordered set of columns. `schema["x"]` is a column and can be assigned; everything else gives new schemas."""

    __slots__ = ("_columns",)

    def __init__(self, column_schemas: Any = ()) -> None:
        given = column_schemas.values() if isinstance(column_schemas, Mapping) else column_schemas
        if given is not None and (isinstance(given, str) or not isinstance(given, Iterable)):
            raise DtypeError(
                f"column_schemas is {type(given).__name__}; wanted a list of ColumnSchema or names, or a dict of them"
            )
        built = [c if isinstance(c, ColumnSchema) else ColumnSchema(c) for c in given or ()]
        for column in built:
            if not isinstance(column.name, str):
                raise DtypeError(f"a column is named {column.name!r}; wanted a text as its name")
        self._columns: dict[str, ColumnSchema] = {c.name: c for c in built}
        if len(self._columns) != len(built):
            twice = sorted(name for name, count in Counter(c.name for c in built).items() if count > 1)[:20]
            raise ArgumentError(f"columns named twice: {twice}; names in a schema must be unique")

    @property
    def column_names(self) -> list[str]:
        return list(self._columns)

    @property
    def column_schemas(self) -> dict[str, ColumnSchema]:
        """The columns by name. Assigning to it changes the schema, as `schema[name] = column` does."""
        return self._columns

    @property
    def first(self) -> ColumnSchema:
        """The first column, often the only one that was selected."""
        if not self._columns:
            raise ArgumentError("the schema has no columns, so it has no first one; select some columns")
        return next(iter(self))

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
        rows = (f"  {c.name}: {'list of ' if c.is_list else ''}{c.dtype} {_shown(c) or ''}".rstrip() for c in self)
        return "Schema(\n" + "\n".join(rows) + "\n)"

    def __getitem__(self, name: str | Sequence[str]) -> Any:
        """One column by name, or a smaller schema by a list of names."""
        if not isinstance(name, str):
            return Schema(self[n] for n in name)
        if name not in self._columns:
            raise missing_column(name, f"among {_short(self.column_names)}", self._columns)
        return self._columns[name]

    def __setitem__(self, name: str, column: ColumnSchema) -> None:
        if not isinstance(column, ColumnSchema):
            raise DtypeError(f"schema[{name!r}] was given {type(column).__name__}; wanted a ColumnSchema")
        if column.name != name:
            raise ArgumentError(f"schema[{name!r}] was given column {column.name!r}; use column.with_name({name!r})")
        self._columns[name] = column

    def get(self, name: str, default: ColumnSchema | None = None) -> ColumnSchema | None:
        """A column by name, or the default."""
        return self._columns.get(name, default)

    def copy(self) -> Schema:
        return Schema(self)

    def select(self, selector: Any) -> Schema:
        """The columns that a `ColumnSelector`, a name or a list of names selects; names that are not there are
        passed over."""
        return self if selector is None else Schema(self._chosen(selector).values())

    apply = select

    def excluding(self, selector: Any) -> Schema:
        """The columns that a `ColumnSelector`, a name or a list of names does not select."""
        gone = {} if selector is None else self._chosen(selector)
        return Schema(c for c in self if c.name not in gone)

    apply_inverse = excluding

    def _chosen(self, selector: Any) -> dict[str, ColumnSchema]:
        if not hasattr(selector, "subgroups"):  # no ColumnSelector: a pandas Index has `names` of its own
            return self.select_by_name(selector)._columns
        if selector.all:
            return self._columns
        found, tags = self.select_by_name(selector.names), selector.tags
        return {**found._columns, **(self.select_by_tag(tags)._columns if tags else {})}

    def select_by_tag(
        self, tags: str | Iterable[str], pred_fn: Callable[[Iterable[bool]], bool] | None = None
    ) -> Schema:
        """The columns that carry any of these tags; `pred_fn=all`: that carry all of them."""
        wanted, chosen = many(tags), pred_fn or any
        return Schema(c for c in self if chosen(tag in c.tags for tag in wanted))

    def excluding_by_tag(
        self, tags: str | Iterable[str], pred_fn: Callable[[Iterable[bool]], bool] | None = None
    ) -> Schema:
        """The columns that carry none of these tags; `pred_fn=all`: that do not carry all of them."""
        return self - self.select_by_tag(tags, pred_fn)

    remove_by_tag = excluding_by_tag

    def select_by_name(self, names: str | Iterable[str]) -> Schema:
        """The columns of these names that exist, in the order given; others are passed over."""
        return Schema(self._columns[n] for n in dict.fromkeys(many(names)) if n in self._columns)

    def excluding_by_name(self, col_names: str | Iterable[str]) -> Schema:
        """The columns of other names than these."""
        gone = set(many(col_names))
        return Schema(c for c in self if c.name not in gone)

    without = excluding_by_name
    remove_col = excluding_by_name

    def __add__(self, other: Schema | None) -> Schema:
        """Both; where a name is in both, the right-hand column stands in the left-hand place."""
        if other is None:
            return self
        if not isinstance(other, Schema):
            return NotImplemented
        return Schema({**self._columns, **other._columns}.values())

    def __radd__(self, other: None) -> Schema:
        return self if other is None else NotImplemented

    def __sub__(self, other: Schema | None) -> Schema:
        if other is None:
            return self
        return self.excluding_by_name(other.column_names) if isinstance(other, Schema) else NotImplemented

    def to_pandas(self) -> pd.DataFrame:
        """The schema as a pandas frame, a row for each column; properties as columns `properties.<name>`."""
        import pandas as pd

        rows = [{f.name: getattr(c, f.name) for f in fields(c) if f.name != "properties"} for c in self]
        noted = [{f"properties.{name}": value for name, value in c.properties.items()} for c in self]
        return pd.DataFrame([{**row, **more} for row, more in zip(rows, noted, strict=True)])

    def to_json(self) -> str:
        return json.dumps({"version": 1, "columns": [c.to_dict() for c in self]}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Schema:
        with _describing_a_schema():
            return cls.from_dicts(json.loads(text)["columns"])

    @classmethod
    def from_dicts(cls, columns: Iterable[Mapping[str, Any]]) -> Schema:
        """The schema whose columns `ColumnSchema.to_dict` described."""
        with _describing_a_schema():
            return cls(ColumnSchema.from_dict(column) for column in columns)


@contextmanager
def _describing_a_schema() -> Iterator[None]:
    try:
        yield
    except RowmillError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"not a Rowmill schema ({error}); wanted what Schema.to_json() writes") from error


def _shown(column: ColumnSchema) -> list[str]:
    return sorted(map(str, column.tags))


def _short(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return f"[{shown}, ... {len(names)} in all]" if len(names) > 8 else f"[{shown}]"


def described(found: Schema, given: Schema | None) -> Schema:
    """The columns that are there, with the tags, properties and shapes that are known or declared of them."""
    given = Schema() if given is None else given
    return Schema(_noted(c, given[c.name]) if c.name in given else c for c in found)


def _noted(found: ColumnSchema, given: ColumnSchema) -> ColumnSchema:
    """A column of the table with what a schema says of it. Whether it holds lists is for the table to say."""
    known = dict(given.properties)
    if not found.is_list or found.width is not None:
        known.pop("value_count", None)
    made = found.with_tags(given.tags).with_properties(known)
    return made.with_shape(given.shape) if given.dims is not None and len(tuple(given.dims)) > 2 else made
