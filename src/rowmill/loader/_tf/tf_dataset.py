"""A loader as a `tf.data.Dataset`: for `strategy.experimental_distribute_dataset`, and for people who live there.

Comes in: a loader of `rowmill.loader.tensorflow`. Goes out: a dataset of its batches with an exact `element_spec`. Each
iteration of the dataset is one epoch of the loader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from rowmill.feed.memory.block import Batch
from rowmill.feed.pack.transpose import Transposer
from rowmill.loader._tf.tensors import Unpacked


def as_dataset(batches: Callable[[], Iterator[Any]], sample: Any, length: int, *, rows: int | None) -> Any:
    """A dataset of batches like `sample`, `length` of them in an epoch; `rows` in each if that is always so."""
    spec = tf.nest.map_structure(lambda leaf: _spec(leaf, rows), sample)
    made = tf.data.Dataset.from_generator(batches, output_signature=spec)
    return made.apply(tf.data.experimental.assert_cardinality(length)).prefetch(2)


def of_matrices(batches: Callable[[], Iterator[Batch]], batch_format: Any, length: int, *, keep_dims: bool) -> Any:
    """A dataset of batches of numbers only: matrices come from Python, and columns are cut out of them in the graph."""
    matrices = batch_format.selection.layout.matrices
    transposer = Transposer(matrices)

    def transposed() -> Iterator[Any]:
        for batch in batches():
            arrays = transposer.of(batch)
            yield tuple(
                array if m.widths or not keep_dims else array[:, :, None]
                for m, array in zip(matrices, arrays, strict=True)
            )

    def columns(*tensors: Any) -> Any:
        features, target, *weight = batch_format.tensors(Batch(0, []), Unpacked(matrices, tensors))
        return (features,) if target is None and not weight else (features, target, *weight)

    wide = [None, 1] if keep_dims else [None]
    spec = tuple(
        tf.TensorSpec([None, m.width] if m.widths else [len(m.columns), *wide], tf.as_dtype(m.dtype)) for m in matrices
    )
    made = tf.data.Dataset.from_generator(transposed, output_signature=spec).map(columns)
    return made.apply(tf.data.experimental.assert_cardinality(length)).prefetch(2)


def _spec(leaf: Any, rows: int | None) -> Any:
    if isinstance(leaf, tf.RaggedTensor):
        return tf.RaggedTensorSpec([rows, None], leaf.dtype, ragged_rank=1, row_splits_dtype=leaf.row_splits.dtype)
    if isinstance(leaf, tf.sparse.SparseTensor):
        return tf.SparseTensorSpec([rows, leaf.shape[1]], leaf.dtype)
    return tf.TensorSpec([rows, *leaf.shape[1:]], leaf.dtype)
