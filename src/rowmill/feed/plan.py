"""The order of an epoch as integers: which rows of which fragments make up which batch, for one rank.

Comes in: rows per fragment and a handful of settings. Goes out: chunks, each a list of spans (runs of rows of a
fragment) and the place of every row among the chunk's batches. A pure function of its arguments: no clock, no thread,
no random state. Called by `stream`; `feed` only obeys it.

    fragments ──(order drawn from seed, epoch)──► one long line of rows ──► cut into equal shares, one for each rank
    ──► cut into chunks of whole batches ──(places drawn from seed, epoch, first row of chunk)──► batches

Chunks start small and double until they have their full size, so that the first batch needs one fragment only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rowmill.errors import ArgumentError
from rowmill.feed import permute


@dataclass(frozen=True, slots=True)
class Span:
    """Rows `start` to `start + rows` of fragment number `fragment`, which are rows `at` and on of their chunk."""

    fragment: int
    start: int
    rows: int
    at: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is shuffled together: whole batches (the last of an epoch may be short), and where their rows come from."""

    first_batch: int
    rows: int
    spans: tuple[Span, ...]
    batch_rows: int
    key: int | None
    padding: int = 0

    @property
    def batches(self) -> int:
        return -(-self.rows // self.batch_rows)

    def places(self) -> NDArray[np.uint32]:
        """For each row, in the order of the spans, its place among the rows of the chunk's batches."""
        if self.key is None:
            return np.arange(self.rows, dtype=np.uint32)
        return permute.deal(self.rows, self.batch_rows, self.key)


@dataclass(frozen=True)
class Plan:
    """All that decides the order. Equal plans give equal batches, whatever the machine, threads or time of day."""

    fragment_rows: tuple[int, ...]
    batch_rows: int
    chunk_batches: int
    first_batches: int = 1
    shuffle: bool = False
    seed: int = 0
    drop_last: bool = False
    ranks: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        if self.batch_rows < 1:
            raise ArgumentError(f"batch_size is {self.batch_rows}; wanted at least 1 row")
        if self.ranks < 1 or not 0 <= self.rank < self.ranks:
            raise ArgumentError(
                f"rank {self.rank} of {self.ranks}; wanted 0 <= global_rank < global_size, as numbered by the launcher"
            )

    @cached_property
    def total_rows(self) -> int:
        return sum(self.fragment_rows)

    @cached_property
    def whole_steps(self) -> int:
        """Steps in which every rank gets a whole batch."""
        return self.total_rows // (self.batch_rows * self.ranks)

    @cached_property
    def left_rows(self) -> int:
        """Rows beyond the whole steps; all ranks share them in one last step, unless it is dropped."""
        return self.total_rows - self.whole_steps * self.batch_rows * self.ranks

    @property
    def steps(self) -> int:
        """Batches in an epoch, the same for every rank."""
        return self.whole_steps + (self.left_rows > 0 and not self.drop_last)

    @cached_property
    def share(self) -> tuple[int, int]:
        """This rank's part of the line of rows: its first row, and how many."""
        left = 0 if self.drop_last else self.left_rows
        each, more = divmod(left, self.ranks)
        whole = self.whole_steps * self.batch_rows
        return self.rank * (whole + each) + min(self.rank, more), whole + each + (self.rank < more)

    @property
    def padding(self) -> int:
        """1 if fewer rows are left than ranks and this rank must repeat a row to take part in the last step."""
        return int(self.steps > self.whole_steps and self.share[1] == self.whole_steps * self.batch_rows)

    @property
    def rows(self) -> int:
        """Rows that this rank delivers in an epoch, the repeated one not counted."""
        return self.share[1]

    def chunks(self, epoch: int, first_batch: int = 0) -> Iterator[Chunk]:
        """The chunks of an epoch in order, from the one that holds batch `first_batch` on."""
        line = self._line(epoch)
        start, rows = self.share
        batches = -(-rows // self.batch_rows)
        done, size = 0, min(self.first_batches, self.chunk_batches)
        while done < batches:
            left = batches - done
            size = -(-left // 2) if size < left < 2 * size else min(size, left)  # no small rest, mixed with itself only
            if done + size > first_batch:
                first = start + done * self.batch_rows
                last = min(first + size * self.batch_rows, start + rows)
                yield self._chunk(line, epoch, done, first, last)
            done, size = done + size, min(2 * size, self.chunk_batches)
        if self.padding and first_batch <= batches:
            first = min(start, self.total_rows - 1)
            yield self._chunk(line, epoch, batches, first, first + 1, padding=1)

    def _line(self, epoch: int) -> tuple[NDArray[np.int64], list[int]]:
        """The fragments in this epoch's order, and the row of the line at which each ends."""
        count = len(self.fragment_rows)
        if self.shuffle:
            order = permute.permutation(count, permute.key(self.seed, epoch)).astype(np.int64)
        else:
            order = np.arange(count, dtype=np.int64)
        ends = np.cumsum(np.asarray(self.fragment_rows, np.int64)[order])
        return order, ends.tolist()

    def _chunk(
        self, line: tuple[NDArray[np.int64], list[int]], epoch: int, batch: int, first: int, last: int, padding: int = 0
    ) -> Chunk:
        order, ends = line
        spans: list[Span] = []
        row, place = first, bisect_right(ends, first)
        while row < last:
            fragment = int(order[place])
            begin = ends[place] - self.fragment_rows[fragment]
            stop = min(last, ends[place])
            if stop > row:
                spans.append(Span(fragment, row - begin, stop - row, row - first))
            row, place = stop, place + 1
        key = permute.key(self.seed, epoch, first + 1) if self.shuffle else None
        return Chunk(batch, last - first, tuple(spans), self.batch_rows, key, padding)
