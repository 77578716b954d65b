"""The base class of loaders whose batch is a dict: the batch format, transforms, and fewer columns.

Comes in: a `DictBatches` and the framework's `Tensors`. Goes out: batches `(features, target)` or `(features, target,
weight)`. Mixed into the `Loader` of each framework.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowmill.feed.memory.block import Batch
from rowmill.loader._base.arguments import checked_transforms, transformed
from rowmill.loader._base.batch_formats import DictBatches
from rowmill.loader._base.lists import Lists
from rowmill.loader._base.loader import Streamed
from rowmill.loader._base.narrow_columns import dict_arguments
from rowmill.loader._base.tensors import Tensors
from rowmill.schema import Schema

Transforms = Sequence[Callable[[dict[str, Any]], dict[str, Any]]]


class DictBatchLoader(Streamed):
    """A loader whose batch is a dict of features, and a target."""

    _format: DictBatches
    feature_names: list[str]
    target_names: list[str]

    def _deliver(self, batch_format: DictBatches, make: Tensors, lists: Lists, transforms: Transforms | None) -> None:
        """Say what batches are made of and how. Called by constructors, when the stream is open."""
        batch_format.attach(make, lists)
        self._format, self._transforms = batch_format, checked_transforms(transforms)
        self._input_schema = self.dataset.schema[batch_format.columns]
        self.feature_names, self.target_names = batch_format.feature_names, batch_format.target_names

    def _narrowing(self, schema: Schema) -> dict[str, Any]:
        return dict_arguments(schema, self.target_names, self._format.weight)

    def _tensors(self, batch: Batch) -> Any:
        features, *rest = self._format.tensors(batch)
        for transform in self._transforms:
            features = transformed(transform, features)
        return features, *rest
