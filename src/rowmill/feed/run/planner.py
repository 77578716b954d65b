"""Plans epochs: the settings of a loader in, a `Plan` of one epoch out. Called by `run.stream`.

Here the memory setting becomes the sizes of fragments and chunks. The order itself is worked out in `order.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowmill.errors import ArgumentError, MemoryLimitError
from rowmill.feed.memory.budget import Budget
from rowmill.feed.memory.row_sizes import RowSizes
from rowmill.feed.order.chunk_size import chunk_rows, first_chunk_rows
from rowmill.feed.order.plan import Chunk, Last, Plan
from rowmill.feed.order.ranks import Ranks
from rowmill.feed.order.weighted_sampling import Draw
from rowmill.feed.report.text_table import bytes_text
from rowmill.sources.source import Fragment

GATHERED_ROWS = 65_536  # rows of a fully shuffled table that a thread gathers at once


@dataclass
class Planner:
    """The settings that decide the order of rows. `batch_size`, `seed` and `ranks` may change between two epochs."""

    fragments: Sequence[Fragment]
    sizes: RowSizes
    budget: Budget
    threads: int
    batch_size: int
    shuffle: bool
    full: bool  # shuffle="full": the rows of a complete store, in one random order
    seed: int
    last: Last
    find_ranks: Ranks
    elastic: int | None
    draw: Draw | None
    partition_bytes: float | None  # shuffled together, where the user sets it
    resumed_chunk: int | None = None  # batches of a chunk, where a state was saved with another memory="auto"

    @property
    def largest_fragment(self) -> int:
        return max((fragment.rows for fragment in self.fragments), default=1)

    @property
    def table_rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)

    def plan(self, epoch: int = 0, ranks: tuple[int, int] | None = None) -> Plan:
        """The order of an epoch, for the world size and rank given, or for those of this moment.

        Epochs differ only in how often rows are drawn by weight; the plan works out the order of each.
        """
        size, rank = ranks or self.find_ranks()
        self._check()
        # Chunks of an elastic plan are those of a single rank, or they would change with the number of ranks.
        chunk_unit = self.batch_size * (size if self.elastic else 1)
        first = first_chunk_rows(self.largest_fragment, self.sizes.unshuffled)
        return Plan(
            fragment_rows=self._fragment_rows(epoch),
            batch_rows=self.batch_size,
            chunk_batches=self.resumed_chunk or max(1, self._chunk_rows(size) // chunk_unit),
            first_batches=max(1, first // chunk_unit),
            shuffle=self.shuffle and not self.full,
            full=self.full,
            seed=self.seed,
            last=self.last,
            ranks=size,
            rank=rank,
            lanes=self.elastic,
        )

    def _check(self) -> None:
        if not isinstance(self.batch_size, int) or isinstance(self.batch_size, bool) or self.batch_size < 1:
            raise ArgumentError(f"batch_size is {self.batch_size!r}; wanted a whole number of at least 1 row")
        batch_bytes = self.batch_size * max(self.sizes.packed, self.sizes.planned)
        if batch_bytes > self.budget.chunk and self.table_rows * self.sizes.packed > self.budget.chunk:
            raise MemoryLimitError(
                f"a batch of {self.batch_size} rows takes {bytes_text(batch_bytes)}, more than the quarter that "
                f"batches get of memory={bytes_text(self.budget.total)}; pass "
                f"memory='{-(-int(batch_bytes * 4) // 10**6)}MB' or a smaller batch_size"
            )

    def _fragment_rows(self, epoch: int) -> tuple[int, ...]:
        if self.full:
            total = self.table_rows
            return tuple(min(GATHERED_ROWS, total - first) for first in range(0, total, GATHERED_ROWS))
        if self.draw is None:
            return tuple(fragment.rows for fragment in self.fragments)
        return tuple(drawn.rows for drawn in self.draw.drawn(self.fragments, self.seed, epoch, self.threads))

    def _chunk_rows(self, ranks: int) -> int:
        chunk_bytes = self.budget.chunk_of(1 if self.full else self.elastic or ranks)
        shuffled = self.shuffle and not self.full
        return chunk_rows(chunk_bytes, self.sizes.in_chunk, shuffled=shuffled, partition_bytes=self.partition_bytes)

    def peak_bytes(self, chunks: Sequence[Chunk]) -> int:
        """About the most memory an epoch of these chunks takes: fragments in flight, two chunks, and a batch."""
        rows, row_bytes = sorted((chunk.rows for chunk in chunks), reverse=True)[:2], self.sizes.in_chunk
        packed = min(self.budget.window, sum(rows) * row_bytes) + self.batch_size * row_bytes
        return int(packed + self.budget.decoding(self.threads, self.largest_fragment * self.sizes.read))
