"""`tf.feature_column` read as plain data: feature columns come in, frozen dataclasses and input names go out.

TensorFlow's columns are recognised by the names of their classes, so nothing of TensorFlow is imported, and the classes
below can be used without it. Called by the Keras loaders (which inputs?) and by `keras_layers` (what to do with them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rowmill.errors import ColumnError


@dataclass(frozen=True)
class Numeric:
    """Numbers as they are: one a row, or a fixed number of them."""

    name: str
    shape: tuple[int, ...] = (1,)
    normalizer: Any = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Bucketized:
    """The bucket in which a number falls; each of several numbers has buckets of its own."""

    source: Numeric
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.source.name}_bucketized"

    @property
    def buckets(self) -> int:
        return (len(self.boundaries) + 1) * self.source.size


@dataclass(frozen=True)
class Identity:
    """Ids from 0 to `buckets` - 1; `default` stands for any other."""

    name: str
    buckets: int
    default: int | None = None


@dataclass(frozen=True)
class Vocabulary:
    """Values of a list (or of a file) become their places in it."""

    name: str
    values: tuple[Any, ...]
    oov_buckets: int = 0
    default: int = -1
    path: str | None = None
    file_size: int = 0

    @property
    def buckets(self) -> int:
        return (self.file_size if self.path else len(self.values)) + self.oov_buckets


@dataclass(frozen=True)
class Hashed:
    """Values become the remainder of their hash."""

    name: str
    buckets: int


@dataclass(frozen=True)
class Crossed:
    """Combinations of several columns become the remainder of their hash."""

    keys: tuple[Any, ...]  # names, or columns of the classes above
    buckets: int

    @property
    def name(self) -> str:
        return "_X_".join(sorted(key if isinstance(key, str) else key.name for key in self.keys))


@dataclass(frozen=True)
class Weighted:
    """Ids with a weight each, from another column."""

    source: Identity | Vocabulary | Hashed | Crossed
    weight: str

    @property
    def name(self) -> str:
        return f"{self.source.name}_weighted_by_{self.weight}"

    @property
    def buckets(self) -> int:
        return self.source.buckets


@dataclass(frozen=True)
class Embedding:
    """A learned vector for each id."""

    source: Any
    dimension: int
    combiner: str = "mean"

    @property
    def name(self) -> str:
        return f"{self.source.name}_embedding"


@dataclass(frozen=True)
class Indicator:
    """A one for the id, zeros for all others."""

    source: Any

    @property
    def name(self) -> str:
        return f"{self.source.name}_indicator"


Column = Numeric | Bucketized | Identity | Vocabulary | Hashed | Crossed | Weighted | Embedding | Indicator


@dataclass(frozen=True)
class Inputs:
    """What a set of feature columns reads: names in lexicographic order, and the shapes of the numeric ones."""

    cats: tuple[str, ...]
    conts: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]


def parse(columns: Iterable[Any] | Mapping[str, Any]) -> list[Column]:
    """Feature columns, TensorFlow's or ours, as ours."""
    if isinstance(columns, Mapping):
        columns = columns.values()
    if isinstance(columns, str) or not isinstance(columns, Iterable) or hasattr(columns, "_fields"):
        raise ColumnError(f"feature_columns is {type(columns).__name__}; wanted a list of tf.feature_column columns")
    return [_parsed(column) for column in columns]


def described(column: Column) -> dict[str, Any]:
    """A column as JSON data, for a saved layer; `parse` takes it back."""
    found: dict[str, Any] = {"kind": type(column).__name__}
    for field in fields(column):
        value = getattr(column, field.name)
        if callable(value):
            raise ColumnError(
                f"column {column.name!r} has a normalizer, and a function cannot be saved with a layer; normalize in "
                f"the table (Normalize in a Workflow) or in a layer of its own"
            )
        found[field.name] = described(value) if isinstance(value, Column) else value
    return found


def _from_description(given: Mapping[str, Any]) -> Column:
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (Numeric, Bucketized, Identity, Embedding, Indicator)}
    kind = kinds.get(str(given.get("kind")))
    if kind is None:
        raise ColumnError(f"found {given.get('kind')!r} among feature_columns; wanted one of {sorted(kinds)}")
    values = {
        name: _from_description(value) if isinstance(value, Mapping) else tuple(value) if name in _TUPLES else value
        for name, value in given.items()
        if name != "kind"
    }
    made: Column = kind(**values)
    return made


_TUPLES = ("shape", "boundaries")


def inputs(columns: Iterable[Column]) -> Inputs:
    """The columns of the table that these read: categorical ones and others."""
    cats: set[str] = set()
    shapes: dict[str, tuple[int, ...]] = {}
    for column in columns:
        for name, shape in _leaves(column):
            if shape is None:
                cats.add(name)
            else:
                shapes[name] = shape
    if both := cats & shapes.keys():
        raise ColumnError(
            f"feature_columns use {min(both)!r} as a category and as a number; wanted one of the two: copy the column "
            f"under another name"
        )
    return Inputs(tuple(sorted(cats)), tuple(sorted(shapes)), shapes)


def _leaves(column: Any) -> Iterator[tuple[str, tuple[int, ...] | None]]:
    """Names and shapes; the shape of a categorical input is None."""
    if isinstance(column, str):
        yield column, None
    elif isinstance(column, Numeric):
        yield column.name, column.shape
    elif isinstance(column, Crossed):
        for key in column.keys:
            yield from _leaves(key)
    elif isinstance(column, Weighted):
        yield from _leaves(column.source)
        yield column.weight, (1,)
    elif isinstance(column, Embedding | Indicator | Bucketized):
        yield from _leaves(column.source)
    else:
        yield column.name, None


def _parsed(column: Any) -> Column:
    if isinstance(column, Column):
        return column
    if isinstance(column, Mapping):
        return _from_description(column)
    read = _READERS.get(type(column).__name__)
    if read is None:
        raise ColumnError(
            f"found {type(column).__name__} among feature_columns; wanted columns of tf.feature_column: numeric, "
            f"bucketized, identity, vocabulary, hashed, crossed, weighted, embedding or indicator"
        )
    return read(column)


def _crossed(column: Any) -> Crossed:
    keys = tuple(key if isinstance(key, str) else _parsed(key) for key in column.keys)
    return Crossed(keys, int(column.hash_bucket_size))


def _numeric(column: Any) -> Numeric:
    return Numeric(column.key, tuple(int(size) for size in column.shape), column.normalizer_fn)


def _bucketized(column: Any) -> Bucketized:
    return Bucketized(_numeric(column.source_column), tuple(float(edge) for edge in column.boundaries))


def _vocabulary_list(column: Any) -> Vocabulary:
    return Vocabulary(column.key, tuple(column.vocabulary_list), int(column.num_oov_buckets), int(column.default_value))


def _vocabulary_file(column: Any) -> Vocabulary:
    default = -1 if column.default_value is None else int(column.default_value)
    path, size = str(column.vocabulary_file), int(column.vocabulary_size)
    return Vocabulary(column.key, (), int(column.num_oov_buckets), default, path, size)


_READERS: dict[str, Callable[[Any], Column]] = {
    "NumericColumn": _numeric,
    "BucketizedColumn": _bucketized,
    "IdentityCategoricalColumn": lambda c: Identity(c.key, int(c.number_buckets), c.default_value),
    "VocabularyListCategoricalColumn": _vocabulary_list,
    "VocabularyFileCategoricalColumn": _vocabulary_file,
    "HashedCategoricalColumn": lambda c: Hashed(c.key, int(c.hash_bucket_size)),
    "CrossedColumn": _crossed,
    "WeightedCategoricalColumn": lambda c: Weighted(_parsed(c.categorical_column), c.weight_feature_key),  # type: ignore[arg-type]
    "EmbeddingColumn": lambda c: Embedding(_parsed(c.categorical_column), int(c.dimension), str(c.combiner)),
    "IndicatorColumn": lambda c: Indicator(_parsed(c.categorical_column)),
}
