"""Epochs of NumPy batches from a table: planning, reading and position. What all loaders share.

Holds the one thing that changes: the number of the next epoch. Called by the loaders, which turn batches into tensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import get_spawning_popen
from typing import Any, Literal, Protocol, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill._system.forked import check_fork
from rowmill._system.interrupts import interruptible
from rowmill._system.sizes import as_whole, cores
from rowmill.errors import ArgumentError, MemoryLimitError, StoreError
from rowmill.feed.memory.block import BLOCK_BYTES, Allocate, Batch, Block, Pool
from rowmill.feed.memory.budget import Budget, Memory, row_bytes
from rowmill.feed.order import permute, resume_state
from rowmill.feed.order.plan import Chunk, LaneSegment, Last, Plan, Span
from rowmill.feed.order.ranks import Ranks, fixed_ranks
from rowmill.feed.order.resume_state import Position
from rowmill.feed.order.weighted_sampling import Draw, Weights
from rowmill.feed.pack.pack_columns import Columns, RowSource
from rowmill.feed.pack.selection import Selection
from rowmill.feed.report.run_stats import Stats
from rowmill.feed.report.text_table import bytes_text
from rowmill.feed.run.cache_protocol import Cache, CachedTable, Request, is_full
from rowmill.feed.run.cache_request import request
from rowmill.feed.run.chunk_buffer import ChunkBuffer, Read
from rowmill.feed.run.cursor import Cursor
from rowmill.feed.run.pipeline import Feed
from rowmill.schema import Schema
from rowmill.sources.source import Source, fit_fragments, read_slices

T = TypeVar("T")
Shuffle = bool | Literal["full"]

FIRST_BYTES = 96 << 20  # of small fragments, read in some 50 ms; a smaller table is shuffled as a whole
FULL_ROWS = 65_536  # rows of a fully shuffled table that a thread gathers at once
COLUMN_MAJOR_ROWS = 512  # columns begin at multiples of 64 bytes, and of shorter ones that would take too much
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
    """Epochs of batches from a table, in an order that depends on the settings only.

    `column_major`: matrices are wanted transposed, for a framework that takes contiguous columns. From a store, and in
    small batches, they come row-major all the same: `Batch.column_major` says which.
    """

    @interruptible
    def __init__(
        self,
        table: Table,
        selection: Selection,
        *,
        batch_size: int,
        shuffle: Shuffle = False,
        seed: int = 0,
        seed_fn: Callable[[], int] | None = None,
        last: Last = "short",
        memory: Memory = "auto",
        threads: int | None = None,
        parts_per_chunk: int = 1,
        ranks: int | Ranks = 1,
        rank: int = 0,
        elastic: int | None = None,
        weights: Weights | None = None,
        balance: str | None = None,
        cache: Cache | None = None,
        column_major: bool = False,
    ) -> None:
        self.source = table.source
        self.selection = selection
        self.batch_size: int = as_whole(batch_size)
        self.full = is_full(shuffle, cache)
        self.shuffle = bool(shuffle)
        self.seed: int = as_whole(seed)
        if not isinstance(self.seed, int):
            raise ArgumentError(f"seed is {seed!r}; wanted a whole number")
        self.seed_fn = seed_fn
        self.last: Last = last
        self.find_ranks = ranks if callable(ranks) else fixed_ranks(ranks, rank)
        self.ranks, self.rank = self.find_ranks()  # as found latest: `plan` looks again
        self.cursor = Cursor((self.ranks, self.rank))
        self.elastic = elastic
        self.draw = Draw(self.source, weights, balance) if weights is not None or balance is not None else None
        self._column_major = column_major and cache is None and batch_size >= COLUMN_MAJOR_ROWS
        self.stats = Stats()
        self._part_bytes, self._parts_per_chunk = table.part_bytes, parts_per_chunk
        self._pool: Pool | None = None
        self.allocate: Allocate | None = None  # of blocks, where a loader wants memory of a special kind
        self.read_bytes = max(1.0, self.source.row_bytes(selection.columns))
        self._packed_bytes = max(1.0, selection.layout.row_bytes + (variable := self._variable_row_bytes()))
        planned = (self._packed_bytes, selection.planned_bytes, variable)
        self._unplaced_bytes = row_bytes(*planned, shuffled=False)
        self._row_bytes = row_bytes(*planned, shuffled=self.shuffle and not self.full)
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise ArgumentError(f"threads is {threads!r}; wanted at least 1, or None for one per core")
        found = self.source.fragments
        largest = max((fragment.rows for fragment in found), default=1)
        self._budget = Budget.of(memory, threads or cores(), largest * self.read_bytes)
        self._resumed_chunk: int | None = None  # batches of a chunk, where a state was saved with another "auto"
        self.fragments = fit_fragments(found, max(1, int(self._budget.fragment / self.read_bytes)))
        self._largest = max((fragment.rows for fragment in self.fragments), default=1)
        self.threads = self._budget.threads(threads or cores(), self._largest * self.read_bytes)
        self.plan()  # so that what is wrong is said now
        self.cached: CachedTable | None = None if cache is None else cache.bind(self._request())

    def _variable_row_bytes(self) -> float:
        """Bytes of a row's lists and strings, the latter as Python objects."""
        layout = self.selection.layout
        return self.source.row_bytes(layout.variable) + 64 * len(layout.objects) if layout.variable else 0.0

    def plan(self, epoch: int = 0, ranks: tuple[int, int] | None = None) -> Plan:
        """The order of every epoch, as integers, for the world size and rank given, or for those of this moment.

        Only how often rows are drawn by weight differs between epochs.
        """
        self.ranks, self.rank = ranks or self.find_ranks()
        if not isinstance(self.batch_size, int) or isinstance(self.batch_size, bool) or self.batch_size < 1:
            raise ArgumentError(f"batch_size is {self.batch_size!r}; wanted a whole number of at least 1 row")
        if self._parts_per_chunk < 1:
            raise ArgumentError(f"parts_per_chunk is {self._parts_per_chunk}; wanted at least 1")
        batch_bytes = self.batch_size * max(self._packed_bytes, self.selection.planned_bytes)
        needed = int(batch_bytes * 4)
        rows = sum(fragment.rows for fragment in self.fragments)
        if batch_bytes > self._budget.chunk and rows * self._packed_bytes > self._budget.chunk:
            raise MemoryLimitError(
                f"a batch of {self.batch_size} rows takes {bytes_text(batch_bytes)}, more than the quarter that "
                f"batches get of memory={bytes_text(self._budget.total)}; pass memory='{-(-needed // 10**6)}MB' or a "
                f"smaller batch_size"
            )
        # Chunks of an elastic plan are those of a single rank, or they would change with the number of ranks.
        chunk_unit = self.batch_size * (self.ranks if self.elastic else 1)
        first_batches = max(1, self._first_rows() // chunk_unit)
        return Plan(
            fragment_rows=self._fragment_rows(epoch),
            batch_rows=self.batch_size,
            chunk_batches=self._resumed_chunk or max(1, self._chunk_rows() // chunk_unit),
            first_batches=first_batches,
            shuffle=self.shuffle and not self.full,
            full=self.full,
            seed=self.seed,
            last=self.last,
            ranks=self.ranks,
            rank=self.rank,
            lanes=self.elastic,
        )

    def _first_rows(self) -> int:
        """Rows of the first chunk, so that the first batch comes soon: half a large fragment, or some small ones."""
        few = int(FIRST_BYTES / self._unplaced_bytes)
        return self._largest // 2 if self._largest >= few // 2 else few

    def _fragment_rows(self, epoch: int) -> tuple[int, ...]:
        if self.full:
            total = sum(fragment.rows for fragment in self.fragments)
            return tuple(min(FULL_ROWS, total - first) for first in range(0, total, FULL_ROWS))
        if self.draw is None:
            return tuple(fragment.rows for fragment in self.fragments)
        return tuple(drawn.rows for drawn in self.draw.drawn(self.fragments, self.seed, epoch, self.threads))

    def _chunk_rows(self) -> int:
        """Rows that are shuffled together: as many as fit, or what partitions were asked to be."""
        fitting = self._budget.chunk_of(1 if self.full else self.elastic or self.ranks)
        if not self.shuffle or self.full:
            return min(MIN_CHUNK_ROWS, int(fitting / self._row_bytes))
        if self._part_bytes is not None:
            return int(min(fitting, self._part_bytes * self._parts_per_chunk) / self._row_bytes)
        return int(fitting / self._row_bytes)

    def __len__(self) -> int:
        return self.plan().steps

    def batches(self, share: int = 0, shares: int = 1) -> Iterator[Batch]:
        """The next epoch. Each call counts the epoch on; iterators are independent of each other.

        With `shares`, every so many-th chunk only: worker processes of one rank divide an epoch in this way.
        """
        start = self.cursor.next
        if self.shuffle and self.seed_fn is not None and start.batch == 0:
            self.seed = int(self.seed_fn())
        plan = self.plan(start.epoch)
        self.cursor.begin(start, plan)
        self.stats = Stats(threads=self.threads, row_bytes=self.read_bytes)
        chunks = list(plan.chunks(start.epoch, start.batch))[share::shares]
        batches = self._feed(plan, chunks, start, self.stats).batches()
        return batches if self.cached is None else self.cached.watched(batches)

    def batches_at(self, epoch: int, batch: int) -> Iterator[Batch]:
        """Batch number `batch` of an epoch and those after it in its chunk, which alone is read. Moves nothing."""
        plan = self.plan(epoch)
        chunk = next(plan.chunks(epoch, batch))
        return self._feed(plan, [chunk], Position(epoch, batch), Stats(threads=self.threads)).batches()

    def _feed(self, plan: Plan, chunks: Sequence[Chunk], start: Position, stats: Stats) -> Feed:
        return Feed(
            chunks,
            self._reader(start.epoch),
            self._blocks(plan),
            threads=self.threads,
            window_rows=int(self._budget.window / self._row_bytes),
            variable_bytes=self._budget.variable(self.selection.layout.row_bytes / self._row_bytes),
            describe=partial(self._describe, start.epoch, self.seed),
            stats=stats,
            first_batch=start.batch,
        )

    @interruptible
    def batch(self, index: int) -> Batch:
        """Batch `index` of the latest epoch, or of the next once that has ended, without those before it."""
        steps = len(self)
        if not -steps <= index < steps:
            raise IndexError(f"batch {index} of an epoch of {steps} batches")
        batches = self.batches_at(self.position.epoch, index % steps)
        try:
            return next(batches)
        finally:
            cast("Any", batches).close()

    @interruptible
    def take(self, rows: NDArray[np.int64]) -> Batch:
        """Rows of the table by their numbers, in this order, from a store that has all of them."""
        store = self._needed_cache("rows by number").complete_store()
        layout, room = self.selection.layout, max(1, len(rows))
        block = Block.new(layout, room)
        chunk = Chunk(0, 1, room, (Span(0, 0, len(rows), 0),), (LaneSegment(len(rows), room, None),), 0)
        filling = ChunkBuffer(chunk, [block], layout)
        filling.fill(0, store.gathered(rows), 0, len(rows))
        return filling.batch(0)

    @interruptible
    def build_cache(self) -> None:
        """Read all rows that the store lacks, and complete it."""
        kept = self._needed_cache("build_cache()")
        rows = [fragment.rows for fragment in self.fragments]
        kept.build(partial(self._read, 0, self.seed), rows, self.threads)

    def _needed_cache(self, what: str) -> CachedTable:
        if self.cached is None:
            raise StoreError(f"{what} of a loader without a cache; wanted one; pass cache='auto' or cache=a folder")
        return self.cached

    def _reader(self, epoch: int) -> Read:
        """How this epoch's rows are read: from the source, from a store, or from the one and into the other."""
        decode = partial(self._read, epoch, self.seed)
        if self.cached is None:
            return decode
        if not self.full:
            return self.cached.reader(decode, [fragment.rows for fragment in self.fragments])
        store, key = self.cached.complete_store(), permute.key(self.seed, epoch, 0)
        total = sum(fragment.rows for fragment in self.fragments)

        def gather(fragment: int, start: int, rows: int) -> Iterator[RowSource]:
            yield store.gathered(permute.line(fragment * FULL_ROWS + start, rows, total, key))

        return gather

    def _request(self) -> Request:
        """This table, for a cache."""
        drawn = None if self.draw is None else self.draw.name
        data, size = " ".join(self._data().values()), self._packed_bytes
        return request(self.source, self.fragments, self.selection, data, drawn, size, self.memory)

    def track(self, batches: Iterator[T]) -> Iterator[T]:
        """These batches, or what was made of them; the position says how many of them have been handed out."""
        return self.cursor.track(batches)

    @contextmanager
    def unmoved(self) -> Iterator[None]:
        """Whatever is iterated meanwhile, the next iteration begins where it would have begun."""
        stats = self.stats
        try:
            with self.cursor.unmoved():
                yield
        finally:
            self.stats = stats

    def __getstate__(self) -> dict[str, Any]:
        spawning = get_spawning_popen() is not None  # a worker process, which has no process group to ask
        ranks = fixed_ranks(*self.find_ranks()) if spawning else self.find_ranks
        return {**self.__dict__, "_pool": None, "stats": None, "find_ranks": ranks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, stats=Stats())

    @property
    def position(self) -> Position:
        """Where the latest iteration stands."""
        return self.cursor.position

    @property
    def epoch(self) -> int:  # that the next iteration will be, or go on with
        return self.cursor.next.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        if epoch != self.cursor.next.epoch:  # else it goes on, after `load_state_dict`
            self.cursor.next = Position(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position of the latest iteration, and what it is a position in."""
        ranks = self.cursor.ranks if self.position.batch else self.find_ranks()
        return resume_state.save(self.plan(0, ranks), self.position, self._data())

    def _resumed_seed(self, saved: Mapping[str, Any]) -> None:
        """A seed that came from `seed_fn` is part of the position: the rest of the epoch needs the same."""
        if self.seed_fn is not None and isinstance(saved.get("seed"), int):
            self.seed = saved["seed"]

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a saved one stood."""
        if isinstance(saved, Mapping):
            self._resumed_seed(saved)
            self._resumed_chunk = self._budget.resumed_chunk(saved, self.batch_size * self._row_bytes)
        plan = self.plan()
        self.cursor.next = resume_state.load(saved, plan, self._data())
        self.cursor.ranks = plan.ranks, plan.rank

    def _data(self) -> dict[str, str]:
        """What is read, in 16 letters each: the source's own fingerprint, and the columns and what is made of them."""
        made = [(m.dtype.name, m.columns, m.widths) for m in self.selection.layout.matrices]
        drawn = None if self.draw is None else self.draw.name
        columns = repr((self.selection.columns, made, self.selection.layout.variable, drawn))
        return {"data": self.source.fingerprint(), "columns": hashlib.sha256(columns.encode()).hexdigest()[:16]}

    def _blocks(self, plan: Plan) -> Pool:
        layout = self.selection.layout
        in_block = BLOCK_BYTES // max(1, plan.batch_rows * layout.row_bytes)
        rows = plan.batch_rows * max(1, min(in_block, plan.chunk_batches))
        if self._pool is None or self._pool.rows != rows:
            keep = 4 + self._budget.window // max(1, rows * layout.row_bytes)
            self._pool = Pool(layout, rows, keep, plan.batch_rows if self._column_major else None, self.allocate)
        return self._pool

    def _read(self, epoch: int, seed: int, fragment: int, start: int, rows: int) -> Iterator[Columns]:
        """These rows of a fragment, decoded and prepared, in slices that fit in memory."""
        for frame in self._frames(epoch, seed, fragment, start, rows, self.selection.columns):
            prepared = self.selection.prepare(frame, self._describe(epoch, seed, fragment, start, rows))
            del frame
            yield Columns(prepared, self.selection.layout)

    def _frames(
        self, epoch: int, seed: int, fragment: int, start: int, rows: int, columns: Sequence[str]
    ) -> Iterator[pl.DataFrame]:
        check_fork()
        if self.draw is not None:
            yield self._frame(epoch, seed, fragment, start, rows, columns)
        else:
            found = self.fragments[fragment].slice(start, rows)
            yield from read_slices(
                self.source, found, columns, self._budget.slice(bool(self.selection.layout.variable))
            )

    def _frame(
        self, epoch: int, seed: int, fragment: int, start: int, rows: int, columns: Sequence[str]
    ) -> pl.DataFrame:
        if self.draw is None:
            return self.source.read(self.fragments[fragment].slice(start, rows), columns)
        drawn = self.draw.drawn(self.fragments, seed, epoch, self.threads)[fragment]
        return self.draw.read(drawn, columns)[start : start + rows]

    def column(self, span: Span, name: str, epoch: int) -> pl.Series:
        """One column of the rows of a span."""
        return self._frame(epoch, self.seed, span.fragment, span.start, span.rows, [name]).get_column(name)

    @property
    def memory(self) -> int:
        """The memory setting in bytes."""
        return self._budget.total

    def peak_bytes(self, chunks: Sequence[Chunk]) -> int:
        """About the most memory an epoch of these chunks takes: fragments in flight, two chunks, and a batch."""
        rows = sorted((chunk.rows for chunk in chunks), reverse=True)[:2]
        packed = min(self._budget.window, sum(rows) * self._row_bytes) + self.batch_size * self._row_bytes
        return int(packed + self._budget.decoding(self.threads, self._largest * self.read_bytes))

    def _describe(self, epoch: int, seed: int, fragment: int, start: int, rows: int) -> str:
        if self.full:
            return f"the store of {self.source.describe(self.fragments[0])}"
        if self.draw is None:
            return self.source.describe(self.fragments[fragment].slice(start, rows))
        return self.source.describe(self.draw.drawn(self.fragments, seed, epoch, self.threads)[fragment].fragment)
