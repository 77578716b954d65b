"""Feature columns that transform, as a workflow: what `tf.feature_column` would do in the model is done before it.

Feature columns come in; a `Workflow` and columns that only name its outputs go out. Called by users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rowmill.errors import ColumnError
from rowmill.graph.node import Node, select
from rowmill.loader.feature_columns import (
    Bucketized,
    Column,
    Crossed,
    Embedding,
    Hashed,
    Identity,
    Indicator,
    Numeric,
    Vocabulary,
    Weighted,
    parse,
)
from rowmill.ops import Bucketize, Categorify, HashBucket, HashedCross, Rename
from rowmill.workflow import Workflow

_RESERVED = 3  # of Categorify: padding, null, unseen


def make_feature_column_workflow(
    feature_columns: Iterable[Any] | Mapping[str, Any],
    label_name: str | Sequence[str],
    category_dir: Any = None,
) -> tuple[Workflow, list[Column]]:
    """A workflow that buckets, looks up, hashes and crosses as the columns say, and columns for what comes out.

    The new columns are numbers and ids as they are, and embeddings and indicators of them; loaders and
    `rowmill.loader.keras_layers` take them. `category_dir`: where to write vocabularies, if anywhere. Ids of a
    vocabulary begin at 3, after padding, null and unseen values.
    """
    made = _Made(category_dir)
    columns = [made.column(column) for column in parse(feature_columns)]
    labels = [label_name] if isinstance(label_name, str) else list(label_name)
    node: Node = select(labels)
    for name, part in made.nodes.items():
        if name not in labels:
            node = part + node
    return Workflow(node), columns


class _Made:
    """The outputs of the workflow so far, each with the node that makes it."""

    def __init__(self, category_dir: Any) -> None:
        self.nodes: dict[str, Node] = {}
        self._kinds: dict[str, Any] = {}
        self._folder = category_dir

    def column(self, column: Column) -> Column:
        """The column that stands for this one once the workflow has run."""
        if isinstance(column, Embedding):
            return Embedding(self._ids(column.source), column.dimension, column.combiner)
        if isinstance(column, Indicator):
            return Indicator(self._ids(column.source))
        if isinstance(column, Bucketized):
            return Indicator(self._ids(column))
        if isinstance(column, Numeric):
            self._add(column.name, column, select([column.name]))
            return column
        if isinstance(column, Weighted):
            raise ColumnError(
                f"{column.name!r} is weighted, which no workflow can do; wanted other columns; leave it out"
            )
        return self._ids(column)

    def _ids(self, column: Any) -> Identity:
        if isinstance(column, Identity):
            self._add(column.name, column, select([column.name]))
            return column
        if isinstance(column, Bucketized):
            if column.source.size != 1:
                raise ColumnError(f"{column.name!r} buckets {column.source.size} numbers a row; wanted one")
            made = select([column.source.name]) >> Bucketize(list(column.boundaries)) >> Rename(name=column.name)
            return self._identity(column.name, column, made, len(column.boundaries) + 1)
        if isinstance(column, Vocabulary):
            values = _values(column)
            encode = Categorify(
                vocabs={column.name: values}, num_buckets=column.oov_buckets or None, out_path=self._folder
            )
            size = _RESERVED - 1 + max(1, column.oov_buckets) + len(values)
            return self._identity(column.name, column, select([column.name]) >> encode, size)
        if isinstance(column, Hashed):
            node = select([column.name]) >> HashBucket(column.buckets)
            return self._identity(column.name, column, node, column.buckets)
        if isinstance(column, Crossed):
            return self._crossed(column)
        raise ColumnError(f"{column.name!r} cannot be made by a workflow; leave it out")

    def _crossed(self, column: Crossed) -> Identity:
        names, node = [], None
        for key in column.keys:
            if isinstance(key, Bucketized):
                part = select([key.source.name]) >> Bucketize(list(key.boundaries)) >> Rename(name=key.name)
            elif isinstance(key, str | Identity):
                part = select([key if isinstance(key, str) else key.name])
            else:
                raise ColumnError(f"{column.name!r} crosses {key.name!r}; wanted names, identity or bucketized columns")
            names.append(key if isinstance(key, str) else key.name)
            node = part if node is None else node + part
        assert node is not None
        crossed = node[[tuple(names)]] >> HashedCross(column.buckets)
        return self._identity("_X_".join(names), column, crossed, column.buckets)

    def _identity(self, name: str, column: Any, node: Node, size: int) -> Identity:
        self._add(name, column, node)
        return Identity(name, size)

    def _add(self, name: str, column: Any, node: Node) -> None:
        known = self._kinds.setdefault(name, column)
        if known != column:
            raise ColumnError(f"{name!r} is used in two ways: {known} and {column}; copy the column under another name")
        self.nodes.setdefault(name, node)


def _values(column: Vocabulary) -> list[Any]:
    if column.path is None:
        return list(column.values)
    return Path(column.path).read_text().splitlines()[: column.file_size]
