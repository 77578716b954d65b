"""Batches for Keras 3 on any of its backends: tensors of the backend in use, and TensorFlow only if that is the one.

`KerasSequenceLoader` and `KerasSequenceValidater` are what NVTabular's users know; `Loader` gives dicts of columns. All
are thin: `_keras.loaders` has the settings, `_keras.keras_loader` what Keras calls, `rowmill.feed` does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    import keras
except ImportError as error:
    is_there = error.name not in (None, "keras")
    needs = f"{error.name}, the backend in KERAS_BACKEND" if is_there else "Keras 3"
    raise ImportError(f"rowmill.loader.keras needs {needs}; pip install 'rowmill[keras]' and a backend") from error

from rowmill.errors import DtypeError
from rowmill.feed.memory.block import Matrix
from rowmill.loader._base.lists import ListFormat
from rowmill.loader._base.tensors import NumpyTensors, Tensors
from rowmill.loader._keras.feature_workflow import make_feature_column_workflow
from rowmill.loader._keras.grow_embedding import grow_embedding, grow_embeddings
from rowmill.loader._keras.loaders import BackendLoader, DictLoader, SequenceLoader
from rowmill.loader._keras.validater import validated

__all__ = [
    "KerasSequenceLoader",
    "KerasSequenceValidater",
    "Loader",
    "grow_embedding",
    "grow_embeddings",
    "make_feature_column_workflow",
]


class KerasBackend(BackendLoader):
    """Tensors of the backend that Keras runs on."""

    def _make(self, matrices: Sequence[Matrix], *, keep_dims: bool, device: Any) -> Tensors:
        backend = keras.backend.backend()
        if backend == "tensorflow":
            from rowmill.loader._tf.tensors import FromGenerator, TfTensors

            self._fit_tensors = FromGenerator(matrices, keep_dims=keep_dims)
            return TfTensors(matrices, keep_dims=keep_dims, device=device)
        if backend == "torch":
            from rowmill.loader._torch.tensors import KerasTorchTensors

            return KerasTorchTensors(matrices, keep_dims=keep_dims)
        if backend == "jax":
            from rowmill.loader._jax.tensors import ForCompiled, JaxTensors, on_cpu

            if on_cpu():  # where a compiled step takes NumPy arrays at less cost than it takes to make others of them
                self._fit_tensors = ForCompiled(matrices, keep_dims=keep_dims)
            return JaxTensors(matrices, keep_dims=keep_dims)
        return NumpyTensors(matrices, keep_dims=keep_dims)

    def _wants_column_major(self) -> bool:
        return bool(keras.backend.backend() != "torch")

    def _asked_in_main(self) -> bool:
        return bool(keras.backend.backend() != "tensorflow")

    def _narrow(self) -> bool:
        if keras.backend.backend() != "jax":
            return False
        from rowmill.loader._jax.tensors import is_narrow

        return is_narrow()


class KerasSequenceLoader(KerasBackend, SequenceLoader, keras.utils.PyDataset):
    """As `rowmill.loader.tensorflow.KerasSequenceLoader`, with tensors of Keras's backend.

    List columns are ragged on TensorFlow, and `name__values` and `name__offsets` elsewhere.
    """

    def _make(self, matrices: Sequence[Matrix], *, keep_dims: bool, device: Any) -> Tensors:
        strings, backend = self._format.selection.layout.objects, keras.backend.backend()
        if strings and backend != "tensorflow":
            raise DtypeError(
                f"column {strings[0]!r} holds strings, and Keras on {backend} takes numbers; encode it first "
                f"(Categorify), or use Loader, which passes strings through as NumPy arrays"
            )
        return super()._make(matrices, keep_dims=keep_dims, device=device)

    def _lists(self) -> ListFormat:
        return "ragged" if keras.backend.backend() == "tensorflow" else "offsets"


class Loader(KerasBackend, DictLoader, keras.utils.PyDataset):
    """As `rowmill.loader.tensorflow.Loader`, with tensors of Keras's backend."""


class KerasSequenceValidater(keras.callbacks.Callback):
    """Evaluates the model on a loader after every epoch, and puts the results into the logs as `val_...`."""

    def __init__(self, dataloader: Any) -> None:
        super().__init__()
        self.dataloader = dataloader

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> dict[str, Any]:
        return validated(self.model, self.dataloader, logs)
