"""Batches as NumPy arrays, for scikit-learn's `partial_fit` and for programs without a framework.

`Loader` is thin: it chooses columns and a batch format; `rowmill.feed` does the rest. `LoaderBase` is its other name,
by which Merlin's users know an array loader.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np

from rowmill.errors import ArgumentError, DtypeError
from rowmill.feed.memory.block import Batch
from rowmill.feed.order.plan import Last
from rowmill.feed.order.ranks import Ranks
from rowmill.feed.order.weighted_sampling import Weights
from rowmill.feed.pack.selection import Nulls
from rowmill.feed.run.stream import Shuffle, Stream
from rowmill.loader._base.arguments import Prepares, checked_transforms, given_ranks, last_batch, opened, transformed
from rowmill.loader._base.batch_formats import DictBatches
from rowmill.loader._base.declared_shapes import declared_shapes
from rowmill.loader._base.init_arguments import keep_arguments
from rowmill.loader._base.lists import Lists, checked_limits
from rowmill.loader._base.loader import Streamed
from rowmill.loader._base.narrow_columns import dict_arguments
from rowmill.loader._base.tensors import NumpyTensors
from rowmill.schema import Schema
from rowmill.store.cache.table_cache import open_cache

__all__ = ["Loader", "LoaderBase"]


class Loader(Streamed):
    """Batches `(features, target)`: a dict of arrays `[N]`, each column in its own dtype and in the order given.

    With `batch_format="matrix"` the features are one array `[N, D]` whose columns stand in the order of
    `feature_names`, as scikit-learn takes them. `device` is accepted for compatibility. The rest is as in
    `rowmill.loader.torch.Loader`.
    """

    @keep_arguments
    def __init__(
        self,
        dataset: Any,
        batch_size: int = 65_536,
        shuffle: Shuffle = False,
        seed_fn: Callable[[], int] | None = None,
        parts_per_chunk: int = 1,
        global_size: int | None = None,
        global_rank: int | None = None,
        drop_last: bool = False,
        transforms: Sequence[Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
        device: Any = None,
        *,
        columns: Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
        sample_weight: str | None = None,
        batch_format: Literal["dict", "matrix"] = "dict",
        seed: int = 0,
        memory: int | float | str = "auto",
        threads: int | None = None,
        nulls: Nulls = "error",
        pad: Mapping[str, int] | None = None,
        last: Last = "short",
        elastic: int | None = None,
        weights: Weights | None = None,
        balance: str | None = None,
        cache: str | PathLike[str] | None = None,
        cache_size: int | float | str | None = None,
        workflow: Prepares | None = None,
    ) -> None:
        table = opened(dataset, workflow)
        if batch_format not in ("dict", "matrix"):
            raise ArgumentError(f"batch_format={batch_format!r}; wanted 'dict' or 'matrix'")
        if device not in (None, "cpu") and not isinstance(device, int):  # a number is a GPU to Merlin
            raise ArgumentError(f"device={device!r}, but NumPy arrays are in the memory of the CPU; leave it out")
        last, shapes = last_batch(last, drop_last), declared_shapes(table)
        self._form = DictBatches(
            shapes, columns, targets, nulls=nulls, narrow=False, padded=last == "pad", weight=sample_weight
        )
        stream = Stream(
            table,
            self._form.selection,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            seed_fn=seed_fn,
            last=last,
            memory=memory,
            threads=threads,
            parts_per_chunk=parts_per_chunk,
            ranks=_ranks(global_size, global_rank),
            elastic=elastic,
            weights=weights,
            balance=balance,
            cache=open_cache(cache, cache_size),
            column_major=True,
        )
        self._open(table, stream)
        make = NumpyTensors(self._form.selection.layout.matrices, upright=False)
        limits = checked_limits(shapes.schema, None, None, True, pad, shapes.sizes)
        self._form.attach(make, Lists(limits, "offsets"))
        self._transforms = checked_transforms(transforms)
        self._input_schema = table.schema[self._form.columns]
        self.feature_names, self.target_names = self._form.feature_names, self._form.target_names
        self.batch_format = batch_format
        if batch_format == "matrix":
            self._check_matrix()

    def _check_matrix(self) -> None:
        layout = self._form.selection.layout
        if layout.objects:
            raise DtypeError(
                f"column {layout.objects[0]!r} holds text, and batch_format='matrix' holds numbers; encode it "
                f"(Categorify), or leave it out with columns="
            )
        if self._stream.last == "pad":
            raise ArgumentError(
                "last='pad' needs a place for its mask, and batch_format='matrix' has none; use batch_format='dict', "
                "or drop_last=True"
            )
        if ragged := self._form.offset_columns:
            raise DtypeError(
                f"column {ragged[0]!r} holds lists, and batch_format='matrix' holds one row of numbers for each row; "
                f"pad it with pad={{{ragged[0]!r}: ...}}, or leave it out with columns="
            )

    def _narrowing(self, schema: Schema) -> dict[str, Any]:
        return dict_arguments(schema, self.target_names, self._form.weight)

    def _tensors(self, batch: Batch) -> Any:
        features, *rest = self._form.tensors(batch)
        for transform in self._transforms:
            features = transformed(transform, features)
        if self.batch_format == "dict":
            return features, *rest
        arrays = [array[:, None] if array.ndim == 1 else array for array in features.values()]
        made = np.concatenate(arrays, axis=1)
        if made.dtype.kind == "f":
            _check_exact(features)
        return made, *rest


def _ranks(size: int | None, rank: int | None) -> Ranks:
    """As given, else as the process group of PyTorch has them when an epoch begins, where the program has one."""
    return _process_group if size is None and rank is None else given_ranks(size, rank)


def _process_group() -> tuple[int, int]:
    group = sys.modules.get("torch.distributed")  # PyTorch is not loaded for this
    if group is not None and group.is_available() and group.is_initialized():
        return group.get_world_size(), group.get_rank()
    return 1, 0


def _check_exact(features: Mapping[str, Any]) -> None:
    """Refuse integers that a matrix of floats cannot hold."""
    for name, array in features.items():
        if array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > 2**53:
            raise DtypeError(
                f"column {name!r} has integers beyond 2^53, which a matrix with floats does not hold exactly; encode "
                f"it (Categorify), or use batch_format='dict'"
            )


LoaderBase = Loader
