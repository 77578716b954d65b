"""A table as a stream of batches: settings in, epochs of NumPy batches out. What all loaders share.

Holds the one thing that changes: the number of the next epoch. Called by the loaders, which turn batches into tensors.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

import polars as pl

from rowmill.errors import ArgumentError, MemoryLimitError
from rowmill.feed import state
from rowmill.feed.block import BLOCK_BYTES, Batch, Pool
from rowmill.feed.feed import Feed
from rowmill.feed.layout import Selection
from rowmill.feed.memory import Budget
from rowmill.feed.pack import Columns
from rowmill.feed.plan import Last, Plan
from rowmill.feed.state import Position
from rowmill.feed.stats import Stats
from rowmill.schema import Schema
from rowmill.sizes import parse_memory
from rowmill.sources.source import Source, fit_fragments

MIN_CHUNK_ROWS = 65_536  # unshuffled rows are passed on in pieces of about this size


class Table(Protocol):
    """What a stream needs of a dataset."""

    @property
    def source(self) -> Source: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def part_bytes(self) -> int | None: ...


class Stream:
    """Epochs of batches from a table, in an order that depends on the settings only."""

    def __init__(
        self,
        table: Table,
        selection: Selection,
        *,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        seed_fn: Callable[[], int] | None = None,
        last: Last = "short",
        memory: int | float | str = "1GB",
        threads: int | None = None,
        parts_per_chunk: int = 1,
        ranks: int = 1,
        rank: int = 0,
        elastic: int | None = None,
    ) -> None:
        self.source = table.source
        self.selection = selection
        self.batch_size = batch_size
        self.shuffle = bool(shuffle)
        self.seed = seed
        self.seed_fn = seed_fn
        self.last: Last = last
        self.ranks = ranks
        self.rank = rank
        self.elastic = elastic
        self.position = Position()  # of the latest iteration
        self._next = Position()  # where the next iteration begins
        self.stats = Stats()
        self._budget = Budget(parse_memory(memory))
        self._part_bytes = table.part_bytes
        self._parts_per_chunk = parts_per_chunk
        self._pool: Pool | None = None
        self._read_bytes = max(1.0, self.source.row_bytes(selection.columns))
        loose = self.source.row_bytes(selection.layout.loose) if selection.layout.loose else 0.0
        self._row_bytes = max(1.0, selection.layout.row_bytes + loose)
        self.fragments = fit_fragments(self.source.fragments, max(1, int(self._budget.fragment / self._read_bytes)))
        largest = max((fragment.rows for fragment in self.fragments), default=1)
        if threads is not None and threads < 1:
            raise ArgumentError(f"threads is {threads}; wanted at least 1, or None for one per core")
        self.threads = self._budget.threads(threads or min(8, _cores()), largest * self._read_bytes)
        self.plan()  # so that what is wrong is said now

    def plan(self) -> Plan:
        """The order of every epoch, as integers."""
        if not isinstance(self.batch_size, int) or isinstance(self.batch_size, bool) or self.batch_size < 1:
            raise ArgumentError(f"batch_size is {self.batch_size!r}; wanted a whole number of at least 1 row")
        if self._parts_per_chunk < 1:
            raise ArgumentError(f"parts_per_chunk is {self._parts_per_chunk}; wanted at least 1")
        batch_bytes = self.batch_size * self._row_bytes
        needed = int(batch_bytes * 4)
        rows = sum(fragment.rows for fragment in self.fragments)
        if batch_bytes > self._budget.chunk and rows * self._row_bytes > self._budget.chunk:
            raise MemoryLimitError(
                f"a batch of {self.batch_size} rows takes {batch_bytes / 1e6:.1f} MB, more than the quarter that "
                f"batches get of memory={self._budget.total / 1e6:.1f} MB; pass memory='{-(-needed // 10**6)}MB' or a "
                f"smaller batch_size"
            )
        largest = max((fragment.rows for fragment in self.fragments), default=1)
        # Chunks of an elastic plan are those of a single rank, or they would change with the number of ranks.
        chunk_unit = self.batch_size * (self.ranks if self.elastic else 1)
        return Plan(
            fragment_rows=tuple(fragment.rows for fragment in self.fragments),
            batch_rows=self.batch_size,
            chunk_batches=max(1, self._chunk_rows() // chunk_unit),
            first_batches=max(1, largest // (2 * chunk_unit)),
            shuffle=self.shuffle,
            seed=self.seed,
            last=self.last,
            ranks=self.ranks,
            rank=self.rank,
            lanes=self.elastic,
        )

    def _chunk_rows(self) -> int:
        """Rows that are shuffled together: what memory allows, or the fewer that partitions were asked to be."""
        if not self.shuffle:
            return min(MIN_CHUNK_ROWS, int(self._budget.chunk / self._row_bytes))
        chunk_bytes = self._budget.chunk
        if self._part_bytes is not None:
            chunk_bytes = min(chunk_bytes, self._part_bytes * self._parts_per_chunk)
        return int(chunk_bytes / self._row_bytes)

    def __len__(self) -> int:
        return self.plan().steps

    def batches(self, share: int = 0, shares: int = 1) -> Iterator[Batch]:
        """The next epoch. Each call counts the epoch on; iterators are independent of each other.

        With `shares`, every so many-th chunk only: worker processes of one rank divide an epoch in this way.
        """
        if self.shuffle and self.seed_fn is not None:
            self.seed = int(self.seed_fn())
        plan, start = self.plan(), self._next
        self._next = Position(start.epoch + 1)
        self.position = Position(start.epoch, start.batch)
        self.stats = Stats()
        feed = Feed(
            list(plan.chunks(start.epoch, start.batch))[share::shares],
            self._read,
            self._blocks(plan),
            threads=self.threads,
            window_rows=int(self._budget.window / self._row_bytes),
            describe=self._describe,
            stats=self.stats,
        )
        return _counted(feed.batches(start.batch), self.position)

    @contextmanager
    def unmoved(self) -> Iterator[None]:
        """Whatever is iterated meanwhile, the next iteration begins where it would have begun."""
        kept = self._next, self.position, self.stats
        try:
            yield
        finally:
            self._next, self.position, self.stats = kept

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None, "stats": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, stats=Stats())

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will be, or go on with."""
        return self._next.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._next = Position(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position of the latest iteration, and what it is a position in."""
        return state.save(self.plan(), self.position, self._data())

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a saved one stood."""
        self._next = state.load(saved, self.plan(), self._data())
        self.position = Position(self._next.epoch, self._next.batch)

    def _data(self) -> str:
        """What is read, in 16 letters: the source's own fingerprint, the columns and what is made of them."""
        made = [(m.dtype.name, m.columns, m.widths) for m in self.selection.layout.matrices]
        text = repr((self.source.fingerprint(), self.selection.columns, made, self.selection.layout.loose))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _blocks(self, plan: Plan) -> Pool:
        layout = self.selection.layout
        batches = max(1, BLOCK_BYTES // max(1, plan.batch_rows * layout.row_bytes))
        rows = plan.batch_rows * min(batches, max(1, plan.chunk_batches))
        if self._pool is None or self._pool.rows != rows:
            keep = 4 + self._budget.window // max(1, rows * layout.row_bytes)
            self._pool = Pool(layout, rows, keep)
        return self._pool

    def _read(self, fragment: int, start: int, rows: int) -> Columns:
        part = self.fragments[fragment].slice(start, rows)
        frame: pl.DataFrame = self.source.read(part, self.selection.columns)
        return Columns(self.selection.prepare(frame, self.source.describe(part)), self.selection.layout)

    def _describe(self, fragment: int, start: int, rows: int) -> str:
        return self.source.describe(self.fragments[fragment].slice(start, rows))


def _counted(batches: Iterator[Batch], position: Position) -> Iterator[Batch]:
    """The same batches, while the position says how many have been handed out."""
    try:
        for batch in batches:
            position.batch += 1
            yield batch
            del batch
        position.epoch, position.batch = position.epoch + 1, 0
    finally:
        cast("Any", batches).close()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
