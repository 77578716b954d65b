"""Batches as PyTorch tensors: `TorchAsyncItr` and `DLDataLoader`, which NVTabular's users know, and `Loader`.

All are thin: they choose columns and a batch format; `rowmill.feed` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Unpack, cast

try:
    import torch
    from torch.utils.data import DataLoader
except ImportError as error:
    raise ImportError("rowmill.loader.torch needs PyTorch; pip install 'rowmill[torch]'") from error

from rowmill.errors import ArgumentError, ColumnError
from rowmill.feed.memory.block import Batch
from rowmill.feed.pack.selection import Selector
from rowmill.feed.run.stream import Shuffle, Table
from rowmill.loader._base.arguments import (
    MASK,
    given_ranks,
    last_batch,
    named_or_tagged,
    names_of,
    opened,
    torch_process_group,
)
from rowmill.loader._base.batch_formats import DictBatches
from rowmill.loader._base.declared_shapes import declared_shapes
from rowmill.loader._base.dict_columns import weight_column
from rowmill.loader._base.dict_loader import DictBatchLoader, Transforms
from rowmill.loader._base.init_arguments import with_options
from rowmill.loader._base.lists import Lists, checked_limits
from rowmill.loader._base.narrow_columns import group_arguments
from rowmill.loader._base.open_stream import open_stream
from rowmill.loader._base.options import MatrixOptions, SparseDictOptions
from rowmill.loader._torch.cuda import as_tensor
from rowmill.loader._torch.grow_embedding import grow_embedding
from rowmill.loader._torch.tensors import TorchTensors
from rowmill.loader._torch.torch_loader import TorchStream
from rowmill.schema import Schema, Tags

__all__ = ["MASK", "DLDataLoader", "Loader", "TorchAsyncItr", "grow_embedding"]


class TorchAsyncItr(TorchStream):
    """Batches `(x_cat, x_cont, y)`: int64 `[N, C]`, float32 `[N, D]`, float32 `[N]` (or `[N, K]` for K labels).

    Columns of each group stand in lexicographic order (`cat_names`, `cont_names`, `label_names` say it), and a group
    without columns is None. With list columns `x_cat` is `(scalars or None, {name: (values, offsets)})`, where
    `offsets` `[N, 1]` are the starts of the rows; those in `pad` are dense, and those in `sparse_names` sparse. Groups
    not given are taken from the schema's tags. With `sample_weight` a batch has a fourth part: the weights `[N]`.
    `help(TorchAsyncItr.__init__)` explains the settings.
    """

    @with_options()
    def __init__(
        self,
        dataset: Table,
        cats: Sequence[str] | None = None,
        conts: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        batch_size: int = 1,
        shuffle: Shuffle = False,
        seed_fn: Callable[[], int] | None = None,
        parts_per_chunk: int = 1,
        device: Any = None,
        global_size: int | None = None,
        global_rank: int | None = None,
        drop_last: bool = False,
        sparse_names: Sequence[str] | None = None,
        sparse_max: Mapping[str, int] | None = None,
        sparse_as_dense: bool = False,
        **options: Unpack[MatrixOptions],
    ) -> None:
        dataset = opened(dataset, options["workflow"])
        shapes, sample_weight = declared_shapes(dataset), options["sample_weight"]
        schema = shapes.schema
        self.cat_names = sorted(named_or_tagged(cats, schema, Tags.CATEGORICAL))
        self.cont_names = sorted(named_or_tagged(conts, schema, Tags.CONTINUOUS))
        self.label_names = sorted(named_or_tagged(labels, schema, Tags.TARGET))
        if not self.cat_names and not self.cont_names:
            raise ColumnError(
                "Neither Categorical or Continuous columns were found by the dataloader. "
                "Name them with cats= and conts=, or tag them in the dataset's schema"
            )
        self._lists = Lists(checked_limits(shapes, options["pad"], sparse_names, sparse_max, sparse_as_dense))
        self.weight_name = weight_column(schema, sample_weight, (*self.cat_names, *self.cont_names), self.label_names)
        selector = Selector(schema, options["nulls"], masks=False, nested=shapes.nested)
        shapes.check([*self.cat_names, *self.cont_names, *self.label_names])
        selector.matrix("cats", self.cat_names, options["index_dtype"], integers=True)
        selector.matrix("conts", self.cont_names, "float32")
        selector.matrix("labels", self.label_names, "float32")
        selector.matrix("weights", [] if sample_weight is None else [sample_weight], "float32")
        selection = selector.selection()
        self._make = TorchTensors(selection.layout.matrices)
        self._matrix_index = {matrix.name: index for index, matrix in enumerate(selection.layout.matrices)}
        ragged = set(selection.layout.ragged)
        self._cat_lists = [name for name in self.cat_names if name in ragged]
        self._cont_lists = [name for name in self.cont_names if name in ragged]
        if bad := [name for name in self.label_names if name in ragged]:
            raise ColumnError(f"label {bad[0]!r} is a list column; wanted one number a row")
        stream = open_stream(
            dataset,
            selection,
            options,
            batch_size=batch_size,
            shuffle=shuffle,
            seed_fn=seed_fn,
            parts_per_chunk=parts_per_chunk,
            ranks=given_ranks(global_size, global_rank, torch_process_group),
            last=last_batch(options["last"], drop_last),
            elastic=options["elastic"],
        )
        super().__init__(dataset, stream, device)
        self.parts_per_chunk = parts_per_chunk
        weight = [] if sample_weight is None else [sample_weight]
        self._input_schema = dataset.schema[names_of([*self.cat_names, *self.cont_names, *self.label_names, *weight])]

    def _narrowing(self, schema: Schema) -> dict[str, Any]:
        groups: dict[str, Sequence[str]] = {
            "cats": self.cat_names,
            "conts": self.cont_names,
            "labels": self.label_names,
        }
        weight = self.weight_name if self.weight_name in schema else None
        return {**group_arguments(schema, groups), "sample_weight": weight}

    def _tensors(self, batch: Batch) -> tuple[Any, ...]:
        labels, weights = self._matrix(batch, "labels"), self._matrix(batch, "weights")
        if labels is not None and len(self.label_names) == 1:
            labels = labels.squeeze(1)
        inputs = self._inputs(batch, "cats", self._cat_lists), self._inputs(batch, "conts", self._cont_lists)
        return (*inputs, labels) if weights is None else (*inputs, labels, weights.squeeze(1))

    def _matrix(self, batch: Batch, group: str) -> torch.Tensor | None:
        index = self._matrix_index.get(group)
        return None if index is None else as_tensor(batch.matrices[index])

    def _inputs(self, batch: Batch, group: str, lists: Sequence[str]) -> Any:
        scalars = self._matrix(batch, group)
        if not lists:
            return scalars
        ragged: dict[str, Any] = {}
        for name in lists:
            if name in self._lists.limits.longest:
                ragged[name] = self._lists.limited(name, batch.ragged[name], self._make, batch.padding)
            else:
                values, offsets = map(as_tensor, batch.ragged[name])
                ragged[name] = (values, offsets[:-1].unsqueeze(1))
        return scalars, ragged


class Loader(DictBatchLoader, TorchStream):
    """Batches `(features, target)`: a dict of tensors `[N]`, each column in its own dtype and in the order given.

    List columns come as `name__values` and `name__offsets` (`N + 1` of them), lists of fixed length as `[N, length]`,
    strings as NumPy arrays of objects. With `sample_weight` a batch is `(features, target, weight)`; with
    `batch_format="tensordict"` it is one `TensorDict` of features and targets, list columns as nested tensors.
    `transforms` are functions from features to features, applied in the training loop. `help(Loader.__init__)` explains
    the settings.
    """

    @with_options()
    def __init__(
        self,
        dataset: Table,
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
        batch_format: Literal["tuple", "tensordict"] = "tuple",
        **options: Unpack[SparseDictOptions],
    ) -> None:
        dataset = opened(dataset, options["workflow"])
        if batch_format not in ("tuple", "tensordict"):
            raise ArgumentError(f"batch_format={batch_format!r}; wanted 'tuple' or 'tensordict'")
        shapes, last = declared_shapes(dataset), last_batch(options["last"], drop_last)
        chosen = DictBatches(shapes, options, padded=last == "pad")
        limits = checked_limits(
            shapes, options["pad"], options["sparse_names"], options["sparse_max"], options["sparse_as_dense"]
        )
        stream = open_stream(
            dataset,
            chosen.selection,
            options,
            batch_size=batch_size,
            shuffle=shuffle,
            seed_fn=seed_fn,
            parts_per_chunk=parts_per_chunk,
            ranks=given_ranks(global_size, global_rank, torch_process_group),
            last=last,
            elastic=options["elastic"],
        )
        super().__init__(dataset, stream, device)
        mask = MASK if last == "pad" else None
        make = TorchTensors(chosen.selection.layout.matrices, mask=mask, device=self.device)
        self._deliver(chosen, make, Lists(limits), transforms)
        self.batch_format = batch_format

    def _tensors(self, batch: Batch) -> Any:
        made = super()._tensors(batch)
        if self.batch_format == "tuple":
            return made
        from rowmill.loader.tensordict import as_tensordict

        features, target, *weight = made
        others = target if isinstance(target, dict) else dict.fromkeys(self.target_names, target)
        if self._format.weight is not None:
            others = {**others, self._format.weight: weight[0]}
        return as_tensordict(features, others, batch.rows, self.input_schema)


class DLDataLoader(DataLoader[Any]):
    """A stock `DataLoader` over a loader that makes whole batches, with what fastai asks for: `device` and `len()`.

    Batches come as they are, unless a `batch_size` is given, or a `collate_fn` without one: it gets lists of one batch.
    `accelerator.prepare` leaves it as it is, as each rank has its own rows already.
    """

    def __init__(self, dataset: Any, *args: Any, **settings: Any) -> None:
        if not args and "collate_fn" not in settings:
            settings.setdefault("batch_size", None)
        super().__init__(dataset, *args, **settings)
        if isinstance(dataset, TorchStream):
            self._is_accelerate_prepared = True  # each rank has its own rows: Accelerate leaves the loader as it is

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def __len__(self) -> int:
        return len(cast("Any", self.dataset))

    def __repr__(self) -> str:
        return f"DLDataLoader over {self.dataset!r}"

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration of the loader be this epoch. Trainers call it."""
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
