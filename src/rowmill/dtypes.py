"""Types and shapes of columns: `DType`, a short name that also compares with NumPy's and Python's types; `Shape`.

`rowmill.dtypes.int64`, `float32` and so on are there by name, for programs that write `md.int64`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from rowmill.errors import ArgumentError, DtypeError


class DefaultShapes(Enum):
    """The shapes of a column of single values and of a column of lists, where nothing else is known."""

    LIST = (None, None)
    SCALAR = (None,)


@dataclass(frozen=True)
class Dimension:
    """How large one dimension of a column may be: from `min` to `max`, where None means no limit."""

    min: int = 0
    max: int | None = None

    def __post_init__(self) -> None:
        for name, size in (("min", self.min), ("max", 0 if self.max is None else self.max)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise ArgumentError(f"{name} of a dimension is {size!r}; wanted a whole number of at least 0")
        if self.max is not None and self.max < self.min:
            raise ArgumentError(f"a dimension from {self.min} to {self.max}; wanted max of at least min")

    def __int__(self) -> int:
        if self.max is None or self.min != self.max:
            raise ArgumentError(f"{self} has no fixed size; give min and max the same number")
        return self.max

    @property
    def is_bounded(self) -> bool:
        return self.max is not None

    @property
    def is_fixed(self) -> bool:
        return self.min == self.max

    @property
    def is_variable(self) -> bool:
        return not self.is_fixed

    @property
    def is_unknown(self) -> bool:
        return self.min == 0 and self.max is None

    def with_min(self, value: int) -> Dimension:
        return replace(self, min=value)

    def with_max(self, value: int | None) -> Dimension:
        return replace(self, max=value)


@dataclass(frozen=True, eq=False)
class Shape:
    """The dimensions of a column, rows first: each None, a size, or a pair of least and largest size.

    `Shape()` is a shape about which nothing is known; it is equal to every other.
    """

    dims: Any = None

    def __post_init__(self) -> None:
        given = self.dims.value if isinstance(self.dims, DefaultShapes) else self.dims
        given = given.dims if isinstance(given, Shape) else given
        if given is not None and (isinstance(given, str) or not isinstance(given, Iterable)):
            raise DtypeError(f"a shape is {given!r}; wanted a tuple such as (None, 10) or (None, (1, 10))")
        object.__setattr__(self, "dims", None if given is None else tuple(map(_dimension, given)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return False
        return self.dims is None or other.dims is None or self.dims == other.dims

    def __hash__(self) -> int:
        return hash(Shape)  # an unknown shape is equal to every other

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.dims or ())

    def __getitem__(self, index: int) -> Dimension:
        found: Dimension = (self.dims or ())[index]
        return found

    def with_dim(self, index: int, value: Any) -> Shape:
        """The shape with another size of one dimension."""
        dims = list(self)
        dims[index] = _dimension(value)
        return Shape(tuple(dims))

    def with_dim_min(self, index: int, value: int) -> Shape:
        return self.with_dim(index, self[index].with_min(value))

    def with_dim_max(self, index: int, value: int | None) -> Shape:
        return self.with_dim(index, self[index].with_max(value))

    @property
    def min(self) -> tuple[int, ...]:
        return tuple(dim.min for dim in self)

    @property
    def max(self) -> tuple[int | None, ...]:
        return tuple(dim.max for dim in self)

    @property
    def is_bounded(self) -> bool:
        return all(dim.is_bounded for dim in self)

    @property
    def is_fixed(self) -> bool:
        return all(dim.is_fixed for dim in self)

    @property
    def is_variable(self) -> bool:
        return not self.is_fixed

    @property
    def is_list(self) -> bool:
        return self.dims is not None and len(self.dims) > 1

    @property
    def is_ragged(self) -> bool:
        return self.is_list and any(dim.is_variable for dim in self.dims[1:])

    @property
    def is_unknown(self) -> bool:
        return self.dims is None

    @property
    def as_tuple(self) -> tuple[Any, ...] | None:
        """The dimensions as numbers and pairs; None where nothing is known."""
        if not self.dims:
            return None
        return tuple(dim.max if dim.is_fixed else (dim.min, dim.max) for dim in self)


def _dimension(given: Any) -> Dimension:
    if isinstance(given, Dimension):
        return given
    if given is None:
        return Dimension()
    if isinstance(given, int) and not isinstance(given, bool):
        return Dimension(given, given)
    if isinstance(given, tuple | list) and len(given) == 2:
        return Dimension(*given)
    raise ArgumentError(f"a dimension is {given!r}; wanted None, a whole number, or a pair of least and largest size")


class DType(str):
    """The type of a column's values: a short name such as `int64`, equal to `np.int64` and to the name itself."""

    shape: Shape

    def __new__(cls, name: Any, shape: Shape | None = None) -> DType:
        if isinstance(name, DType) and shape is None:
            return name
        made = super().__new__(cls, dtype_name(name))
        made.shape = shape or (name.shape if isinstance(name, DType) else Shape())
        return made

    @property
    def name(self) -> str:
        return str.__str__(self)

    @property
    def is_integer(self) -> bool:
        return self.startswith(("int", "uint"))

    @property
    def is_float(self) -> bool:
        return self.startswith("float")

    @property
    def is_list(self) -> bool:
        """Whether the shape is that of lists."""
        return self.shape.is_list

    @property
    def is_ragged(self) -> bool:
        """Whether the shape is that of lists of different lengths."""
        return self.shape.is_ragged

    @property
    def to_numpy(self) -> Any:
        """NumPy's dtype of the values; of what NumPy has no type for, that of objects."""
        import numpy as np

        unit = re.fullmatch(r"(datetime|duration)\[(\w+)(?:, .*)?\]", self)
        if unit:
            return np.dtype(f"{'datetime64' if unit[1] == 'datetime' else 'timedelta64'}[{unit[2]}]")
        plain = self.startswith(("int", "uint", "float", "bool"))
        return np.dtype(str(self) if plain else "datetime64[D]" if self == "date" else "object")

    def with_shape(self, shape: Any) -> DType:
        """The type with a shape: a tuple such as `(None, 10)`, or a `Shape`."""
        return DType(str(self), Shape(shape))

    @property
    def without_shape(self) -> DType:
        return DType(str(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType) and self.shape != other.shape:
            return False
        if isinstance(other, str):
            return str.__eq__(self, other)
        named = isinstance(other, type) or hasattr(other, "name") or hasattr(other, "dtype")
        return named and str.__eq__(self, dtype_name(other))

    def __ne__(self, other: object) -> bool:
        return not self.__eq__(other)

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return DType, (str(self), self.shape)

    def __str__(self) -> str:
        return str.__str__(self)


def dtype_name(dtype: Any) -> str:
    """The short name of a dtype given as a name, a NumPy dtype or type, a Python type, or a framework's dtype."""
    if isinstance(dtype, str):
        return _ALIASES.get(str.__str__(dtype), str.__str__(dtype))
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return _PYTHON_TYPES[dtype]
    name = dtype.__name__ if isinstance(dtype, type) else getattr(dtype, "name", None) or str(dtype)
    name = str(name).rsplit(".", 1)[-1].lower().removesuffix("dtype")
    return _ALIASES.get(name, name)


def dtype(external: Any, shape: Any = None) -> DType:
    """The type that another library's dtype, or a name, stands for, with this shape; `unknown` of any other class."""
    found = unknown if external is None else DType(external)
    if isinstance(external, type) and not _KNOWN_NAMES.fullmatch(found):
        found = unknown
    return found if shape is None else found.with_shape(shape)


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
    "str_": "string",
    "utf8": "string",
    "object": "string",
    "int": "int64",
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "half": "float16",
    "bytes": "binary",
}
# Of the types that NumPy, Polars, pandas and Arrow have classes for.
_KNOWN_NAMES = re.compile(
    r"bool|u?int(8|16|32|64|128)|float(16|32|64)|string|binary|date|time|(datetime|timedelta|duration)(64)?|decimal"
    r"|list|array|struct|categorical|category|enum|null|unknown"
)

boolean = DType("bool")
int8, int16, int32, int64 = DType("int8"), DType("int16"), DType("int32"), DType("int64")
uint8, uint16, uint32, uint64 = DType("uint8"), DType("uint16"), DType("uint32"), DType("uint64")
float16, float32, float64 = DType("float16"), DType("float32"), DType("float64")
string, struct, unknown = DType("string"), DType("struct"), DType("unknown")
