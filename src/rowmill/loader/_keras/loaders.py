"""The two Keras loaders without their framework: settings come in, a `KerasStream` with a batch format goes out.

`keras` and `tensorflow` add a base class of Keras and say how tensors are made (`_make`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from rowmill.errors import ArgumentError
from rowmill.feed.memory.block import Batch, Matrix
from rowmill.feed.run.stream import Shuffle
from rowmill.loader._base.arguments import (
    given_ranks,
    last_batch,
    named_or_tagged,
    names_of,
    opened,
)
from rowmill.loader._base.batch_formats import DictBatches, SequenceBatches, chosen_inputs
from rowmill.loader._base.batch_iterators import map_batches
from rowmill.loader._base.declared_shapes import declared_shapes
from rowmill.loader._base.dict_loader import DictBatchLoader, Transforms
from rowmill.loader._base.init_arguments import with_options
from rowmill.loader._base.lists import Limits, ListFormat, Lists, checked_limits, checked_list_format
from rowmill.loader._base.narrow_columns import group_arguments
from rowmill.loader._base.open_stream import open_stream
from rowmill.loader._base.options import KerasDictOptions, KerasSequenceOptions
from rowmill.loader._base.tensors import Tensors
from rowmill.loader._keras.keras_loader import KerasStream
from rowmill.loader._keras.pass_states import Thread
from rowmill.schema import Schema, Tags


class BackendLoader(KerasStream):
    """A Keras dataset with a batch format, whose tensors a framework makes."""

    _format: Any  # `SequenceBatches` or `DictBatches`
    _fit_tensors: Tensors | None = None  # what Keras takes in a pass at less cost than tensors of the framework

    def _make(self, matrices: Sequence[Matrix], *, keep_dims: bool, device: Any) -> Tensors:
        """How this framework makes tensors; columns are `[N, 1]` with `keep_dims`, else `[N]`."""
        raise NotImplementedError

    def _narrow(self) -> bool:
        """Whether numbers of 8 bytes are delivered in 4."""
        return False

    def _lists(self) -> ListFormat:
        """How list columns come if nobody says."""
        return "offsets"

    def _wants_column_major(self) -> bool:
        """Whether columns have to be contiguous."""
        return False

    def _tensors(self, batch: Batch) -> Any:
        return self._format.tensors(batch)

    def _list_settings(self, make: Tensors, limits: Limits, lists: str | None, fill: int = 0) -> Lists:
        return Lists(limits, checked_list_format(lists, self._lists(), make), fill)

    @property
    def _has_functions(self) -> bool:
        """Whether batches go through functions of the user's, which take tensors of the framework."""
        return bool(self._maps or self._transforms)

    def _keras_batches(self, thread: Thread) -> Iterator[Any]:
        asked_by_fit = (thread is Thread.MAIN) == self._asked_in_main()
        return self._fit_batches() if asked_by_fit else super()._keras_batches(thread)

    def _fit_batches(self) -> Iterator[Any]:
        """The next epoch, of what Keras takes as it is: TensorFlow copies tensors of a generator, twice."""
        batches = self._stream.batches()
        if self._fit_tensors is None or self._has_functions:
            return self._batches(batches)
        return map_batches(partial(self._format.tensors, make=self._fit_tensors), batches)


class SequenceLoader(BackendLoader):
    """Settings and batches of `KerasSequenceLoader`."""

    _format: SequenceBatches

    @with_options(memory=None)
    def __init__(
        self,
        paths_or_dataset: Any,
        batch_size: int,
        label_names: str | Sequence[str] | None = None,
        feature_columns: Any = None,
        cat_names: Sequence[str] | None = None,
        cont_names: Sequence[str] | None = None,
        engine: str | None = None,
        shuffle: Shuffle = True,
        seed_fn: Callable[[], int] | None = None,
        buffer_size: int | float | str | None = None,
        device: Any = None,
        parts_per_chunk: int = 1,
        reader_kwargs: Mapping[str, Any] | None = None,
        global_size: int | None = None,
        global_rank: int | None = None,
        drop_last: bool = False,
        sparse_names: Sequence[str] | None = None,
        sparse_max: Mapping[str, int] | None = None,
        sparse_as_dense: bool = False,
        schema: Schema | None = None,
        **options: Unpack[KerasSequenceOptions],
    ) -> None:
        super().__init__()
        memory, sample_weight = options["memory"], options["sample_weight"]
        if buffer_size is not None and memory is not None:
            raise ArgumentError(f"buffer_size={buffer_size!r} and memory={memory!r}: both set the memory; give one")
        options["memory"] = memory or buffer_size or "auto"
        table = opened(paths_or_dataset, options["workflow"], engine=engine, reader_kwargs=reader_kwargs, schema=schema)
        last, shapes = last_batch(options["last"], drop_last), declared_shapes(table)
        self._format = SequenceBatches(
            shapes,
            chosen_inputs(table.schema, feature_columns, cat_names, cont_names),
            named_or_tagged(label_names, table.schema, Tags.TARGET),
            nulls=options["nulls"],
            index_dtype=options["index_dtype"],
            narrow=self._narrow(),
            padded=last == "pad",
            weight=sample_weight,
        )
        stream = open_stream(
            table,
            self._format.selection,
            options,
            batch_size=batch_size,
            shuffle=shuffle,
            seed_fn=seed_fn,
            parts_per_chunk=parts_per_chunk,
            ranks=given_ranks(global_size, global_rank),
            last=last,
            elastic=options["elastic"],
            column_major=self._wants_column_major(),
        )
        self._open(table, stream)
        limits = checked_limits(shapes, options["pad"], sparse_names, sparse_max, sparse_as_dense)
        make = self._make(self._format.selection.layout.matrices, keep_dims=True, device=device)
        nothing = 0 if feature_columns is None else -1  # an id below 0 is none, to feature columns and their layers
        self._format.attach(make, self._list_settings(make, limits, options["lists"], nothing))
        self.cat_names, self.cont_names = self._format.cat_names, self._format.cont_names
        self.label_names = self._format.label_names
        weight = [] if sample_weight is None else [sample_weight]
        self._input_schema = table.schema[names_of([*self.cat_names, *self.cont_names, *self.label_names, *weight])]

    def _narrowing(self, schema: Schema) -> dict[str, Any]:
        if self._arguments.get("feature_columns") is not None:
            raise ArgumentError(
                "this loader was made with feature_columns=, which name its columns; give fewer of them"
            )
        groups: dict[str, Sequence[str]] = {
            "cat_names": self.cat_names, "cont_names": self.cont_names, "label_names": self.label_names
        }  # fmt: skip
        weight = self._format.weight if self._format.weight in schema else None
        return {**group_arguments(schema, groups), "sample_weight": weight, "schema": None}


class DictLoader(DictBatchLoader, BackendLoader):
    """Settings and batches of `Loader`."""

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
        **options: Unpack[KerasDictOptions],
    ) -> None:
        super().__init__()
        table = opened(dataset, options["workflow"])
        last, shapes = last_batch(options["last"], drop_last), declared_shapes(table)
        self._format = DictBatches(shapes, options, narrow=self._narrow(), padded=last == "pad")
        stream = open_stream(
            table,
            self._format.selection,
            options,
            batch_size=batch_size,
            shuffle=shuffle,
            seed_fn=seed_fn,
            parts_per_chunk=parts_per_chunk,
            ranks=given_ranks(global_size, global_rank),
            last=last,
            elastic=options["elastic"],
            column_major=self._wants_column_major(),
        )
        self._open(table, stream)
        limits = checked_limits(
            shapes, options["pad"], options["sparse_names"], options["sparse_max"], options["sparse_as_dense"]
        )
        make = self._make(self._format.selection.layout.matrices, keep_dims=False, device=device)
        self._deliver(self._format, make, self._list_settings(make, limits, options["lists"]), transforms)
