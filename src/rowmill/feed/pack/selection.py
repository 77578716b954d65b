"""Selection of columns: which go side by side, in which dtype, and what replaces nulls (null policy).

Comes in: a schema, column names and a null policy. Goes out: a `Layout`, and the Polars expressions that turn a frame
as it was read into one that can be packed. Everything that can be refused is refused here, before a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError, DtypeError, NullError, missing_column
from rowmill.feed.memory.block import Layout, Matrix
from rowmill.schema import ColumnSchema, Schema
from rowmill.sources.names import column as exact

NULL_SUFFIX = "__null"

Nulls = str | int | float | bool | None | Mapping[str, Any]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")
_OBJECTS = ("string", "binary", "categorical", "enum")


def packed_dtype(dtype: str) -> np.dtype[Any] | None:
    """The dtype in which values of a column are delivered, exactly; None if they do not fit in a matrix."""
    if dtype in _INTEGERS or dtype in _FLOATS or dtype == "bool":
        return np.dtype(dtype)
    if dtype == "date":
        return np.dtype("int32")  # days since 1970-01-01
    if dtype == "time" or dtype.startswith(("datetime", "duration")):
        return np.dtype("int64")  # in the column's own unit; time of day in nanoseconds
    return None


@dataclass(frozen=True)
class Selection:
    """What a loader delivers: a layout, the columns to read for it, and how each is made ready."""

    layout: Layout
    columns: tuple[str, ...]
    expressions: tuple[pl.Expr, ...]  # of columns that are not delivered as they are read
    must_be_full: tuple[str, ...]  # columns in which a null is an error
    masks: bool = True  # whether nulls could be marked in columns of their own
    planned_bytes: int = 0  # of a row in the widest dtypes of any loader: by these the order of all is planned

    def prepare(self, frame: pl.DataFrame, where: str) -> pl.DataFrame:
        """The frame with all columns of the layout and without nulls. `where` says in an error what was being read."""
        if self.layout.has_lists or any(frame.null_count().row(0)):
            self._check_full(frame, where)
        try:
            return frame.with_columns(self.expressions) if self.expressions else frame
        except pl.exceptions.InvalidOperationError as error:
            raise DtypeError(f"a value in {where} does not fit the dtype asked for: {error}") from error

    def _check_full(self, frame: pl.DataFrame, where: str) -> None:
        for name in self.must_be_full:
            column = frame.get_column(name).alias("values")  # its own name could be read as a pattern
            nulls, is_nested = column.null_count(), column.dtype.is_nested()
            values: Any = column.to_arrow() if is_nested else None  # where `explode` would copy the column
            dtype: Any = column.dtype
            while isinstance(dtype, pl.List | pl.Array):
                values, dtype = values.flatten(), dtype.inner
                nulls += values.null_count
            if nulls:
                mask = f", or get a column {name + NULL_SUFFIX!r} that marks them with nulls={{{name!r}: 'mask'}}"
                can_mask = self.masks and not is_nested
                raise NullError(
                    f"column {name!r} has {nulls} nulls in {where}, and a tensor has no null; fill them with "
                    f"nulls={{{name!r}: 0}} (any value){mask if can_mask else ''}"
                )


class Selector:
    """Builds a `Selection` matrix by matrix."""

    def __init__(
        self,
        schema: Schema,
        nulls: Nulls = "error",
        *,
        masks: bool = True,
        nested: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.schema = schema
        self.nested = nested or {}  # columns that are no plain lists in the table, and the sizes of one row
        self.nulls = nulls
        self.masks = masks
        self._matrices: list[Matrix] = []
        self._ragged: list[str] = []
        self._objects: list[str] = []
        self._expressions: dict[str, pl.Expr | None] = {}  # None: as it is read
        self._full: list[str] = []
        self._read: dict[str, None] = {}
        self._planned_bytes = 0
        if isinstance(nulls, str) and nulls not in ("error", "mask"):
            raise ArgumentError(f"nulls={nulls!r}; wanted 'error', 'mask', a fill value, or a dict of them by column")
        if isinstance(nulls, Mapping):
            self.check(nulls)

    def check(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.schema:
                known = self.schema.column_names
                raise missing_column(name, f"among the {len(known)} of this dataset", known)

    def matrix(
        self,
        name: str,
        columns: Sequence[str],
        dtype: Any,
        *,
        integers: bool = False,
        wide: bool = False,
        narrow: bool = False,
    ) -> None:
        """A matrix of these columns in one dtype. Lists are not put in it, but delivered beside it.

        With `wide`, lists of fixed length are values side by side in a matrix of their own. `narrow` as in `native`.
        """
        self.check(columns)
        try:
            target = _narrow(np.dtype(dtype)) if narrow else np.dtype(dtype)
        except TypeError as error:
            raise ArgumentError(f"found the dtype {dtype!r}; wanted one of NumPy's, such as 'int64'") from error
        if integers and target.kind not in "iu":
            raise ArgumentError(f"ids as {target}; wanted integers, such as index_dtype='int64' or 'int32'")
        fixed, widths = [], {}
        for column in columns:
            spec = self.schema[column]
            self._check_numeric(spec, integers)
            _check_width(spec)
            if wide and spec.width is not None:
                self._add(spec, target, column)
                widths[column] = spec.width
            elif spec.is_list:
                self._add_list(spec, target)
            else:
                alias = column
                while alias in self._expressions:  # a column of two matrices
                    alias = f"{name}.{alias}"
                self._add(spec, target, alias)
                fixed.append(alias)
        if fixed:
            self._matrices.append(Matrix(name, target, tuple(fixed)))
        if widths:
            self._matrices.append(Matrix(f"{name} wide", target, tuple(widths), tuple(widths.values())))

    def native(self, columns: Sequence[str], *, narrow: bool = False, floats: Collection[str] = ()) -> None:
        """These columns, each in its own dtype; those of one dtype share a matrix. Strings are delivered as objects.

        With `narrow`, numbers of 8 bytes are delivered in 4; an integer that does not fit is an error. Numbers and
        booleans named in `floats` are delivered as float32.
        """
        self.check(columns)
        groups: dict[tuple[np.dtype[Any], bool], list[tuple[str, int]]] = {}
        for column in columns:
            spec = self.schema[column]
            _check_width(spec)
            target = packed_dtype(spec.dtype)
            if column in floats and target is not None:
                target = np.dtype("float32")
            elif narrow and target is not None:
                target = _narrow(target)
            if spec.dtype in _OBJECTS and not spec.is_list:
                self._objects.append(column)
                self._null_policy(spec, exact(column))
            elif target is None:
                raise refused(spec)
            elif spec.is_list and spec.width is None:
                self._add_list(spec, target)
            else:
                self._add(spec, target, column)
                groups.setdefault((target, spec.is_list), []).append((column, spec.width or 1))
        masks = [c + NULL_SUFFIX for c in columns if self._policy(c) == "mask"]
        if taken := [mask for mask in masks if mask in columns]:
            raise ArgumentError(
                f"nulls='mask' makes a column {taken[0]!r}, and the table has one; leave it out, or fill the nulls"
            )
        if masks:
            groups.setdefault((np.dtype(bool), False), []).extend((mask, 1) for mask in masks)
        for (target, wide), members in groups.items():
            widths = tuple(width for _, width in members) if wide else ()
            self._matrices.append(Matrix(str(target), target, tuple(name for name, _ in members), widths))

    def selection(self) -> Selection:
        layout = Layout(tuple(self._matrices), tuple(self._ragged), tuple(self._objects))
        changed = tuple(expression for expression in self._expressions.values() if expression is not None)
        return Selection(layout, tuple(self._read), changed, tuple(self._full), self.masks, self._planned_bytes)

    def _check_numeric(self, spec: ColumnSchema, integers: bool) -> None:
        if spec.dtype in _OBJECTS:
            raise DtypeError(
                f"column {spec.name!r} holds {spec.dtype} values, and a tensor holds numbers; encode it first "
                f"(Categorify), or use Loader, which passes strings through as NumPy arrays"
            )
        numeric = spec.dtype in _INTEGERS or spec.dtype == "bool"
        if integers and not numeric:
            raise DtypeError(
                f"categorical column {spec.name!r} is {spec.dtype}, and ids are integers; encode it (Categorify), or "
                f"read it as integers with Dataset(..., dtypes={{{spec.name!r}: 'int64'}})"
            )
        if not numeric and spec.dtype not in _FLOATS:
            raise refused(spec)

    def _add(self, spec: ColumnSchema, target: np.dtype[Any], alias: str) -> None:
        native = packed_dtype(spec.dtype)
        self._planned_bytes += (spec.width or 1) * (native.itemsize if native is not None and native.kind == "f" else 8)
        expression = read = exact(spec.name)
        if spec.dtype == "time" or spec.dtype.startswith(("date", "duration")):
            expression = expression.to_physical()
        expression = self._null_policy(spec, expression)
        # Packed bits become bytes, and C++ has no float16; every other change of dtype happens while packing.
        cast: Any = pl.UInt8 if spec.dtype == "bool" else None
        if "float16" in (spec.dtype, target.name) and spec.dtype != target.name:
            cast = _polars(target)
        if cast is not None:
            expression = expression.cast(pl.Array(cast, spec.width) if spec.width else cast)
        as_read = expression is read and alias == spec.name
        self._expressions[alias] = None if as_read else expression.alias(alias)

    def _add_list(self, spec: ColumnSchema, target: np.dtype[Any]) -> None:
        expression = exact(spec.name)
        if spec.width is not None:
            expression = expression.arr.to_list()
        if spec.name in self.nested:
            leaf, sizes = _polars(np.dtype(spec.dtype)), self.nested[spec.name]
            stored_as = leaf
            for _ in sizes:
                stored_as = pl.List(stored_as)
            expression = _flat(expression.cast(stored_as), leaf, sizes)
        stored = np.dtype("uint8") if target == np.dtype(bool) else target
        policy = self._policy(spec.name)
        self._read[spec.name] = None
        if policy == "mask":
            raise ArgumentError(f"nulls='mask' for list column {spec.name!r}; wanted 'error' or a fill value")
        if policy == "error":
            self._full.append(spec.name)
        else:
            expression = expression.list.eval(pl.element().fill_null(policy)).fill_null([])
        self._ragged.append(spec.name)
        as_stored = spec.width is None and spec.name not in self.nested and np.dtype(stored).name == spec.dtype
        as_read = policy == "error" and as_stored
        self._expressions[spec.name] = None if as_read else expression.cast(pl.List(_polars(stored)))

    def _add_mask(self, spec: ColumnSchema) -> None:
        name = spec.name + NULL_SUFFIX
        self._expressions[name] = exact(spec.name).is_null().cast(pl.UInt8).alias(name)

    def _policy(self, name: str) -> Any:
        if isinstance(self.nulls, Mapping):
            return self.nulls.get(name, "error")
        return self.nulls

    def _null_policy(self, spec: ColumnSchema, expression: pl.Expr) -> pl.Expr:
        """Note what a null in this column means, and return the expression without nulls."""
        policy = self._policy(spec.name)
        is_object = spec.dtype in _OBJECTS
        self._read[spec.name] = None
        if is_object:  # an array of objects can hold None
            if isinstance(self.nulls, Mapping) and not isinstance(policy, str):
                raise ArgumentError(f"nulls={policy!r} for {spec.name!r}, which holds strings; wanted a string")
            fills = isinstance(policy, str) and policy not in ("error", "mask")
            self._expressions[spec.name] = expression.fill_null(policy) if fills else None
            if policy == "mask":
                self._add_mask(spec)
            return expression
        if isinstance(policy, str) and policy == "error":
            self._full.append(spec.name)
            return expression
        if isinstance(policy, str) and policy == "mask":
            if not self.masks:
                raise ArgumentError(
                    f"nulls='mask' for {spec.name!r}, but this loader has no place for one; fill them or use Loader"
                )
            self._add_mask(spec)
            policy = 0
        if isinstance(policy, str):
            raise ArgumentError(
                f"nulls={policy!r} for {spec.name!r}, which is {spec.dtype}; wanted 'error', 'mask' or a number"
            )
        if spec.is_list:  # of fixed length: a null row is a row of fill values
            assert spec.width is not None
            row = pl.lit([policy] * spec.width, dtype=pl.Array(_polars(np.dtype(spec.dtype)), spec.width))
            return expression.arr.eval(pl.element().fill_null(policy)).fill_null(row)
        if spec.dtype == "bool":
            policy = bool(policy)
        elif spec.dtype in _INTEGERS and policy != int(policy):
            raise ArgumentError(f"nulls={policy!r} for {spec.name!r}, which is {spec.dtype}; wanted an integer")
        return expression.fill_null(policy)


def _flat(expression: pl.Expr, leaf: pl.DataType, sizes: tuple[int, ...]) -> pl.Expr:
    """Lists of lists as lists of their values. A row with an inner list of another length is empty."""
    if len(sizes) == 1:
        return expression
    inner = _flat(pl.element(), leaf, sizes[1:])
    fits = expression.list.eval((inner.list.len() == math.prod(sizes[1:])).fill_null(False)).list.all()
    flat = expression.list.eval(inner.list.explode(empty_as_null=False))
    return pl.when(fits.fill_null(True)).then(flat).otherwise(pl.lit([], dtype=pl.List(leaf)))


def _check_width(spec: ColumnSchema) -> None:
    if spec.width == 0:
        raise DtypeError(f"column {spec.name!r} holds lists of length 0, which have no values to deliver; leave it out")


def _narrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"{dtype.kind}4") if dtype.itemsize == 8 else dtype


def refused(spec: ColumnSchema) -> DtypeError:
    """The error for a column that no tensor can hold exactly."""
    kind = f"list of {spec.dtype}" if spec.is_list else spec.dtype
    how = f"with Dataset(..., dtypes={{{spec.name!r}: 'float64'}})"
    if spec.is_list or spec.dtype.startswith(("list", "array", "struct")):
        how = "with Categorify" if "string" in spec.dtype else "with Expr"
    return DtypeError(
        f"column {spec.name!r} is {kind}, which no tensor holds exactly; leave it out, or turn it into numbers first, "
        f"for example {how}"
    )


def _polars(dtype: np.dtype[Any]) -> Any:
    """The Polars dtype of the same name: `uint8` is `UInt8`."""
    return pl.Boolean if dtype == np.dtype(bool) else getattr(pl, dtype.name.title().replace("Uint", "UInt"))
