"""The order of an epoch as integers: which rows of which fragments make up which batch, for one rank.

Comes in: rows per fragment and a handful of settings. Goes out: chunks, each a list of spans (runs of rows of a
fragment) and the place of every row among the chunk's batches. A pure function of its arguments: no clock, no thread,
no random state. Called by `run.stream`; `run.pipeline` only obeys it.

    fragments ──(order drawn from seed, epoch)──► one long sequence of rows ──► cut into equal lanes, one for each rank
    ──► cut into chunks of whole batches ──(places drawn from seed, epoch, first row of chunk)──► batches

With `lanes` there are more lanes than ranks, and a rank takes several side by side: a batch has an equal part of each.
The lanes do not depend on the number of ranks, so neither do the global batches.

Chunks start small and double until they have their full size, so that the first batch needs one fragment only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rowmill.errors import ArgumentError
from rowmill.feed.order import permute

Last = Literal["short", "drop", "pad"]


@dataclass(frozen=True, slots=True)
class Span:
    """Rows `start` to `start + rows` of fragment number `fragment`, which are rows `at` and on of their chunk."""

    fragment: int
    start: int
    rows: int
    at: int


@dataclass(frozen=True, slots=True)
class LaneSegment:
    """A lane's rows of a chunk: how many, in batches of how many, and the key that places them (None: in order)."""

    rows: int
    batch_rows: int
    key: int | None

    def places(self, empty: permute.Empty) -> NDArray[np.uint32]:
        if self.key is None:
            return np.arange(self.rows, dtype=np.uint32)
        return permute.places(self.rows, self.key, empty)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is shuffled together: whole batches (the last of an epoch may be short), and where their rows come from."""

    first_batch: int
    batches: int
    batch_rows: int
    spans: tuple[Span, ...]
    lane_segments: tuple[LaneSegment, ...]
    whole: int  # batches that are not short
    padding: int = 0  # padding rows of the last batch, after the real ones

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.lane_segments)

    @property
    def in_order(self) -> bool:
        """Whether rows come to their places in the order in which they are read."""
        return len(self.lane_segments) == 1 and self.lane_segments[0].key is None

    def places(self, empty: permute.Empty = np.empty) -> NDArray[np.uint32]:
        """For each row, in the order of the spans, its place among the rows of the chunk's batches."""
        if len(self.lane_segments) == 1:
            return self.lane_segments[0].places(empty)
        placed, before, short_before = [], 0, 0
        for segment in self.lane_segments:
            batch, within = np.divmod(segment.places(empty), np.uint32(segment.batch_rows))
            start = np.where(batch < self.whole, before, short_before)
            placed.append((batch * np.uint32(self.batch_rows) + start + within).astype(np.uint32))
            before += segment.batch_rows
            short_before += segment.rows - self.whole * segment.batch_rows
        together = np.concatenate(placed)
        key = self.lane_segments[0].key
        if key is None:
            return together
        return permute.order_within(self.batch_rows, len(together), permute.key(key))[together]


@dataclass(frozen=True)
class Plan:
    """All that decides the order. Equal plans give equal batches, whatever the machine, threads or time of day."""

    fragment_rows: tuple[int, ...]
    batch_rows: int
    chunk_batches: int
    first_batches: int = 1
    shuffle: bool = False
    seed: int = 0
    last: Last = "short"
    ranks: int = 1
    rank: int = 0
    lanes: int | None = None  # of all ranks together; by default one each
    full: bool = False  # the sequence of rows is in random order already: see `permute.permuted_rows`

    def __post_init__(self) -> None:
        if self.batch_rows < 1:
            raise ArgumentError(f"batch_size is {self.batch_rows}; wanted at least 1 row")
        if self.ranks < 1 or not 0 <= self.rank < self.ranks:
            raise ArgumentError(
                f"rank {self.rank} of {self.ranks}; wanted 0 <= global_rank < global_size, as numbered by the launcher"
            )
        if self.last not in ("short", "drop", "pad"):
            raise ArgumentError(f"last={self.last!r}; wanted 'short', 'drop' or 'pad'")
        lanes = self.ranks if self.lanes is None else self.lanes
        if lanes < 1 or lanes % self.ranks or (self.batch_rows * self.ranks) % lanes:
            raise ArgumentError(
                f"elastic={lanes} with {self.ranks} ranks and {self.batch_rows * self.ranks} rows in a global batch; "
                f"wanted a multiple of the ranks that divides the global batch"
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
        return self.whole_steps + (self.left_rows > 0 and self.last != "drop")

    @property
    def lane_count(self) -> int:
        """Lanes of all ranks together."""
        return self.ranks if self.lanes is None else self.lanes

    @property
    def lane_rows(self) -> int:
        """A lane's part of a batch."""
        return self.batch_rows * self.ranks // self.lane_count

    @cached_property
    def shares(self) -> tuple[tuple[int, int], ...]:
        """For each of this rank's lanes: its first row in the sequence, and how many it has."""
        left = 0 if self.last == "drop" else self.left_rows
        each, more = divmod(left, self.lane_count)
        whole = self.whole_steps * self.lane_rows
        own = self.lane_count // self.ranks
        return tuple(
            (lane * (whole + each) + min(lane, more), whole + each + (lane < more))
            for lane in range(self.rank * own, (self.rank + 1) * own)
        )

    @cached_property
    def rows(self) -> int:
        """Rows that this rank delivers in an epoch, padding not counted."""
        return sum(rows for _, rows in self.shares)

    @property
    def padding(self) -> int:
        """Rows that fill up this rank's last batch: all that are missing, or one if it would have none at all."""
        if self.steps == self.whole_steps:
            return 0
        own = self.rows - self.whole_steps * self.batch_rows
        return self.batch_rows - own if self.last == "pad" else int(own == 0)

    def chunk_starts(self) -> Iterator[tuple[int, int]]:
        """The first batch of each chunk, and its number of batches."""
        done, size = 0, min(self.first_batches, self.chunk_batches)
        while done < self.steps:
            left = self.steps - done
            size = -(-left // 2) if size < left < 2 * size else min(size, left)  # no small rest, mixed with itself only
            yield done, size
            done, size = done + size, min(2 * size, self.chunk_batches)

    def chunks(self, epoch: int, first_batch: int = 0) -> Iterator[Chunk]:
        """The chunks of an epoch in order, from the one that holds batch `first_batch` on."""
        sequence = self._row_sequence(epoch)
        for start, batches in self.chunk_starts():
            if start + batches > first_batch:
                yield self._chunk(sequence, epoch, start, batches)

    def _row_sequence(self, epoch: int) -> tuple[NDArray[np.int64], list[int]]:
        """The fragments in this epoch's order, and the row of the sequence at which each ends."""
        count = len(self.fragment_rows)
        if self.shuffle:
            order = permute.permutation(count, permute.key(self.seed, epoch)).astype(np.int64)
        else:
            order = np.arange(count, dtype=np.int64)
        ends = np.cumsum(np.asarray(self.fragment_rows, np.int64)[order])
        return order, ends.tolist()

    def _chunk(self, sequence: tuple[NDArray[np.int64], list[int]], epoch: int, batch: int, batches: int) -> Chunk:
        spans: list[Span] = []
        lane_segments: list[LaneSegment] = []
        at = 0
        for start, rows in self.shares:
            first = start + batch * self.lane_rows
            last = min(first + batches * self.lane_rows, start + rows)
            spans += self._spans(sequence, first, last, at)
            key = permute.key(self.seed, epoch, first + 1) if self.shuffle else None
            lane_segments.append(LaneSegment(last - first, self.lane_rows, key))
            at += last - first
        padding = self.padding if batch + batches == self.steps else 0
        whole = min(batches, self.whole_steps - batch)
        return Chunk(batch, batches, self.batch_rows, tuple(spans), tuple(lane_segments), whole, padding)

    def _spans(self, sequence: tuple[NDArray[np.int64], list[int]], first: int, last: int, at: int) -> Iterator[Span]:
        """Rows `first` to `last` of the sequence, which are rows `at` and on of their chunk."""
        order, ends = sequence
        row, place = first, bisect_right(ends, first)
        while row < last:
            fragment = int(order[place])
            begin = ends[place] - self.fragment_rows[fragment]
            stop = min(last, ends[place])
            if stop > row:
                yield Span(fragment, row - begin, stop - row, at + row - first)
            row, place = stop, place + 1
