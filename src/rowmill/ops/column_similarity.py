"""How alike two rows of features are: ColumnSimilarity of pairs of ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from rowmill import _native
from rowmill.errors import ArgumentError
from rowmill.graph.operator import Call, Fitted, Inputs, Operator, Output
from rowmill.schema import ColumnSchema, Tags

Sparse = tuple[Any, Any, Any]  # row starts, columns, values, as in a CSR matrix


@dataclass(frozen=True, eq=False)
class ColumnSimilarity(Operator):
    """For each pair of id columns (a, b): how alike row a of `left_features` and row b of `right_features` are.

    Features: a SciPy sparse matrix, a dense array, or (row starts, columns, values); right ones are the left ones by
    default. `metric`: "tfidf" (cosine of rows weighted by log(N / how many rows have the feature)), "cosine", "inner".
    The column is `{a}_{b}_sim`. An id without a row has similarity 0. `on_device` means nothing here.
    """

    left_features: Any
    right_features: Any = None
    metric: str = "tfidf"
    on_device: bool = True

    def __post_init__(self) -> None:
        if self.metric not in ("tfidf", "cosine", "inner"):
            raise ArgumentError(f"metric is {self.metric!r}; wanted 'tfidf', 'cosine' or 'inner'")
        object.__setattr__(self, "left_features", _sparse(self.left_features))
        if self.right_features is not None:
            object.__setattr__(self, "right_features", _sparse(self.right_features))

    @cached_property
    def _sides(self) -> tuple[Sparse, Sparse]:
        left = _weighted(self.left_features, self.metric)
        return left, left if self.right_features is None else _weighted(self.right_features, self.metric)

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        for group in inputs.groups:
            if isinstance(group, str) or len(group) != 2:
                raise ArgumentError(f"ColumnSimilarity got {group!r}; wanted pairs of columns: [('a', 'b')]")
            a, b = group
            column = ColumnSchema(f"{a}_{b}_sim", "float64", frozenset({Tags.CONTINUOUS}))
            given = {"left": inputs[a], "right": inputs[b]}
            yield Output(column, Call(self._compared, given, self.label))

    def _compared(self, given: list[pl.Series]) -> pl.Series:
        left, right = (side.cast(pl.Int64).fill_null(-1).to_numpy() for side in given)
        alike = np.empty(len(left))
        a, b = self._sides
        _native.dot_rows(left, right, *a, *b, alike)
        return pl.Series("sim", alike)


def _sparse(given: Any) -> Sparse:
    """Features as row starts, columns in ascending order, and values."""
    if isinstance(given, tuple | list) and len(given) == 3:
        starts, columns, values = (np.asarray(part) for part in given)
    elif hasattr(given, "tocsr"):
        matrix = given.tocsr().copy()
        matrix.sum_duplicates()
        starts, columns, values = matrix.indptr, matrix.indices, matrix.data
    else:
        dense = np.asarray(given, np.float64)
        if dense.ndim != 2:
            raise ArgumentError(f"features have {dense.ndim} dimensions; wanted a matrix with a row for each id")
        rows, columns = np.nonzero(dense)
        values = dense[rows, columns]
        starts = np.searchsorted(rows, np.arange(len(dense) + 1))
    checked = starts.astype(np.int64), columns.astype(np.int64), values.astype(np.float64)
    _check_sparse(*checked)
    return checked


def _check_sparse(starts: Any, columns: Any, values: Any) -> None:
    """Refuse row starts that lead outside of the values: the kernel that reads them does not look."""
    flat = starts.ndim == columns.ndim == values.ndim == 1
    if not flat or len(columns) != len(values) or not len(starts) or starts[0] != 0 or starts[-1] != len(values):
        raise ArgumentError("features have row starts that do not fit their values; give the parts of a CSR matrix")
    if (np.diff(starts) < 0).any() or (len(columns) and columns.min() < 0):
        raise ArgumentError("features have descending row starts or negative columns; give the parts of a CSR matrix")


def _weighted(features: Sparse, metric: str) -> Sparse:
    starts, columns, values = features
    if metric == "inner" or not len(values):
        return features
    if metric == "tfidf":
        rows = len(starts) - 1
        _, place, count = np.unique(columns, return_inverse=True, return_counts=True)
        values = values * np.log(rows / count)[place]
    length = np.sqrt(np.add.reduceat(np.append(values * values, 0.0), starts[:-1].clip(max=len(values))))
    length[np.diff(starts) == 0] = 0.0
    norm = np.repeat(np.where(length > 0, length, 1.0), np.diff(starts))
    return starts, columns, values / norm
