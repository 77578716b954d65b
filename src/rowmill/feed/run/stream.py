"""Epochs of NumPy batches from a table: what all loaders share. Joins planning, reading, packing and position.

Comes in: a table, a selection of its columns and the settings of a loader. Goes out: batches. Called by the loaders,
which make tensors of them. `planner` plans an epoch, `reader` reads its rows, `pipeline` runs both over threads, and
`cursor` holds the one thing that changes: the position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.context import get_spawning_popen
from typing import Any, Literal, Protocol, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill._system.interrupts import interruptible
from rowmill._system.sizes import as_whole, cores
from rowmill.errors import ArgumentError, StoreError
from rowmill.feed.memory.block import BLOCK_BYTES, Allocate, Batch, Block, Pool
from rowmill.feed.memory.budget import Budget, Memory
from rowmill.feed.memory.row_sizes import RowSizes
from rowmill.feed.order import permute, resume_state
from rowmill.feed.order.plan import Chunk, LaneSegment, Last, Plan, Span
from rowmill.feed.order.ranks import Ranks, fixed_ranks
from rowmill.feed.order.resume_state import Position
from rowmill.feed.order.weighted_sampling import Draw, Weights
from rowmill.feed.pack.pack_columns import RowSource
from rowmill.feed.pack.selection import Selection
from rowmill.feed.report.run_stats import Stats
from rowmill.feed.run.batch_rows import locate_batch
from rowmill.feed.run.cache_protocol import Cache, CachedTable, is_full
from rowmill.feed.run.cache_request import request
from rowmill.feed.run.chunk_buffer import ChunkBuffer, Read
from rowmill.feed.run.cursor import Cursor
from rowmill.feed.run.pipeline import Feed
from rowmill.feed.run.planner import GATHERED_ROWS, Planner
from rowmill.feed.run.reader import TableReader
from rowmill.schema import Schema
from rowmill.sources.source import Fragment, Source, fit_fragments
from rowmill.sources.summary import version_text

T = TypeVar("T")
Shuffle = bool | Literal["full"]

COLUMN_MAJOR_ROWS = 512  # columns begin at multiples of 64 bytes, and of shorter ones that would take too much


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
        if not isinstance(as_whole(seed), int):
            raise ArgumentError(f"seed is {seed!r}; wanted a whole number")
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise ArgumentError(f"threads is {threads!r}; wanted at least 1, or None for one per core")
        if parts_per_chunk < 1:
            raise ArgumentError(f"parts_per_chunk is {parts_per_chunk}; wanted at least 1")
        source, full = table.source, is_full(shuffle, cache)
        draw = Draw(source, weights, balance) if weights is not None or balance is not None else None
        sizes = RowSizes.of(source, selection, shuffled=bool(shuffle) and not full)
        found = source.fragments
        largest = max((fragment.rows for fragment in found), default=1)
        budget = Budget.of(memory, threads or cores(), largest * sizes.read)
        self._fragment_limit = max(1, int(budget.fragment / sizes.read))
        fragments = fit_fragments(found, self._fragment_limit)
        largest = max((fragment.rows for fragment in fragments), default=1)
        threads = budget.threads(threads or cores(), largest * sizes.read)
        self.planner = Planner(
            fragments=fragments,
            sizes=sizes,
            budget=budget,
            threads=threads,
            batch_size=as_whole(batch_size),
            shuffle=bool(shuffle),
            full=full,
            seed=as_whole(seed),
            last=last,
            find_ranks=ranks if callable(ranks) else fixed_ranks(ranks, rank),
            elastic=elastic,
            draw=draw,
            partition_bytes=None if table.part_bytes is None else table.part_bytes * parts_per_chunk,
        )
        slice_bytes = budget.slice(bool(selection.layout.variable))
        self.reader = TableReader(source, selection, fragments, draw, slice_bytes, threads)
        self.cursor = Cursor(self.planner.find_ranks())
        self.seed_fn = seed_fn
        self.stats = Stats()
        self.allocate: Allocate | None = None  # of blocks, where a loader wants memory of a special kind
        self._column_major = column_major and cache is None and batch_size >= COLUMN_MAJOR_ROWS
        self._pool: Pool | None = None
        self.plan()  # so that what is wrong is said now
        self.cached: CachedTable | None = None if cache is None else self._bind(cache)

    def _bind(self, cache: Cache) -> CachedTable:
        """This table in a cache."""
        reader, planner = self.reader, self.planner
        data = " ".join(reader.fingerprints().values())
        return cache.bind(
            request(
                reader.source,
                reader.fragments,
                reader.selection,
                data,
                reader.drawn_by,
                planner.sizes.packed,
                planner.budget.total,
            )
        )

    def plan(self, epoch: int = 0, ranks: tuple[int, int] | None = None) -> Plan:
        """The order of an epoch, for the world size and rank given, or for those of this moment."""
        return self.planner.plan(epoch, ranks)

    def __len__(self) -> int:
        return self.plan().steps

    def batches(self, share: int = 0, shares: int = 1) -> Iterator[Batch]:
        """The next epoch. Each call counts the epoch on; iterators are independent of each other.

        With `shares`, every chunk whose number is `share` modulo `shares`: worker processes of one rank divide an epoch
        in this way.
        """
        start = self.cursor.next
        if self.shuffle and self.seed_fn is not None and start.batch == 0:
            self.planner.seed = int(self.seed_fn())
        plan = self.plan(start.epoch)
        self.cursor.begin(start, plan)
        self.stats = Stats(threads=self.threads, row_bytes=self.planner.sizes.read)
        chunks = list(plan.chunks(start.epoch, start.batch))[share::shares]
        ended = None if self.cached is None else self.cached.finish
        return self._feed(plan, chunks, start, self.stats, ended).batches()

    def batches_at(self, epoch: int, batch: int) -> Iterator[Batch]:
        """Batch number `batch` of an epoch and those after it in its chunk, which alone is read. Moves nothing."""
        plan = self.plan(epoch)
        chunk = next(plan.chunks(epoch, batch))
        return self._feed(plan, [chunk], Position(epoch, batch), Stats(threads=self.threads)).batches()

    def _feed(
        self,
        plan: Plan,
        chunks: Sequence[Chunk],
        start: Position,
        stats: Stats,
        ended: Callable[[], None] | None = None,
    ) -> Feed:
        budget, sizes = self.planner.budget, self.planner.sizes
        return Feed(
            chunks,
            self._row_source(start.epoch),
            self._blocks(plan),
            threads=self.threads,
            window_rows=int(budget.window / sizes.in_chunk),
            variable_bytes=budget.variable(sizes.fixed),
            describe=partial(self._describe, start.epoch, self.seed),
            stats=stats,
            first_batch=start.batch,
            ended=ended,
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
    def rows(self, step: int, epoch: int | None = None, rank: int | None = None) -> pl.DataFrame:
        """Where the rows of a batch are stored. Reads no value and moves nothing."""
        size, own = self.find_ranks()
        epoch = self.position.epoch if epoch is None else epoch
        plan = self.plan(epoch, (size, own if rank is None else rank))
        reader = self.reader
        return locate_batch(reader.source, reader.fragments, reader.draw, plan, epoch, step, self.threads)

    @interruptible
    def take(self, rows: NDArray[np.int64]) -> Batch:
        """Rows of the table by their numbers, in this order, from a store that has all of them."""
        store = self._needed_cache("take()").complete_store()
        layout, room = self.selection.layout, max(1, len(rows))
        chunk = Chunk(0, 1, room, (Span(0, 0, len(rows), 0),), (LaneSegment(len(rows), room, None),), 0)
        buffer = ChunkBuffer(chunk, [Block.new(layout, room)], layout)
        buffer.fill(0, store.gathered(rows), 0, len(rows))
        return buffer.batch(0)

    @interruptible
    def build_cache(self) -> None:
        """Read all rows that the store lacks, and complete it."""
        cached = self._needed_cache("build_cache()")
        cached.build(self.reader.decoder(0, self.seed), self._fragment_rows, self.threads)

    def _needed_cache(self, what: str) -> CachedTable:
        if self.cached is None:
            raise StoreError(f"{what} needs a cache; pass cache='auto' or cache=a folder")
        return self.cached

    @property
    def _fragment_rows(self) -> list[int]:
        return [fragment.rows for fragment in self.fragments]

    def _row_source(self, epoch: int) -> Read:
        """How this epoch's rows are read: from the source, from a store, or from the one and into the other."""
        decode = self.reader.decoder(epoch, self.seed)
        if self.cached is None:
            return decode
        if not self.full:
            return self.cached.reader(decode, self._fragment_rows)
        store, key = self.cached.complete_store(), permute.key(self.seed, epoch, 0)
        total = self.planner.table_rows

        def gather(fragment: int, start: int, rows: int) -> Iterator[RowSource]:
            yield store.gathered(permute.permuted_rows(fragment * GATHERED_ROWS + start, rows, total, key))

        return gather

    def _blocks(self, plan: Plan) -> Pool:
        layout = self.selection.layout
        in_block = BLOCK_BYTES // max(1, plan.batch_rows * layout.row_bytes)
        rows = plan.batch_rows * max(1, min(in_block, plan.chunk_batches))
        if self._pool is None or self._pool.rows != rows:
            keep = 4 + self.planner.budget.window // max(1, rows * layout.row_bytes)
            self._pool = Pool(layout, rows, keep, plan.batch_rows if self._column_major else None, self.allocate)
        return self._pool

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
        state = {**self.__dict__, "_pool": None, "stats": None}
        if get_spawning_popen() is not None:  # a worker process, which has no process group to ask
            state["planner"] = replace(self.planner, find_ranks=fixed_ranks(*self.find_ranks()))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, stats=Stats())

    @property
    def position(self) -> Position:
        """Where the latest iteration stands."""
        return self.cursor.position

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration will be, or go on with."""
        return self.cursor.next.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        if epoch != self.cursor.next.epoch:  # else it goes on, after `load_state_dict`
            self.cursor.next = Position(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position of the latest iteration, and what it is a position in."""
        ranks = self.cursor.ranks if self.position.batch else self.find_ranks()
        reading = {**self.reader.table_facts(), "fragment_rows": self._fragment_limit}
        return resume_state.save(self.plan(0, ranks), self.position, self.reader.fingerprints(), reading)

    def load_state_dict(self, saved: Mapping[str, Any], *, extend: bool = False) -> None:
        """Let the next iteration go on where a saved one stood; `extend`: on a table that has grown since."""
        if extend:
            self.cursor.next = resume_state.next_epoch(saved)
            return
        if isinstance(saved, Mapping):
            if self.seed_fn is not None and isinstance(saved.get("seed"), int):
                self.planner.seed = saved["seed"]  # a seed of `seed_fn` is part of the position
            batch_bytes = self.batch_size * self.planner.sizes.in_chunk
            self.planner.resumed_chunk = self.planner.budget.resumed_chunk(saved, batch_bytes)
        plan = self.plan()
        resume_state.check_version(saved, version_text(self.source))
        self.cursor.next = resume_state.load(saved, plan, self.reader.fingerprints())
        self.cursor.ranks = plan.ranks, plan.rank

    def column(self, span: Span, name: str, epoch: int) -> pl.Series:
        """One column of the rows of a span."""
        return self.reader.column(span, name, epoch, self.seed)

    def peak_bytes(self, chunks: Sequence[Chunk]) -> int:
        """About the most memory an epoch of these chunks takes."""
        return self.planner.peak_bytes(chunks)

    def _describe(self, epoch: int, seed: int, fragment: int, start: int, rows: int) -> str:
        if self.full:
            return f"the store of {self.source.describe(self.fragments[0])}"
        return self.reader.describe(epoch, seed, fragment, start, rows)

    @property
    def source(self) -> Source:
        return self.reader.source

    @property
    def selection(self) -> Selection:
        return self.reader.selection

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self.reader.fragments

    @property
    def threads(self) -> int:
        return self.planner.threads

    @property
    def batch_size(self) -> int:
        return self.planner.batch_size

    @batch_size.setter
    def batch_size(self, rows: int) -> None:
        self.planner.batch_size = rows

    @property
    def shuffle(self) -> bool:
        return self.planner.shuffle

    @property
    def full(self) -> bool:
        """Whether rows come in one random order over the whole table: `shuffle="full"`."""
        return self.planner.full

    @property
    def seed(self) -> int:
        return self.planner.seed

    @property
    def last(self) -> Last:
        return self.planner.last

    @property
    def find_ranks(self) -> Ranks:
        return self.planner.find_ranks

    @property
    def read_bytes(self) -> float:
        """Bytes of a row as it is read."""
        return self.planner.sizes.read

    @property
    def memory(self) -> int:
        """The memory setting in bytes."""
        return self.planner.budget.total
