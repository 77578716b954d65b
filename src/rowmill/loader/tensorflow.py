"""Batches as TensorFlow tensors: `KerasSequenceLoader`, which NVTabular's users know, and `Loader`, dicts of columns.

Both are datasets of `tf.keras`, which is Keras 3, or Keras 2 if `TF_USE_LEGACY_KERAS=1` says so. All are thin:
`_keras.loaders` has the settings, `_keras.keras_loader` what Keras calls, `rowmill.feed` does the rest. On import,
a GPU's memory is limited to what `TF_MEMORY_ALLOCATION` says.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError("rowmill.loader.tensorflow needs TensorFlow; pip install 'rowmill[tensorflow]'") from error

from rowmill.feed.memory.block import Matrix
from rowmill.loader._base.lists import ListFormat
from rowmill.loader._base.tensors import Tensors
from rowmill.loader._keras.feature_workflow import make_feature_column_workflow
from rowmill.loader._keras.loaders import BackendLoader, DictLoader, SequenceLoader
from rowmill.loader._keras.validater import validated
from rowmill.loader._tf.gpu_memory import limit_memory
from rowmill.loader._tf.tensors import FromGenerator, TfTensors
from rowmill.loader._tf.tf_dataset import as_dataset, of_matrices

__all__ = ["KerasSequenceLoader", "KerasSequenceValidater", "Loader", "make_feature_column_workflow"]

limit_memory(tf)  # the document's contract: before TensorFlow initialises, so when this is imported

_IS_LEGACY = not hasattr(tf.keras.utils, "PyDataset")


class TensorFlowBackend(BackendLoader):
    """Tensors of TensorFlow, for iteration, for Keras and for `tf.data`."""

    _REORDER_WINDOW = 16 if _IS_LEGACY else 0  # Keras 2 asks from a pool of threads if `fit` is given workers

    def _make(self, matrices: Sequence[Matrix], *, keep_dims: bool, device: Any) -> Tensors:
        self._fit_tensors = FromGenerator(matrices, keep_dims=keep_dims)
        return TfTensors(matrices, keep_dims=keep_dims, device=device)

    def _wants_column_major(self) -> bool:
        return True

    def _asked_in_main(self) -> bool:
        return bool(tf.keras.backend.backend() != "tensorflow")

    def __len__(self) -> int:
        if not _IS_LEGACY:
            return super().__len__()
        if threading.current_thread() is threading.main_thread():
            return self._left()
        return self.num_batches  # Keras 2 knows no other sign of a pass

    def to_tf_dataset(self) -> Any:
        """A `tf.data.Dataset` of the batches; each iteration of it is one epoch of this loader."""
        layout = self._format.selection.layout
        if self._stream.last == "short" and not self._has_functions and not layout.variable:
            keep_dims = isinstance(self, SequenceLoader)
            return of_matrices(
                lambda: self._stream.track(self._stream.batches()), self._format, self._left(), keep_dims=keep_dims
            )
        sample = self.peek()
        parts = 1 if len(sample) == 2 and sample[1] is None else len(sample)  # tf.data has no None

        def batches() -> Iterator[Any]:
            return (batch[:parts] for batch in self._stream.track(self._fit_batches()))

        constant = self._stream.last != "short" and not self._has_functions and not layout.ragged
        rows = self._stream.batch_size if constant else None
        return as_dataset(batches, sample[:parts], self._left(), rows=rows)


class KerasSequenceLoader(TensorFlowBackend, SequenceLoader, tf.keras.utils.Sequence):
    """Batches `(features, labels)` for `model.fit`: a dict of tensors `[N, 1]`, and labels `[N, 1]`.

    `paths_or_dataset`: files, a folder, a pattern or a `Dataset`. Columns are named by `feature_columns` (of
    `tf.feature_column`), or by `cat_names` and `cont_names`, or by the schema's tags. Ids are int64 (`index_dtype`),
    numbers and labels float32, strings `tf.string`. Lists of fixed length are `[N, width]`; other lists are
    `RaggedTensor`s, or `name__values` and `name__offsets` with `lists="offsets"`; those in `sparse_names` are sparse,
    or dense if `sparse_as_dense`, padded with zeros (with -1 for `feature_columns`, to which that is no id). Several
    labels are a tuple. With `last="pad"` all batches have the same size, and a third part weighs padding rows with 0.

    `buffer_size` is NVTabular's name of `memory`. `help(KerasSequenceLoader.__init__)` explains the settings.

    `loader[i]` is batch i of this epoch's plan. While Keras goes through an epoch the batches come in the plan's order,
    whatever order `fit` shuffles its indices to: see `_keras.keras_loader.KerasStream`.
    """

    def _lists(self) -> ListFormat:
        return "ragged"


class Loader(TensorFlowBackend, DictLoader, tf.keras.utils.Sequence):
    """Batches `(features, target)`: a dict of tensors `[N]`, each column in its own dtype and in the order given.

    List columns come as `name__values` and `name__offsets` (or `RaggedTensor`s, with `lists="ragged"`), lists of fixed
    length as `[N, length]`, strings as `tf.string`. A dataset of Keras as well: see `KerasSequenceLoader`.
    `help(Loader.__init__)` explains the settings.
    """


class KerasSequenceValidater(tf.keras.callbacks.Callback):
    """Evaluates the model on a loader after every epoch, and puts the results into the logs as `val_...`."""

    _supports_tf_logs = True

    def __init__(self, dataloader: Any) -> None:
        super().__init__()
        self.dataloader = dataloader

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> dict[str, Any]:
        return validated(self.model, self.dataloader, logs)
