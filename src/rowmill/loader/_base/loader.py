"""The base class of all loaders: an iterable over a `Stream`, its position, its reports.

Comes in: a `Stream` of NumPy batches. Goes out: epochs of whatever the loader's `_tensors` makes of a batch. Knows no
framework; each loader adds its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, cast

import polars as pl

from rowmill._system.display import Displayed, DisplayRows, plural
from rowmill.errors import ArgumentError, StartedError
from rowmill.feed.memory.block import Batch
from rowmill.feed.report.plan_report import PlanReport, explain
from rowmill.feed.report.run_stats import RunReport
from rowmill.feed.run.cache_protocol import as_rows
from rowmill.feed.run.stream import Stream, Table
from rowmill.loader._base.arguments import extended
from rowmill.loader._base.batch_iterators import first_batch, map_batches
from rowmill.loader._base.narrow_columns import described
from rowmill.schema import Schema
from rowmill.sources.summary import column_rows

if TYPE_CHECKING:
    from rowmill.report import Report

_Self = TypeVar("_Self", bound="Streamed")


class Streamed(Displayed):
    """The base class of all loaders: an iterable over a `Stream`, whose batches become tensors in `_tensors`."""

    data: Table
    dataset: Table
    _stream: Stream
    _maps: list[Callable[..., Any]]
    _transforms: Sequence[Callable[..., Any]] = ()  # of the features of a batch
    _batch_itr: Iterator[Any] | None  # of the epoch that `next(loader)` began
    _input_schema: Schema
    _arguments: dict[str, Any]  # that this loader was made with

    def _open(self, dataset: Table, stream: Stream) -> None:
        """Take this stream. Not `__init__`, because the frameworks' own base classes want theirs."""
        self.data = self.dataset = dataset
        self._stream = stream
        self._maps = []
        self._batch_itr = None
        self._input_schema = dataset.schema

    def __iter__(self) -> Iterator[Any]:
        """A new epoch (or the rest of one, after `load_state_dict`), independent of any other iterator.

        An iterator that is dropped after one batch, as in `next(iter(loader))`, does not use up its epoch: the next
        iteration begins with the same batch.
        """
        return self._epoch_batches()

    def _epoch_batches(self) -> Iterator[Any]:
        """What `__iter__` gives, and `peek` looks at."""
        return self._stream.track(self._batches(self._stream.batches()))

    def _display(self) -> tuple[str, DisplayRows]:
        stream, (size, rank) = self._stream, self._stream.find_ranks()
        rows = sum(fragment.rows for fragment in stream.fragments)
        order = "fully shuffled" if stream.full else "shuffled" if stream.shuffle else "in order"
        ranks = f", rank {rank} of {size}" if size > 1 else ""
        title = f"{type(self).__name__}: {plural(rows, 'row')} in batches of {stream.batch_size:,}, {order}{ranks}"
        return title, column_rows(self._input_schema)

    def __next__(self) -> Any:
        """The next batch of an epoch of its own; starts one if there is none."""
        if self._batch_itr is None:
            self._batch_itr = iter(self)
        try:
            return next(self._batch_itr)
        except BaseException:
            self._batch_itr = None
            raise

    def __len__(self) -> int:
        return len(self._stream)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the epoch that `next(loader)` began. Epochs of a `for` loop end with the loop."""
        current, self._batch_itr = self._batch_itr, None
        if current is not None:
            cast("Any", current).close()

    @property
    def _working(self) -> bool:
        """Whether an epoch that `next(loader)` began is under way."""
        return self._batch_itr is not None

    def peek(self) -> Any:
        """The first batch of the next epoch, which still begins with it."""
        with self._stream.unmoved():
            return first_batch(self._epoch_batches())

    def __getitem__(self, index: int) -> Any:
        """Batch `index` of the epoch that `epoch` names; its chunk alone is read."""
        return self._finished(self._stream.batch(operator.index(index)))

    @property
    def input_schema(self) -> Schema:
        """The columns that are read. Setting it to some of the dataset's columns narrows the batches to these.

        It can be set until the first iteration begins. Columns that the new schema tags TARGET are the targets.
        """
        return self._input_schema

    @input_schema.setter
    def input_schema(self, schema: Schema) -> None:
        if self._stream.cursor.has_begun:
            raise StartedError(
                "Setting the input_schema after the dataloader has started is not supported; set it before the first "
                "batch, or make a new loader"
            )
        start, size = self._stream.cursor.next, self._stream.batch_size
        if start.batch:
            raise StartedError("a position was loaded for the columns as they are; set input_schema before that")
        table, maps = described(self.dataset, schema), self._maps
        first = next(iter(self._arguments))
        changes = {first: table, "workflow": None, **self._narrowing(schema)}
        type(self).__init__(self, **{**self._arguments, **changes})
        self._maps = [*maps, *self._maps[len(maps) :]]
        self._stream.batch_size, self._stream.cursor.next = size, start

    @property
    def output_schema(self) -> Schema:
        """The columns that a batch is made of, with those of operators of `rowmill.loader.ops` among the transforms.

        What other functions of `transforms` and `map` change is not known.
        """
        schema = self._input_schema
        for transform in self._transforms:
            if hasattr(transform, "compute_output_schema"):
                schema = transform.compute_output_schema(schema)
        return schema

    def _narrowing(self, schema: Schema) -> dict[str, Any]:
        """The arguments by which this loader would deliver the columns of this schema alone."""
        raise ArgumentError(
            f"the columns of a {type(self).__name__} cannot be changed; make a new one with those wanted"
        )

    def rows(self, step: int, *, epoch: int | None = None, rank: int | None = None) -> pl.DataFrame:
        """Which rows of the table batch `step` is made of: `file`, `row_group` and `row` (within the row group), one
        line for each row of the batch, in its order. Padding rows are nulls.

        `epoch`: by default the one that `epoch` names; `rank`: by default this process's own. Follows from the order
        alone: no value of the table is read, except the column of `weights=` or `balance=`. With `seed_fn`, the order
        is that of the latest seed.
        """
        return self._stream.rows(operator.index(step), epoch, rank)

    def take(self, rows: Any) -> Any:
        """Rows of the table by number (an array, a list, a slice or a mask), as one batch, from a complete store."""
        total = sum(fragment.rows for fragment in self._stream.fragments)
        return self._finished(self._stream.take(as_rows(rows, total)))

    def build_cache(self: _Self) -> _Self:
        """Store all rows that are not stored yet, without training on them; returns this loader."""
        self._stream.build_cache()
        return self

    def state_dict(self) -> dict[str, Any]:
        """The position of the latest iteration, JSON-ready: batches handed out, and what they are part of."""
        return self._stream.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any], *, extend: bool = False) -> None:
        """Let the next iteration go on where a saved one stood; a state of other data or settings is refused.

        `extend=True`: the state is of the table before it grew, and this loader has the rows added since
        (`Dataset(..., since=state)`, `refresh()`), or all rows. The saved epoch must be complete; epochs count on.
        """
        self._stream.load_state_dict(state_dict, extend=extend)

    def extend(self, dataset: Any) -> None:
        """Let the next epochs have the rows of `dataset` too: what `refresh()` of the loader's own dataset gave, or any
        dataset with the same columns, whose rows come after the others.

        Between two epochs only. Epochs are counted on; a store is built anew.
        """
        first = next(iter(self._arguments))
        made = extended(self._arguments[first], dataset)
        position, maps = self._stream.cursor.between_epochs(), self._maps
        size = self._stream.batch_size
        type(self).__init__(self, **{**self._arguments, first: made})
        self._maps = [*maps, *self._maps[len(maps) :]]
        self._stream.batch_size, self._stream.cursor.next = size, position

    def map(self: _Self, function: Callable[..., Any]) -> _Self:
        """Apply `function(*batch)` to every batch from now on, in the training loop; returns this loader."""
        self._maps.append(function)
        return self

    def plan(self, column: str | None = None) -> PlanReport:
        """What the next epoch will be: steps, rows dropped or padded, memory, bytes, and how well the table is mixed.

        With `column` (a label, a time) it is read once, to see how far batch means stray from a perfect shuffle's.
        """
        return explain(self._stream, column, self._stream.epoch)

    def stats(self) -> RunReport:
        """What the latest iteration cost so far: time waited, time by stage, rows/s, and what limits it."""
        return self._stream.stats.report()

    def report(self, path: str | PathLike[str] | None = None, *, column: str | None = None) -> Report:
        """The dataset, the next epoch's plan and the latest iteration as one page; written to `path` if there is one.

        Reads a sample of the table. A notebook shows what is returned. `column` is passed on to `plan`.
        """
        from rowmill.report import of_loader

        return of_loader(self, path, column=column)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be this epoch. Without it every iteration is one epoch further."""
        self._stream.epoch = epoch

    @property
    def epoch(self) -> int:
        """The epoch of the latest iteration, or of the next one once that has ended: `state_dict()["epoch"]`."""
        return self._stream.position.epoch

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
    def padding(self) -> int:
        """Rows at the end of the latest batch that are padding: see `last="pad"`, and ranks without rows."""
        return self._stream.stats.padding

    @property
    def waited(self) -> float:
        """Seconds for which the latest iteration's consumer waited for data."""
        return self._stream.stats.waited

    @property
    def shuffle(self) -> bool:
        return self._stream.shuffle

    @property
    def drop_last(self) -> bool:
        return self._stream.last == "drop"

    @property
    def global_size(self) -> int:
        """The number of ranks that share an epoch, as of now."""
        return self._stream.find_ranks()[0]

    @property
    def global_rank(self) -> int:
        """This process's place among the ranks, as of now."""
        return self._stream.find_ranks()[1]

    def _batches(self, batches: Iterator[Batch]) -> Iterator[Any]:
        """What users get of these batches: tensors, and what `map` makes of them."""
        return map_batches(self._finished, batches)

    def _finished(self, batch: Batch) -> Any:
        return self._mapped(self._tensors(batch))

    def _mapped(self, result: Any) -> Any:
        for function in self._maps:
            result = function(*result) if isinstance(result, tuple) else function(result)
        return result

    def _tensors(self, batch: Batch) -> Any:
        raise NotImplementedError
