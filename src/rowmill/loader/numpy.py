"""Batches as NumPy arrays, for scikit-learn's `partial_fit` and for programs without a framework.

`Loader` is thin: it chooses columns and a batch format; `rowmill.feed` does the rest. `LoaderBase` is its other name,
by which Merlin's users know an array loader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Unpack

import numpy as np

from rowmill.errors import ArgumentError, DtypeError
from rowmill.feed.memory.block import Batch
from rowmill.feed.run.stream import Shuffle
from rowmill.loader._base.arguments import (
    given_ranks,
    last_batch,
    opened,
    torch_process_group,
)
from rowmill.loader._base.batch_formats import DictBatches
from rowmill.loader._base.declared_shapes import declared_shapes
from rowmill.loader._base.dict_loader import DictBatchLoader, Transforms
from rowmill.loader._base.init_arguments import with_options
from rowmill.loader._base.lists import Lists, checked_limits
from rowmill.loader._base.open_stream import open_stream
from rowmill.loader._base.options import DictOptions
from rowmill.loader._base.tensors import NumpyTensors

__all__ = ["Loader", "LoaderBase"]


class Loader(DictBatchLoader):
    """Batches `(features, target)`: a dict of arrays `[N]`, each column in its own dtype and in the order given.

    With `batch_format="matrix"` the features are one array `[N, D]` whose columns stand in the order of
    `feature_names`, as scikit-learn takes them. List columns come as `name__values` and `name__offsets`, strings as
    arrays of objects. `device` is accepted for compatibility. `help(Loader.__init__)` explains the settings.
    """

    @with_options()
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
        transforms: Transforms | None = None,
        device: Any = None,
        *,
        batch_format: Literal["dict", "matrix"] = "dict",
        **options: Unpack[DictOptions],
    ) -> None:
        table = opened(dataset, options["workflow"])
        if batch_format not in ("dict", "matrix"):
            raise ArgumentError(f"batch_format={batch_format!r}; wanted 'dict' or 'matrix'")
        if device not in (None, "cpu") and not isinstance(device, int):  # a number is a GPU to Merlin
            raise ArgumentError(f"device={device!r}, but NumPy arrays are in the memory of the CPU; leave it out")
        last, shapes = last_batch(options["last"], drop_last), declared_shapes(table)
        chosen = DictBatches(shapes, options, padded=last == "pad")
        stream = open_stream(
            table,
            chosen.selection,
            options,
            batch_size=batch_size,
            shuffle=shuffle,
            seed_fn=seed_fn,
            parts_per_chunk=parts_per_chunk,
            ranks=given_ranks(global_size, global_rank, torch_process_group),
            last=last,
            elastic=options["elastic"],
            column_major=True,
        )
        self._open(table, stream)
        make = NumpyTensors(chosen.selection.layout.matrices, keep_dims=False)
        self._deliver(chosen, make, Lists(checked_limits(shapes, options["pad"])), transforms)
        self.batch_format = batch_format
        if batch_format == "matrix":
            self._check_matrix()

    def _check_matrix(self) -> None:
        layout = self._format.selection.layout
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
        if ragged := self._format.offset_columns:
            raise DtypeError(
                f"column {ragged[0]!r} holds lists, and batch_format='matrix' holds one row of numbers for each row; "
                f"pad it with pad={{{ragged[0]!r}: ...}}, or leave it out with columns="
            )

    def _tensors(self, batch: Batch) -> Any:
        features, *rest = super()._tensors(batch)
        if self.batch_format == "dict":
            return features, *rest
        arrays = [array[:, None] if array.ndim == 1 else array for array in features.values()]
        made = np.concatenate(arrays, axis=1)
        if made.dtype.kind == "f":
            _check_exact(features)
        return made, *rest


def _check_exact(features: Mapping[str, Any]) -> None:
    """Refuse integers that a matrix of floats cannot hold."""
    for name, array in features.items():
        if array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > 2**53:
            raise DtypeError(
                f"column {name!r} has integers beyond 2^53, which a matrix with floats does not hold exactly; encode "
                f"it (Categorify), or use batch_format='dict'"
            )


LoaderBase = Loader
