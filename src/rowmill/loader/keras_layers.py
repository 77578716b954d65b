"""Keras layers for feature columns, on any backend: what `tf.keras.layers.DenseFeatures` was, and a linear one.

A dict of inputs `[N, 1]` comes in (as `KerasSequenceLoader` gives it), one tensor goes out. Used in models by people.
Columns that have to be looked up in a table of strings or hashed are to be transformed before they come to a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

try:
    import keras
    from keras import ops
except ImportError as error:
    is_there = error.name not in (None, "keras")
    needs = f"{error.name}, the backend in KERAS_BACKEND" if is_there else "Keras 3"
    raise ImportError(
        f"rowmill.loader.keras_layers needs {needs}; pip install 'rowmill[keras]' and a backend"
    ) from error

from rowmill.errors import ArgumentError, ColumnError, closest
from rowmill.loader import feature_columns as fc

__all__ = ["DenseFeatures", "LinearFeatures"]


class Features(keras.layers.Layer):
    """What the two layers share: the columns in the order of their names, and their inputs."""

    def __init__(self, feature_columns: Iterable[Any], *, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.columns = sorted(fc.parse(feature_columns), key=lambda column: column.name)
        self.inputs = fc.inputs(self.columns)

    def get_config(self) -> dict[str, Any]:
        """What a saved model keeps of the layer besides its weights."""
        return {**super().get_config(), "feature_columns": [fc.described(column) for column in self.columns]}

    def compute_output_shape(self, input_shape: Mapping[str, Any]) -> tuple[Any, ...]:
        first = next(iter(input_shape.values()))
        return (first[0], *self._output_sizes())

    def _output_sizes(self) -> tuple[int, ...]:
        raise NotImplementedError


@keras.saving.register_keras_serializable("rowmill")
class DenseFeatures(Features):
    """The columns side by side: numbers as they are, embeddings, one-hot indicators and buckets.

    `aggregation="concat"` gives `[N, sum of sizes]`, `"stack"` gives `[N, columns, size]` of columns of one size. Ids
    below 0 count for nothing, so lists may be padded with -1; several ids a row are combined as the column says.
    """

    def __init__(
        self,
        feature_columns: Iterable[Any],
        aggregation: str = "concat",
        *,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(feature_columns, name=name, **kwargs)
        if aggregation not in ("concat", "stack"):
            raise ArgumentError(f"aggregation={aggregation!r}; wanted 'concat' or 'stack'")
        self.aggregation = aggregation
        self.sizes = [_dense_size(column) for column in self.columns]
        if aggregation == "stack" and len(set(self.sizes)) > 1:
            raise ArgumentError(f"aggregation='stack' of columns of sizes {sorted(set(self.sizes))}; wanted one size")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "aggregation": self.aggregation}

    def build(self, input_shape: Mapping[str, Any]) -> None:
        self.tables = {}
        for column in self.columns:
            if isinstance(column, fc.Embedding):
                start = keras.initializers.TruncatedNormal(stddev=column.dimension**-0.5)
                shape = (column.source.buckets, column.dimension)
                self.tables[column.name] = self.add_weight(shape=shape, initializer=start, name=column.name)
        self.built = True

    def call(self, inputs: Mapping[str, Any]) -> Any:
        parts = [self._part(column, inputs) for column in self.columns]
        return ops.concatenate(parts, axis=-1) if self.aggregation == "concat" else ops.stack(parts, axis=1)

    def _part(self, column: Any, inputs: Mapping[str, Any]) -> Any:
        if isinstance(column, fc.Numeric):
            return _numbers(column, inputs)
        if isinstance(column, fc.Bucketized):
            return _one_hot(_ids(column, inputs), column.buckets)
        ids = _ids(column.source, inputs)
        if isinstance(column, fc.Indicator):
            return _one_hot(ids, column.source.buckets)
        real = ops.cast(ids >= 0, self.compute_dtype)[..., None]
        vectors = ops.take(self.tables[column.name], ops.maximum(ids, 0), axis=0) * real
        if ids.shape[-1] == 1:
            return vectors[:, 0]
        total, count = ops.sum(vectors, axis=1), ops.maximum(ops.sum(real, axis=1), 1)
        return total / {"sum": 1.0, "mean": count, "sqrtn": ops.sqrt(count)}[column.combiner]

    def _output_sizes(self) -> tuple[int, ...]:
        return (sum(self.sizes),) if self.aggregation == "concat" else (len(self.sizes), self.sizes[0])


@keras.saving.register_keras_serializable("rowmill")
class LinearFeatures(Features):
    """A weight for each id, bucket or number, all 0 at first, summed up with a bias: `[N, 1]`."""

    def __init__(self, feature_columns: Iterable[Any], *, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(feature_columns, name=name, **kwargs)
        for column in self.columns:
            if not isinstance(column, fc.Numeric | fc.Identity | fc.Bucketized):
                raise ColumnError(f"{_kind(column)} in LinearFeatures; wanted numeric, bucketized or identity columns")

    def build(self, input_shape: Mapping[str, Any]) -> None:
        self.tables = {}
        for column in self.columns:
            assert isinstance(column, fc.Numeric | fc.Identity | fc.Bucketized)
            size = column.size if isinstance(column, fc.Numeric) else column.buckets
            self.tables[column.name] = self.add_weight(shape=(size, 1), initializer="zeros", name=column.name)
        self.bias = self.add_weight(shape=(1,), initializer="zeros", name="bias")
        self.built = True

    def call(self, inputs: Mapping[str, Any]) -> Any:
        total = self.bias
        for column in self.columns:
            table = self.tables[column.name]
            if isinstance(column, fc.Numeric):
                total = total + ops.matmul(_numbers(column, inputs), table)
            else:
                ids = _ids(column, inputs)
                real = ops.cast(ids >= 0, self.compute_dtype)[..., None]
                total = total + ops.sum(ops.take(table, ops.maximum(ids, 0), axis=0) * real, axis=1)
        return total

    def _output_sizes(self) -> tuple[int, ...]:
        return (1,)


def _dense_size(column: Any) -> int:
    if isinstance(column, fc.Numeric):
        return column.size
    if isinstance(column, fc.Bucketized):
        return column.buckets
    if isinstance(column, fc.Embedding | fc.Indicator):
        if not isinstance(column.source, fc.Identity | fc.Bucketized):
            raise ColumnError(
                f"{_kind(column)} over {_kind(column.source)} in DenseFeatures; wanted one over identity or bucketized "
                f"columns: transform the table first, so that the column holds ids"
            )
        return column.dimension if isinstance(column, fc.Embedding) else column.source.buckets
    raise ColumnError(f"{_kind(column)} in DenseFeatures; wrap it in an embedding_column or an indicator_column")


def _kind(column: Any) -> str:
    return f"{type(column).__name__.lower()} column {column.name!r}"


def _input(name: str, inputs: Mapping[str, Any]) -> Any:
    if name not in inputs:
        raise ColumnError(f"no input {name!r} among the {len(inputs)} given{closest(name, inputs)}")
    found = inputs[name]
    if hasattr(found, "to_tensor"):  # a RaggedTensor
        found = found.to_tensor(-1)
    return found[:, None] if len(found.shape) == 1 else found


def _numbers(column: fc.Numeric, inputs: Mapping[str, Any]) -> Any:
    found = ops.cast(ops.reshape(_input(column.name, inputs), (-1, column.size)), "float32")
    return found if column.normalizer is None else column.normalizer(found)


def _ids(column: Any, inputs: Mapping[str, Any]) -> Any:
    """Ids `[N, K]`; whatever is not one is the column's default, or negative."""
    if isinstance(column, fc.Bucketized):
        edges = ops.convert_to_tensor(column.boundaries, dtype="float32")
        numbers = _numbers(column.source, inputs)
        first = ops.arange(column.source.size, dtype="int32") * (len(column.boundaries) + 1)
        return ops.sum(ops.cast(numbers[..., None] >= edges, "int32"), axis=-1) + first
    found = ops.cast(_input(column.name, inputs), "int32" if column.buckets < 2**31 else "int64")
    if column.default is None:
        return found
    return ops.where((found < 0) | (found >= column.buckets), column.default, found)


def _one_hot(ids: Any, size: int) -> Any:
    if ids.shape[-1] == 1:
        return ops.one_hot(ids[:, 0], size)
    return ops.sum(ops.one_hot(ids, size), axis=1)
