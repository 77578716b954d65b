"""The plan report of `loader.plan()`: steps, memory, bytes, and how well the table is shuffled.

Comes in: a stream. Goes out: a `PlanReport`, worked out from the plan by arithmetic; one column is read only if the
caller names it. Called by `loader.plan()`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill._system.display import plural
from rowmill.errors import ArgumentError, DtypeError, missing_column
from rowmill.feed.order.plan import Chunk
from rowmill.feed.report.text_table import TextTable, bytes_text

if TYPE_CHECKING:
    from rowmill.feed.run.stream import Stream

MIXED_ROWS = 4_000_000  # rows whose neighbours are looked at
SMALL_BYTES = 1_000_000  # a fragment below this costs more to open than to decode


@dataclass(frozen=True)
class Mixing:
    """How far batch means of a column stray, in units of what they would under a perfect shuffle (1 is perfect)."""

    column: str
    mean: float
    perfect: float
    measured: float

    @property
    def ratio(self) -> float:
        return self.measured / self.perfect if self.perfect else 1.0


@dataclass(frozen=True)
class PlanReport(TextTable):
    """An epoch in figures. Row counts are of this rank unless they say otherwise."""

    steps: int
    ranks: int
    total_rows: int
    rows: int
    dropped_rows: int
    padding_rows: int
    batch_rows: int
    chunks: int
    chunk_rows: int
    peak_bytes: int
    memory: int
    read_bytes: float
    fragments: int
    fragment_rows: int
    cut_fragments: int
    small_fragments: int
    batch_mixing: float  # 1: a batch is drawn from the whole table; 0: its rows stand side by side in the table
    order_in_batch: float  # 1: rows of a batch stand in random order; 0: in the order of the table
    mixing: Mixing | None = None
    store: str | None = None
    order: str = "shuffled"  # "full": any row may be in any batch; "table": rows come in their order

    def _together(self) -> str:
        if self.order != "shuffled":
            return "all rows" if self.order == "full" else "none: rows come in the order of the table"
        return f"{self.chunk_rows:,} rows at most, in {plural(self.chunks, 'chunk')}"

    def table(self) -> tuple[str, list[tuple[str, str]]]:
        rows = [
            (
                "steps",
                f"{self.steps:,} on each of {plural(self.ranks, 'rank')}, batches of {self.batch_rows:,} rows",
            ),
            ("rows", f"{self.rows:,} of {self.total_rows:,}"),
            ("dropped", f"{self.dropped_rows:,} of all ranks"),
            ("padding", f"{self.padding_rows:,}"),
            ("shuffled together", self._together()),
            ("peak memory", f"{bytes_text(self.peak_bytes)} of {bytes_text(self.memory)}"),
            ("decoded", f"{bytes_text(self.read_bytes)} an epoch"),
            ("fragments", f"{self.fragments:,}, up to {self.fragment_rows:,} rows"),
        ]
        if self.cut_fragments:
            rows.append(("too large", f"{self.cut_fragments:,} row groups are read in slices: write smaller ones"))
        if self.small_fragments:
            rows.append(("too small", f"{self.small_fragments:,} fragments below 1 MB: write larger row groups"))
        rows.append(("batch mixing", f"{self.batch_mixing:.0%} (100%: every batch is drawn from the whole table)"))
        rows.append(("order in batches", f"{self.order_in_batch:.0%} (100%: random, 0%: as in the table)"))
        if self.store is not None:
            rows.append(("store", self.store))
        if self.mixing is not None:
            mix = self.mixing
            text = (
                f"batch means stray {mix.measured:.4g} from {mix.mean:.4g}, {mix.ratio:.2f} times a perfect shuffle's"
            )
            rows.append((f"mixing of {mix.column}", text))
        return "Plan", rows


def explain(stream: Stream, column: str | None = None, epoch: int = 0) -> PlanReport:
    """The report on an epoch. With `column`, that column is read once to see how well it is mixed."""
    plan = stream.plan(epoch)
    chunks = list(plan.chunks(epoch))
    largest = max((fragment.rows for fragment in stream.fragments), default=0)
    natural = stream.source.fragments
    delivered = plan.whole_steps * plan.batch_rows * plan.ranks
    batch_mixing, order_in_batch = _distances(stream, chunks)
    return PlanReport(
        steps=plan.steps,
        ranks=plan.ranks,
        total_rows=plan.total_rows,
        rows=plan.rows,
        dropped_rows=plan.total_rows - delivered if plan.last == "drop" else 0,
        padding_rows=plan.padding,
        batch_rows=plan.batch_rows,
        chunks=len(chunks),
        chunk_rows=max((chunk.rows for chunk in chunks), default=0),
        peak_bytes=stream.peak_bytes(chunks),
        memory=stream.memory,
        read_bytes=plan.rows * stream.read_bytes,
        fragments=len(stream.fragments),
        fragment_rows=largest,
        cut_fragments=sum(fragment.rows > largest for fragment in natural),
        small_fragments=sum(fragment.rows * stream.read_bytes < SMALL_BYTES for fragment in stream.fragments),
        batch_mixing=batch_mixing,
        order_in_batch=order_in_batch,
        mixing=None if column is None else _mixing(stream, chunks, column, epoch),
        store=None if stream.cached is None else stream.cached.text(),
        order="full" if stream.full else "shuffled" if stream.shuffle else "table",
    )


def _distances(stream: Stream, chunks: list[Chunk]) -> tuple[float, float]:
    """How far apart in the table two rows of a batch are, as a share of two rows of the whole table; and how far two
    rows are that follow each other in a batch, as a share of any two rows of it."""
    if stream.full:
        return 1.0, 1.0
    firsts = np.cumsum([0, *(fragment.rows for fragment in stream.fragments)])
    total, seen = int(firsts[-1]), 0
    pairs: list[NDArray[np.float64]] = []  # of each batch: the mean distance of two rows
    neighbours: list[NDArray[np.float64]] = []  # and of two that follow each other
    for chunk in sorted(chunks, key=lambda chunk: -chunk.rows):
        if seen > MIXED_ROWS:
            break
        spans = [np.arange(s.start, s.start + s.rows) + firsts[s.fragment] for s in chunk.spans]
        origins = np.empty(chunk.rows, np.int64)
        if spans:
            origins[chunk.places()] = np.concatenate(spans)
        size = min(chunk.batch_rows, chunk.rows)
        if size < 2:
            continue
        batches = origins[: chunk.rows // size * size].reshape(-1, size)
        neighbours.append(np.abs(np.diff(batches, axis=1)).mean(axis=1))
        batches.sort(axis=1)
        weights = 2.0 * np.arange(size) - size + 1  # the sum of all distances between sorted numbers is their product
        pairs.append(batches @ weights / (size * (size - 1) / 2))
        seen += chunk.rows
    if not pairs:
        return 1.0, 1.0
    apart = float(np.concatenate(pairs).mean())
    order = min(1.0, float(np.concatenate(neighbours).mean()) / apart) if stream.shuffle else 0.0
    return min(1.0, apart / ((total + 1) / 3)), order


def _mixing(stream: Stream, chunks: list[Chunk], column: str, epoch: int) -> Mixing:
    schema = stream.source.schema
    if stream.full:
        raise ArgumentError(f"shuffle='full' mixes {column!r} perfectly; leave the column out")
    if column not in schema:
        raise missing_column(column, "to look at", schema.column_names)
    means: list[NDArray[np.float64]] = []
    total, squares, count = 0.0, 0.0, 0
    for chunk, values in _values(stream, chunks, column, epoch):
        batch = chunk.places() // chunk.batch_rows
        rows = np.bincount(batch, minlength=chunk.batches)
        sums = np.bincount(batch, weights=values, minlength=chunk.batches)
        whole = rows == chunk.batch_rows
        means.append(sums[whole] / chunk.batch_rows)
        total, squares, count = total + values.sum(), squares + (values**2).sum(), count + len(values)
    found = np.concatenate(means) if means else np.empty(0)
    mean = total / max(1, count)
    variance = max(0.0, squares / max(1, count) - mean**2)
    size = chunks[0].batch_rows if chunks else 1
    left = max(0, count - size) / max(1, count - 1)  # batches are drawn without putting rows back
    measured = float(np.sqrt(np.mean((found - mean) ** 2))) if len(found) else 0.0
    return Mixing(column, float(mean), math.sqrt(variance / size * left), measured)


def _values(
    stream: Stream, chunks: list[Chunk], column: str, epoch: int
) -> Iterator[tuple[Chunk, NDArray[np.float64]]]:
    for chunk in chunks:
        parts = []
        for span in chunk.spans:
            series = stream.column(span, column, epoch)
            if series.dtype.is_temporal():
                series = series.to_physical()
            elif not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
                raise DtypeError(f"column {column!r} is {series.dtype}; wanted numbers or times to take means of")
            parts.append(series.cast(pl.Float64).fill_null(0.0).to_numpy())
        if parts:
            yield chunk, np.concatenate(parts)
