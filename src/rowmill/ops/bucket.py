"""Values to a fixed number of bins: Bucketize by boundaries, HashBucket and HashedCross by hash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import ArgumentError, ColumnError, DtypeError, closest
from rowmill.graph.operator import Call, Fitted, Inputs, Operator, Output, Value, numeric, one_per_column
from rowmill.ops._parts.columns import per_column, retagged, whole_number
from rowmill.ops.embedding import embedding_size
from rowmill.schema import ColumnSchema, Tags
from rowmill.statistics.values import hashes, over_leaves

Boundaries = Sequence[float] | Mapping[str, Sequence[float]] | Callable[[str], Sequence[float]]


@dataclass(frozen=True, eq=False)
class Bucketize(Operator):
    """The number of boundaries that a value reaches: `x >= b` counts. Null and NaN reach them all.

    `boundaries`: a list for all columns, a dict by column, or a function of the column's name.
    """

    boundaries: Boundaries

    def __post_init__(self) -> None:
        if not isinstance(self.boundaries, list | tuple | Mapping) and not callable(self.boundaries):
            raise DtypeError(
                f"boundaries is {type(self.boundaries).__name__}; wanted a list, a dict by column, or a function"
            )

    def settings(self) -> dict[str, Any]:
        given = self.boundaries
        if isinstance(given, Mapping):
            return {"boundaries": {name: [float(b) for b in found] for name, found in given.items()}}
        return {"boundaries": given if callable(given) else [float(b) for b in given]}

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        return one_per_column(inputs, self._binned)

    def _edges(self, name: str) -> NDArray[np.float64]:
        given = self.boundaries
        if isinstance(given, Mapping):
            if name not in given:
                raise ColumnError(f"no boundaries for column {name!r}{closest(name, given)}")
            return _sorted(given[name])
        return _sorted(given(name)) if callable(given) else self._shared

    @cached_property
    def _shared(self) -> NDArray[np.float64]:
        """The boundaries of all columns."""
        assert isinstance(self.boundaries, Sequence)
        return _sorted(self.boundaries)

    def _binned(self, column: ColumnSchema, value: pl.Expr) -> tuple[ColumnSchema, Value]:
        edges = self._edges(numeric(column, self).name)
        made = _sized(column, len(edges) + 1).with_dtype("int32")

        def bins(leaves: pl.Series) -> pl.Series:
            numbers = leaves.cast(pl.Float64).fill_null(float("nan")).to_numpy()
            return pl.Series(leaves.name, np.digitize(numbers, edges).astype(np.int32))

        return made, Call(lambda given: over_leaves(given[0], bins), {column.name: value}, self.label)


def _sorted(boundaries: Sequence[float]) -> NDArray[np.float64]:
    return np.array(sorted(map(float, boundaries)))


@dataclass(frozen=True, eq=False)
class HashBucket(Operator):
    """The hash of a value, modulo `num_buckets`: one number, or a dict by column (others stay as they are).

    The hash depends on the value alone, is the same on every machine, and does not change between versions.
    """

    num_buckets: int | Mapping[str, int]

    def __post_init__(self) -> None:
        _check_buckets(self.num_buckets)

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        wanted = per_column(self.num_buckets, inputs.schema, "num_buckets")

        def made(column: ColumnSchema, value: pl.Expr) -> tuple[ColumnSchema, Value]:
            if column.name not in wanted:
                return column, value
            buckets, column = wanted[column.name], column.as_list()

            def hashed(given: list[pl.Series]) -> pl.Series:
                return over_leaves(given[0], lambda leaves: _bucket([leaves], buckets))

            return _sized(column, buckets).with_dtype("int32"), Call(hashed, {column.name: value}, self.label)

        return one_per_column(inputs, made)


@dataclass(frozen=True, eq=False)
class HashedCross(Operator):
    """The combination of columns, hashed into `num_buckets`: a column `a_X_b` for each group.

    Plain names are one cross of all of them. `num_buckets`: a number, or a dict by tuple of names.
    """

    num_buckets: int | Mapping[tuple[str, ...], int]

    def __post_init__(self) -> None:
        _check_buckets(self.num_buckets)

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        groups = [group for group in inputs.groups if isinstance(group, tuple)]
        plain = tuple(name for name in inputs.groups if isinstance(name, str))
        for group in [*groups, *([plain] if plain else [])]:
            if len(group) < 2:
                raise ArgumentError(f"HashedCross got {group}; wanted at least two columns to cross")
            buckets = self._buckets(group)
            column = ColumnSchema("_X_".join(group), "int32")
            given = {name: inputs[name] for name in group}
            yield Output(_sized(column, buckets), Call(partial(_bucket, buckets=buckets), given, self.label))

    def _buckets(self, group: tuple[str, ...]) -> int:
        if not isinstance(self.num_buckets, Mapping):
            return self.num_buckets
        if group not in self.num_buckets:
            raise ColumnError(f"num_buckets has no entry for {group}; wanted one for each group of columns")
        return self.num_buckets[group]


def _check_buckets(given: Any) -> None:
    if isinstance(given, bool) or not isinstance(given, int | Mapping):
        raise DtypeError(f"num_buckets is {given!r}; wanted a whole number, or a dict of them")
    for value in given.values() if isinstance(given, Mapping) else [given]:
        if whole_number(value, "num_buckets", 1) >= 1 << 31:
            raise ArgumentError(f"num_buckets is {value}; wanted less than 2**31, as buckets are int32")


def _sized(column: ColumnSchema, buckets: int) -> ColumnSchema:
    """The column as a categorical one with this number of codes."""
    sizes = {"cardinality": buckets, "dimension": embedding_size(buckets)}
    domain = {"min": 0, "max": buckets - 1}
    return retagged(column, Tags.CATEGORICAL).with_properties({"domain": domain, "embedding_sizes": sizes})


def _bucket(columns: list[pl.Series], buckets: int) -> pl.Series:
    return pl.Series(columns[0].name, (hashes(columns) % np.uint64(buckets)).astype(np.int32))
