"""Batches as PyTorch tensors: `TorchAsyncItr` and `DLDataLoader`, which NVTabular's users know, and `Loader`.

All are thin: they choose columns and a batch format; `rowmill.feed` does the rest. Tensors are views of the feed's
blocks, so nothing is copied on the CPU.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from rowmill.errors import ArgumentError, ColumnError, ForkedError
from rowmill.feed.block import Array, Batch
from rowmill.feed.layout import Nulls, Selector
from rowmill.feed.stream import Stream, Table
from rowmill.schema import Schema, Tags

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info
except ImportError as error:
    raise ImportError("rowmill.loader.torch needs PyTorch; pip install 'rowmill[torch]'") from error

Ragged = tuple[torch.Tensor, torch.Tensor]
_Self = TypeVar("_Self", bound="TorchStream")


class TorchStream(IterableDataset[Any]):
    """What both loaders are: an iterable over a `Stream`, whose batches become tensors in `_tensors`."""

    def __init__(self, dataset: Table, stream: Stream, device: Any) -> None:
        super().__init__()
        self.data = dataset
        self.dataset = dataset
        self.device = _device(device)
        self._stream = stream
        self._maps: list[Callable[..., Any]] = []
        self._current: Iterator[Any] | None = None
        self._pid = os.getpid()

    def __iter__(self) -> Iterator[Any]:
        """A new epoch, independent of any other iterator."""
        self._share_among_workers()
        return self._batches(self._stream.batches())

    def __next__(self) -> Any:
        """The next batch of an epoch of its own; starts one if there is none."""
        if self._current is None:
            self._current = iter(self)
        try:
            return next(self._current)
        except BaseException:
            self._current = None
            raise

    def __len__(self) -> int:
        return len(self._stream)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the epoch that `next(loader)` began. Epochs of a `for` loop end with the loop."""
        current, self._current = self._current, None
        if current is not None:
            cast("Any", current).close()

    def peek(self) -> Any:
        """The first batch of the next epoch, which still begins with it."""
        epoch = self._stream.epoch
        batches = iter(self)
        try:
            return next(batches)
        finally:
            cast("Any", batches).close()
            self._stream.epoch = epoch

    def map(self: _Self, function: Callable[..., Any]) -> _Self:
        """Apply `function(*batch)` to every batch from now on, in the training loop; returns this loader."""
        self._maps.append(function)
        return self

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch. Without it every iteration is one epoch further."""
        self._stream.epoch = epoch

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will be."""
        return self._stream.epoch

    @property
    def batch_size(self) -> int:
        return self._stream.batch_size

    @batch_size.setter
    def batch_size(self, rows: int) -> None:
        previous, self._stream.batch_size = self._stream.batch_size, rows
        try:
            self._stream.plan()
        except ValueError:
            self._stream.batch_size = previous
            raise

    @property
    def num_rows_processed(self) -> int:
        """Rows handed out by the latest iteration."""
        return self._stream.stats.rows

    @property
    def waited(self) -> float:
        """Seconds for which the latest iteration's consumer waited for data."""
        return self._stream.stats.waited

    @property
    def shuffle(self) -> bool:
        return self._stream.shuffle

    @property
    def drop_last(self) -> bool:
        return self._stream.drop_last

    @property
    def global_size(self) -> int:
        return self._stream.ranks

    @property
    def global_rank(self) -> int:
        return self._stream.rank

    def _batches(self, batches: Iterator[Batch]) -> Iterator[Any]:
        try:
            for batch in batches:
                result = self._tensors(batch)
                del batch  # the tensors alone shall hold its block
                for function in self._maps:
                    result = function(*result)
                yield result
                del result
        finally:
            cast("Any", batches).close()

    def _tensors(self, batch: Batch) -> Any:
        raise NotImplementedError

    def _tensor(self, array: Array) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor if self.device.type == "cpu" else tensor.to(self.device, non_blocking=True)

    def _share_among_workers(self) -> None:
        """In a worker process of a stock `DataLoader`: take this worker's share of the rows."""
        worker = get_worker_info()
        if worker is None:
            return
        if os.getpid() != self._pid:
            raise ForkedError(
                f"a DataLoader with num_workers={worker.num_workers} forked this loader, and its decoder's threads do not "
                f"survive a fork; use num_workers=0 (Rowmill reads in threads of its own)"
            )


class TorchAsyncItr(TorchStream):
    """Batches `(x_cat, x_cont, y)`: int64 `[N, C]`, float32 `[N, D]`, float32 `[N]` (or `[N, K]` for K labels).

    Columns of each group stand in lexicographic order (`cat_names`, `cont_names`, `label_names` say it), and a group
    without columns is None. With list columns `x_cat` is `(scalars or None, {name: (values, offsets)})`, where `offsets`
    `[N, 1]` are the starts of the rows; those in `sparse_names` are sparse `[N, sparse_max[name]]` tensors, or dense and
    padded with zeros if `sparse_as_dense`. Groups not given are taken from the schema's tags.

    `seed` (or `seed_fn`, called once an epoch) and the epoch decide the order; no global generator is used or changed.
    `memory` bounds everything between the files and the training loop; `parts_per_chunk` partitions of the dataset's
    `part_size` are shuffled together if it has one, else as many rows as fit. `index_dtype="int32"` halves the bytes of ids.
    """

    def __init__(
        self,
        dataset: Table,
        cats: Sequence[str] | None = None,
        conts: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        batch_size: int = 1,
        shuffle: bool = False,
        seed_fn: Callable[[], int] | None = None,
        parts_per_chunk: int = 1,
        device: Any = None,
        global_size: int | None = None,
        global_rank: int | None = None,
        drop_last: bool = False,
        sparse_names: Sequence[str] | None = None,
        sparse_max: Mapping[str, int] | None = None,
        sparse_as_dense: bool = False,
        *,
        seed: int = 0,
        memory: int | float | str = "1GB",
        threads: int | None = None,
        nulls: Nulls = "error",
        index_dtype: Any = "int64",
    ) -> None:
        schema = dataset.schema
        self.cat_names = _group(schema, cats, Tags.CATEGORICAL)
        self.cont_names = _group(schema, conts, Tags.CONTINUOUS)
        self.label_names = _group(schema, labels, Tags.TARGET)
        if not self.cat_names and not self.cont_names:
            raise ColumnError(
                "Neither Categorical or Continuous columns were found by the dataloader. Name them with cats= and conts=, "
                "or tag them in the dataset's schema"
            )
        self._lists = Lists(schema, sparse_names, sparse_max, sparse_as_dense)
        selector = Selector(schema, nulls, masks=False)
        selector.matrix("cats", self.cat_names, index_dtype, integers=True)
        selector.matrix("conts", self.cont_names, "float32")
        selector.matrix("labels", self.label_names, "float32")
        selection = selector.selection()
        self._places = {matrix.name: index for index, matrix in enumerate(selection.layout.matrices)}
        ragged = set(selection.layout.ragged)
        self._cat_lists = [name for name in self.cat_names if name in ragged]
        self._cont_lists = [name for name in self.cont_names if name in ragged]
        if bad := [name for name in self.label_names if name in ragged]:
            raise ColumnError(f"label {bad[0]!r} is a list column; wanted one number a row")
        stream = Stream(
            dataset,
            selection,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            seed_fn=seed_fn,
            drop_last=drop_last,
            memory=memory,
            threads=threads,
            parts_per_chunk=parts_per_chunk,
            ranks=global_size,
            rank=global_rank,
        )
        super().__init__(dataset, stream, device)
        self.parts_per_chunk = parts_per_chunk

    def _tensors(self, batch: Batch) -> tuple[Any, Any, Any]:
        labels = self._matrix(batch, "labels")
        if labels is not None and len(self.label_names) == 1:
            labels = labels.squeeze(1)
        return self._inputs(batch, "cats", self._cat_lists), self._inputs(batch, "conts", self._cont_lists), labels

    def _matrix(self, batch: Batch, group: str) -> torch.Tensor | None:
        place = self._places.get(group)
        return None if place is None else self._tensor(batch.matrices[place])

    def _inputs(self, batch: Batch, group: str, lists: Sequence[str]) -> Any:
        scalars = self._matrix(batch, group)
        if not lists:
            return scalars
        ragged = {}
        for name in lists:
            values, offsets = (self._tensor(array) for array in batch.ragged[name])
            sparse = self._lists.convert(name, values, offsets)
            ragged[name] = (values, offsets[:-1].unsqueeze(1)) if sparse is None else sparse
        return scalars, ragged


class Loader(TorchStream):
    """Batches `(features, target)`: a dict of tensors `[N]`, each column in its own dtype and in the order given.

    List columns come as `name__values` and `name__offsets` (`N + 1` of them), lists of fixed length as `[N, length]`,
    strings as NumPy arrays of objects. Without `columns` all columns of the schema are delivered; `targets` (by default
    those tagged TARGET) make up the target: None, a tensor, or a dict if there are several. `nulls` may be "error", "mask"
    (a bool tensor `name__null` beside each column), a fill value, or a dict of these by column. `transforms` are functions
    from features to features, applied in the training loop.
    """

    def __init__(
        self,
        dataset: Table,
        batch_size: int = 65_536,
        *,
        columns: Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
        shuffle: bool = False,
        seed: int = 0,
        seed_fn: Callable[[], int] | None = None,
        parts_per_chunk: int = 1,
        global_size: int | None = None,
        global_rank: int | None = None,
        drop_last: bool = False,
        transforms: Sequence[Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
        device: Any = None,
        memory: int | float | str = "1GB",
        threads: int | None = None,
        nulls: Nulls = "error",
        sparse_names: Sequence[str] | None = None,
        sparse_max: Mapping[str, int] | None = None,
        sparse_as_dense: bool = False,
    ) -> None:
        schema = dataset.schema
        self.target_names = _names(schema.select_by_tag(Tags.TARGET).column_names if targets is None else targets)
        wanted = _names(schema.column_names if columns is None else columns)
        self.feature_names = [name for name in wanted if name not in self.target_names]
        if not self.feature_names and not self.target_names:
            raise ColumnError("no columns to deliver; name some with columns=, or leave it out for all of them")
        self._transforms = list(transforms or ())
        self._lists = Lists(schema, sparse_names, sparse_max, sparse_as_dense)
        selector = Selector(schema, nulls)
        selector.native([*self.feature_names, *self.target_names])
        selection = selector.selection()
        stream = Stream(
            dataset,
            selection,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            seed_fn=seed_fn,
            drop_last=drop_last,
            memory=memory,
            threads=threads,
            parts_per_chunk=parts_per_chunk,
            ranks=global_size,
            rank=global_rank,
        )
        super().__init__(dataset, stream, device)
        self.input_schema = cast("Schema", schema[[*self.feature_names, *self.target_names]])
        self._layout = selection.layout
        produced = {name for matrix in self._layout.matrices for name in matrix.columns}
        masks = [name for name in produced if name not in schema]
        self._order = [*self.feature_names, *(m for m in sorted(masks)), *self.target_names]

    def _tensors(self, batch: Batch) -> tuple[dict[str, Any], Any]:
        found: dict[str, Any] = {}
        for matrix, array in zip(self._layout.matrices, batch.matrices, strict=True):
            tensor = self._tensor(array)
            if matrix.widths:
                found.update(zip(matrix.columns, tensor.split(matrix.widths, dim=1), strict=True))
            else:
                found.update(zip(matrix.columns, tensor.unbind(1), strict=True))
        found.update(batch.objects)
        features: dict[str, Any] = {}
        for name in self._order:
            if name in batch.ragged:
                values, offsets = (self._tensor(array) for array in batch.ragged[name])
                sparse = self._lists.convert(name, values, offsets)
                if sparse is None:
                    features[name + "__values"], features[name + "__offsets"] = values, offsets
                else:
                    features[name] = sparse
            else:
                features[name] = found[name]
        targets = {name: features.pop(name) for name in self.target_names}
        for transform in self._transforms:
            features = transform(features)
        if len(targets) > 1:
            return features, targets
        return features, next(iter(targets.values()), None)


class DLDataLoader(DataLoader[Any]):
    """A stock `DataLoader` over a loader that makes whole batches, with what fastai asks for: `device` and `len()`."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def __len__(self) -> int:
        return len(cast("Any", self.dataset))


class Lists:
    """Which list columns become sparse or padded tensors, and how."""

    def __init__(
        self, schema: Schema, names: Sequence[str] | None, limits: Mapping[str, int] | None, dense: bool
    ) -> None:
        self.dense = dense
        self.limits = {}
        for name in names or ():
            if not schema[name].is_list:
                raise ColumnError(f"sparse_names holds {name!r}, which is {schema[name].dtype}; wanted a list column")
            if name not in (limits or {}):
                raise ArgumentError(f"no limit for list column {name!r}; add it to sparse_max={{{name!r}: ...}}")
            self.limits[name] = (limits or {})[name]

    def convert(self, name: str, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor | None:
        """A tensor `[N, limit]`, or None if this column stays as values and offsets."""
        limit = self.limits.get(name)
        if limit is None:
            return None
        lengths = offsets.diff()
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > limit:
            raise ArgumentError(f"a row of {name!r} has {longest} values; sparse_max allows {limit}: raise it or cut the lists")
        rows = torch.repeat_interleave(torch.arange(len(lengths), device=values.device), lengths)
        places = torch.arange(len(values), device=values.device) - offsets[:-1].repeat_interleave(lengths)
        shape = (len(lengths), limit)
        if not self.dense:
            return torch.sparse_coo_tensor(torch.stack([rows, places]), values, shape, check_invariants=False)
        padded = values.new_zeros(shape)
        padded[rows, places] = values
        return padded


def _group(schema: Schema, names: Sequence[str] | None, tag: Tags) -> list[str]:
    """The columns of a group in lexicographic order: those named, or those tagged."""
    return sorted(set(schema.select_by_tag(tag).column_names if names is None else _names(names)))


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(dict.fromkeys(itertools.chain(names)))


def _device(device: Any) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
