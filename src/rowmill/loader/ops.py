"""Operators on batches, for `transforms=`: vectors looked up by id, and lists padded to one length.

Each is a function from features to features, for the tensors of any framework; ids and vectors pass through NumPy.
`["id"] >> Padding(10) >> EmbeddingOperator(vectors)` is a list of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from rowmill._system.sizes import as_whole
from rowmill.errors import ArgumentError, ColumnError, closest
from rowmill.feed.memory.block import Array
from rowmill.loader._base.arguments import MASK, names_of
from rowmill.loader._base.lists import LIST_ENDINGS
from rowmill.schema import ColumnSchema, Schema, Tags

__all__ = ["EmbeddingOperator", "Padding"]

Features = Mapping[str, Any]
VALUES, OFFSETS = LIST_ENDINGS
_KEPT_TAGS = (Tags.LIST, Tags.SEQUENCE, Tags.USER, Tags.ITEM, Tags.CONTEXT, Tags.SESSION)  # of ids, for their vectors


class BatchOperators(list[Any]):
    """Operators in the order in which they are applied; `>>` adds one."""

    def __rshift__(self, operator: Any) -> BatchOperators:
        return BatchOperators([*self, operator])


class BatchOperator:
    """A function from features to features that also says which columns it makes."""

    def __call__(self, features: Features) -> dict[str, Any]:
        raise NotImplementedError

    def compute_output_schema(self, input_schema: Schema) -> Schema:
        """The columns of a batch after this operator."""
        raise NotImplementedError

    def __rrshift__(self, columns: Any) -> BatchOperators:
        return BatchOperators([self._on(names_of(columns))])

    def _on(self, columns: list[str]) -> BatchOperator:
        """The operator for these columns."""
        return self


@dataclass(frozen=True)
class Padding(BatchOperator):
    """List columns as tensors `[N, padding_size]`, filled up with `padding_value`. A longer list is an error.

    `["a"] >> Padding(5)` pads column a. In a list of transforms it pads every list column, or those of `columns`.
    A loader does the same with zeros by itself: `pad={"a": 5}`.
    """

    padding_size: int
    padding_value: float = 0
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(as_whole(self.padding_size), int) or self.padding_size < 1:
            raise ArgumentError(
                f"padding_size is {self.padding_size!r}; wanted the length of padded lists; name columns with columns="
            )

    def __call__(self, features: Features) -> dict[str, Any]:
        ragged = [name.removesuffix(OFFSETS) for name in features if name.endswith(OFFSETS)]
        wanted = set(ragged if self.columns is None else self.columns)
        if missing := sorted(wanted - set(ragged)):
            raise ColumnError(
                f"Padding of {missing[0]!r}, which comes as no values and offsets; wanted one of {ragged}"
                f"{closest(missing[0], ragged)}"
            )
        made: dict[str, Any] = {}
        for name, tensor in features.items():
            column = name.removesuffix(VALUES).removesuffix(OFFSETS)
            if column not in wanted or column == name:
                made[name] = tensor
            elif name.endswith(OFFSETS):
                values = features[column + VALUES]
                made[column] = _like(self._padded(column, _array(values), _array(tensor)), values)
        return made

    def _padded(self, column: str, values: Array, offsets: Array) -> Array:
        lengths = np.diff(offsets)
        if len(lengths) and lengths.max() > self.padding_size:
            raise ArgumentError(
                f"column {column!r} has a list of {lengths.max()} values, and padding_size is {self.padding_size}; "
                f"use a larger one, or cut the lists with ListSlice"
            )
        padded = np.full((len(lengths), self.padding_size), self.padding_value, values.dtype)
        padded[np.arange(self.padding_size) < lengths[:, None]] = values[offsets[0] : offsets[-1]]
        return padded

    def compute_output_schema(self, input_schema: Schema) -> Schema:
        wanted = [c.name for c in input_schema if c.is_list] if self.columns is None else self.columns
        shape = (None, self.padding_size)
        return Schema(c.with_shape(shape) if c.name in wanted else c for c in input_schema)

    def _on(self, columns: list[str]) -> Padding:
        return Padding(self.padding_size, self.padding_value, columns)


class EmbeddingOperator(BatchOperator):
    """Adds `embedding_name`: for each id of column `lookup_key` its row of `embeddings`.

    `embeddings`: a matrix with a row for each id, or the path of a `.npy` file; with `mmap` it stays on disk.
    `id_lookup_table`: the ids of its rows, numbers or strings, if they are not 0, 1, 2, ... (an array, or the path of a
    `.npy` file). `unknown_value`: what an id without a row gets, a number or a vector; by default it is an
    error.
    """

    def __init__(
        self,
        embeddings: Any,
        lookup_key: str = "id",
        embedding_name: str = "embeddings",
        id_lookup_table: Any = None,
        mmap: bool = False,
        unknown_value: Any = None,
    ) -> None:
        self.embeddings = _table(embeddings, mmap)
        if self.embeddings.ndim != 2:
            raise ArgumentError(f"embeddings have {self.embeddings.ndim} dimensions; wanted a matrix with a row per id")
        self.lookup_key, self.embedding_name = lookup_key, embedding_name
        self.unknown_value = None if unknown_value is None else np.asarray(unknown_value, self.embeddings.dtype)
        if self.unknown_value is not None and self.unknown_value.shape not in ((), self.embeddings.shape[1:]):
            raise ArgumentError(
                f"unknown_value has the shape {self.unknown_value.shape}, and a row of embeddings "
                f"{self.embeddings.shape[1:]}; pass a number or a vector of that length"
            )
        self._ids: Array | None = None
        if id_lookup_table is not None:
            ids = _comparable(np.ravel(_table(id_lookup_table, mmap)))
            if len(ids) != len(self.embeddings):
                raise ArgumentError(
                    f"id_lookup_table has {len(ids)} ids, and embeddings {len(self.embeddings)} rows; wanted an id for "
                    f"each row"
                )
            self._order = np.argsort(ids, kind="stable")
            self._ids = ids[self._order]

    def __call__(self, features: Features) -> dict[str, Any]:
        key, name = self.lookup_key, self.embedding_name
        if key in features:
            real = _array(features[MASK]) if MASK in features else None
            return {**features, name: self._vectors(features[key], real)}
        if key + VALUES not in features:
            raise ColumnError(f"lookup_key={key!r} is no feature{closest(key, list(features))}; wanted a column of ids")
        vectors = self._vectors(features[key + VALUES], None)
        return {**features, name + VALUES: vectors, name + OFFSETS: features[key + OFFSETS]}

    def _vectors(self, ids: Any, real: Array | None) -> Any:
        wanted = _array(ids)
        of_texts = self._ids is not None and self._ids.dtype.kind == "U"
        if wanted.dtype.kind not in ("OU" if of_texts else "iu"):
            kind = "strings, as id_lookup_table has" if of_texts else "whole numbers"
            raise ArgumentError(f"column {self.lookup_key!r} is {wanted.dtype}; wanted {kind} to look up")
        rows = self._rows(wanted)
        if real is not None:  # rows that only fill up the batch have no id
            rows = np.where(real.reshape(-1, *[1] * (rows.ndim - 1)), rows, np.maximum(rows, 0))
        unknown = rows < 0
        if self.unknown_value is None and unknown.any():
            raise ArgumentError(
                f"no row of embeddings for {self.lookup_key} {wanted[unknown][0]}; add one, pass unknown_value=0, or "
                f"leave its rows out"
            )
        vectors = np.ascontiguousarray(self.embeddings[rows])
        if unknown.any():
            vectors[unknown] = self.unknown_value
        return _like(vectors, ids)

    def _rows(self, wanted: Array) -> Array:
        """The rows of the ids; -1 where there is none."""
        if self._ids is None:
            return np.where((wanted >= 0) & (wanted < len(self.embeddings)), wanted, -1).astype(np.int64)
        if not len(self._ids):
            return np.full(wanted.shape, -1)
        # Of one type, or NumPy would compare integers as floats. Texts take the room of the longest.
        keys = wanted.astype(str if self._ids.dtype.kind == "U" else self._ids.dtype)
        place = np.minimum(np.searchsorted(self._ids, keys), len(self._ids) - 1)
        return np.where((self._ids[place] == keys) & (keys == wanted), self._order[place], -1)

    def compute_output_schema(self, input_schema: Schema) -> Schema:
        keys = input_schema[self.lookup_key]
        inner = keys.shape.dims[1:] if keys.is_list else ()
        shape = (None, *inner, self.embeddings.shape[1])
        tags = [Tags.EMBEDDING, *(tag for tag in _KEPT_TAGS if tag in keys.tags)]
        made = ColumnSchema(self.embedding_name, self.embeddings.dtype, tags, dims=shape)
        return input_schema + Schema([made])


def _table(given: Any, mmap: bool) -> Array:
    """A matrix, or the one in a file."""
    if isinstance(given, str | PathLike):
        loaded: Array = np.load(given, mmap_mode="r" if mmap else None)  # refuses pickles
        return loaded
    return _array(given)


def _comparable(ids: Array) -> Array:
    """Ids as integers, also if they were stored as floats, or as strings."""
    if ids.dtype.kind in "iuU":
        return ids
    if ids.dtype.kind == "O" and all(isinstance(each, str) for each in ids.tolist()):
        return ids.astype(str)
    if ids.dtype.kind != "f" or not (np.abs(ids) <= 2**53).all() or (ids % 1).any():
        raise ArgumentError(f"id_lookup_table is {ids.dtype}; wanted whole numbers or strings")
    return ids.astype(np.int64)


def _array(tensor: Any) -> Array:
    return np.asarray(tensor.cpu() if hasattr(tensor, "cpu") else tensor)


def _like(array: Array, tensor: Any) -> Any:
    """The array as a tensor of the kind of another, on its device."""
    framework = type(tensor).__module__.partition(".")[0]
    if framework == "torch":
        import torch

        return torch.from_numpy(array).to(tensor.device)
    if framework == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(array)
    if framework in ("jax", "jaxlib"):
        import jax.numpy as jnp

        return jnp.asarray(array)
    return array
