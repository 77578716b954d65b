"""One column of a table: its name, dtype, shape, tags and properties. Immutable; JSON both ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from rowmill.dtypes import Dimension, DType, Shape
from rowmill.errors import ArgumentError, DtypeError
from rowmill.tags import TagSet


@dataclass(frozen=True)
class Domain:
    """The least and the largest value that something can have; None where it is not known."""

    min: float | None = None
    max: float | None = None
    name: str | None = None

    @property
    def is_bounded(self) -> bool:
        return self.min is not None and self.max is not None


@dataclass(frozen=True)
class ColumnSchema:
    """One column: its name, the dtype of its values, what it is for, and what is known about it.

    A list column is described by `is_list`, by `dims` (a shape), or by the property `value_count` (`min` and `max`
    values of a list); each follows from the others. The order of NVTabular's arguments (name, tags, properties,
    dtype) is understood as well.
    """

    name: str
    dtype: Any = "unknown"
    tags: Any = field(default_factory=TagSet)
    properties: Mapping[str, Any] = field(default_factory=dict)
    is_list: Any = None  # a bool, once the shape is known
    width: int | None = None
    is_ragged: Any = None
    dims: Any = None

    def __post_init__(self) -> None:
        dtype, tags, properties = self.dtype, self.tags, self.properties
        if isinstance(dtype, list | tuple | frozenset | set):  # NVTabular's order: name, tags, properties, dtype
            given = properties if not isinstance(properties, Mapping) else None
            dtype, tags, properties = given, dtype, tags if isinstance(tags, Mapping) else {}
        properties = {} if properties is None or not len(properties) else properties
        if not isinstance(properties, Mapping):
            raise DtypeError(f"properties of column {self.name!r} are {properties!r}; wanted a dict")
        known = DType("unknown" if dtype is None else dtype)
        counts = dict(properties.get("value_count") or {})
        if self.is_list and self.is_ragged is False and counts:
            counts = {"min": counts.get("min", counts.get("max")), "max": counts.get("max", counts.get("min"))}
        self._check_flags(counts)
        shape = self._shape(known, counts)
        if shape.is_list:
            properties = {**properties, "value_count": {"min": shape[1].min, "max": shape[1].max}}
        self._set(
            dtype=known.without_shape,
            tags=TagSet(tags),
            properties=MappingProxyType(dict(properties)),
            is_list=shape.is_list,
            is_ragged=shape.is_ragged,
            dims=None if shape.is_unknown else shape,
        )

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_flags(self, counts: Mapping[str, Any]) -> None:
        """Refuse flags that contradict each other or the counts of values."""
        if self.is_ragged and self.is_list is False:
            raise ArgumentError(f"column {self.name!r} has is_ragged=True and is_list=False; only lists can be ragged")
        differ = bool(counts) and counts.get("min") != counts.get("max")
        described = self.dims is not None or self.is_list is False  # then the counts say nothing of the shape
        if counts and not described and self.is_ragged is not None and self.is_ragged != differ:
            raise ArgumentError(
                f"Provided value of `is_ragged={self.is_ragged}` is inconsistent with value counts {counts} of column "
                f"{self.name!r}; leave is_ragged out"
            )

    def _shape(self, dtype: DType, counts: Mapping[str, Any]) -> Shape:
        """The shape by what was given, the most exact first."""
        if self.dims is not None:
            return Shape(self.dims)
        if not dtype.shape.is_unknown:
            return dtype.shape
        if self.width is not None:
            return Shape((None, self.width))
        if counts and self.is_list is not False and not dtype.startswith("list["):
            return Shape((None, Dimension(int(counts.get("min") or 0), _whole(counts.get("max")))))
        return Shape((None, None)) if self.is_list else Shape()

    def __hash__(self) -> int:
        return hash((self.name, self.dtype, self.tags, self.is_list, self.width))

    def __reduce__(self) -> tuple[Any, ...]:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return partial(ColumnSchema, **{**given, "properties": dict(self.properties)}), ()

    @property
    def shape(self) -> Shape:
        """The sizes of the column, rows first; `Shape()` where nothing is known."""
        return self.dims or Shape()

    @property
    def int_domain(self) -> Domain | None:
        """The property `domain` of a column of whole numbers."""
        return self._domain() if self.dtype.is_integer else None

    @property
    def float_domain(self) -> Domain | None:
        """The property `domain` of a column of floats."""
        return self._domain() if self.dtype.is_float else None

    def _domain(self) -> Domain | None:
        found = self.properties.get("domain")
        return Domain(**found) if found else None

    @property
    def value_count(self) -> Domain | None:
        """How many values the lists of a list column have, at least and at most."""
        counts = self.properties.get("value_count")
        return Domain(counts.get("min") or 0, counts.get("max")) if counts else None

    def __or__(self, other: ColumnSchema) -> ColumnSchema:
        """This column; what it does not say of its dtype, shape, tags and properties is as in the other one."""
        if not isinstance(other, ColumnSchema):
            return NotImplemented
        shaped = other if self.shape.is_unknown else self
        added = {name: value for name, value in other.properties.items() if name != "value_count"}
        return replace(
            self,
            dtype=other.dtype if self.dtype == "unknown" else self.dtype,
            tags=other.tags.override(self.tags),
            properties={**added, **self.properties},
            is_list=None,
            is_ragged=None,
            width=shaped.width,
            dims=shaped.dims,
        )

    def with_name(self, name: str) -> ColumnSchema:
        return replace(self, name=name)

    def with_tags(self, tags: str | Iterable[str] | None) -> ColumnSchema:
        """The column with these tags added; tags that contradict them go."""
        return replace(self, tags=self.tags.override(tags))

    def with_properties(self, properties: Mapping[str, Any]) -> ColumnSchema:
        """The column with these properties added; a new value replaces an old one, and `value_count` sets the shape."""
        if not isinstance(properties, Mapping):
            raise DtypeError(f"properties of column {self.name!r} are {properties!r}; wanted a dict")
        merged = {**self.properties, **properties}
        if not properties.get("value_count"):
            return replace(self, properties=merged)
        width = self.width if properties["value_count"] == {"min": self.width, "max": self.width} else None
        return replace(self, properties=merged, is_list=None, is_ragged=None, width=width, dims=None)

    def with_dtype(self, dtype: Any, is_list: bool | None = None, is_ragged: bool | None = None) -> ColumnSchema:
        """The column with another dtype of its values; `is_list` and `is_ragged` change what it has in a row."""
        if is_ragged is None and is_list in (None, self.is_list):
            return replace(self, dtype=dtype)
        kept = {name: value for name, value in self.properties.items() if name != "value_count"}
        lists = is_list if is_list is not None else is_ragged or self.is_list
        return replace(self, dtype=dtype, properties=kept, is_list=lists, is_ragged=is_ragged, width=None, dims=None)

    def with_shape(self, shape: Any) -> ColumnSchema:
        """The column with a declared shape: `(None,)` for single values, `(None, 10)` or `(None, (1, 9))` for lists."""
        kept = {name: value for name, value in self.properties.items() if name != "value_count"}
        return replace(self, properties=kept, is_list=None, is_ragged=None, width=None, dims=Shape(shape))

    def with_width(self, width: int | None) -> ColumnSchema:
        """The list column as one whose lists all have this length in the table itself, or any length (None)."""
        kept = {name: value for name, value in self.properties.items() if name != "value_count"}
        return replace(self, properties=kept, is_list=True, is_ragged=None, width=width, dims=None)

    def as_list(self) -> ColumnSchema:
        """The column; where its dtype is that of lists (of strings), described as a list of its leaves."""
        found = re.fullmatch(r"list\[([^\[\],]+)(?:, (\d+))?\]", self.dtype)
        if found is None:
            return self
        width = int(found[2]) if found[2] else None
        return replace(self, dtype=found[1], is_list=True, is_ragged=None, width=width, dims=None)

    def __str__(self) -> str:
        return self.name

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON data, for `ColumnSchema.from_dict`."""
        known = {
            "name": self.name,
            "dtype": str(self.dtype),
            "tags": sorted(map(str, self.tags)),
            "properties": dict(self.properties),
            "is_list": self.is_list,
            "width": self.width,
        }
        dims = self.shape.as_tuple or ()
        plain = not dims or (len(dims) == 2 and self.shape[0].is_unknown)  # then the other entries say it
        return known if plain else {**known, "dims": list(dims)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> ColumnSchema:
        """The column that `to_dict` described. Of tags that contradict each other, the later one in order stays."""
        tags = TagSet()
        for tag in given.get("tags", ()):
            tags = tags.override(tag)
        dims = given.get("dims")
        return cls(**{**given, "tags": tags, "dims": None if dims is None else tuple(map(_pair, dims))})


def _whole(size: Any) -> int | None:
    return None if size is None else int(size)


def _pair(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim
