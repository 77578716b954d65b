"""How often each value occurs: the vocabulary of a column, of several that share one, or of their combinations.

Whole numbers are counted in a hash table of our own, in place; everything else by Polars, fragment by fragment. What
outgrows its share of memory goes to disk in shards by hash, and is added up shard by shard at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill import _native
from rowmill.errors import ColumnError
from rowmill.sources.names import columns, frame_of
from rowmill.sources.owned import owned
from rowmill.statistics.moments import leaves
from rowmill.statistics.spill import Spilled, shards
from rowmill.statistics.statistic import KEEP
from rowmill.statistics.values import from_whole, is_whole, whole, without_nan

COUNT = "__count__"
_START = 1 << 10
_NEW_ROWS, _NEW_BYTES = 1 << 16, 16 << 20  # counted values that may wait to be added up
_FULL = 0.55  # of the slots; a probe then looks at 1.6 of them on average


@dataclass
class Counted:
    """Values with how often each was seen, and how many nulls; the values of whole-number columns in a hash table."""

    nulls: int = 0
    table: Tally | None = None
    frames: list[pl.DataFrame] = field(default_factory=list)
    compacted: int = 0  # rows of frames[0], which has each value once
    compacted_bytes: int = 0  # and its bytes
    new_bytes: int = 0  # of the other frames
    spilled: Spilled | None = None

    @property
    def bytes(self) -> int:
        held = sum(int(frame.estimated_size()) for frame in self.frames)
        return held + (0 if self.table is None else self.table.keys.nbytes * 2)


@dataclass(frozen=True)
class Counts:
    """The number of times each value of `groups` occurs, as a frame of the values and their `COUNT`, and the nulls.

    Each group is a tuple of columns whose rows are combined; several groups share one vocabulary. `memory`: bytes
    above which counts go to disk. `keep`: how many values may be kept only to go on with more rows (None: any number).
    """

    groups: tuple[tuple[str, ...], ...]
    memory: int = 1 << 30
    keep: int | None = KEEP

    def __post_init__(self) -> None:
        if COUNT in self.columns:
            raise ColumnError(f"a column to be counted is named {COUNT!r}, which is needed for the counts; rename it")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for group in self.groups for name in group))

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the values in the result: those of the first group."""
        return self.groups[0]

    def start(self) -> Counted:
        return Counted()

    def update(self, seen: Counted, frame: pl.DataFrame) -> Counted:
        for group in self.groups:
            if len(group) == 1:
                self._add_column(seen, without_nan(leaves(frame.get_column(group[0]))))
            else:
                self._add_rows(seen, frame.select(columns(group)))
        return self._bounded(seen)

    def _add_column(self, seen: Counted, values: pl.Series) -> None:
        present = values.drop_nulls()
        seen.nulls += len(values) - len(present)
        if is_whole(values.dtype) and not seen.frames and (seen.table is None or seen.table.dtype == values.dtype):
            if seen.table is None:
                seen.table = Tally(values.dtype)
            seen.table.count(whole(present).to_numpy())
        elif len(present):
            self._as_frames(seen)
            self._add(seen, present.alias("values").value_counts(name=COUNT).rename({"values": self.keys[0]}))

    def _add_rows(self, seen: Counted, rows: pl.DataFrame) -> None:
        given = zip(rows.get_columns(), self.keys, strict=True)
        rows = frame_of(without_nan(column).alias(key) for column, key in given)
        counted = rows.group_by(columns(self.keys)).len(COUNT)
        empty = counted.filter(pl.all_horizontal(key.is_null() for key in columns(self.keys)))
        seen.nulls += int(empty[COUNT].sum())
        self._add(
            seen, counted.join(empty, on=columns(self.keys), how="anti", nulls_equal=True) if len(empty) else counted
        )

    def _as_frames(self, seen: Counted) -> None:
        """Columns of different types share a vocabulary: no hash table can hold it."""
        if seen.table is not None:
            table, seen.table = seen.table, None
            self._add(seen, table.frame(self.keys[0]))

    def _add(self, seen: Counted, counted: pl.DataFrame) -> None:
        seen.frames.append(owned(counted.with_columns(pl.col(COUNT).cast(pl.Int64))))
        seen.new_bytes += int(seen.frames[-1].estimated_size())
        new_rows = sum(frame.height for frame in seen.frames[1:])
        if new_rows > max(seen.compacted, _NEW_ROWS) or seen.new_bytes > max(seen.compacted_bytes, _NEW_BYTES):
            self._compact(seen)

    def _compact(self, seen: Counted) -> None:
        if len(seen.frames) > 1:
            joined = pl.concat(seen.frames, how="vertical_relaxed")
            seen.frames = [owned(joined.group_by(columns(self.keys)).agg(pl.col(COUNT).sum()))]
        seen.compacted = seen.frames[0].height if seen.frames else 0
        seen.compacted_bytes = int(seen.frames[0].estimated_size()) if seen.frames else 0
        seen.new_bytes = 0

    def _bounded(self, seen: Counted) -> Counted:
        return self.spill(seen) if seen.bytes > self.memory else seen

    def size(self, seen: Counted) -> int:
        """The bytes that an accumulator takes in memory."""
        return seen.bytes

    def spill(self, seen: Counted) -> Counted:
        """This accumulator with its counts on disk."""
        if seen.spilled is None:
            seen.spilled = Spilled.new()
        seen.spilled.write(self._held(seen), self.keys)
        seen.table, seen.frames, seen.compacted, seen.compacted_bytes, seen.new_bytes = None, [], 0, 0, 0
        return seen

    def _held(self, seen: Counted) -> pl.DataFrame | None:
        """What is in memory, each value once; None if there is nothing."""
        if seen.table is not None:
            return seen.table.frame(self.keys[0])
        self._compact(seen)
        return seen.frames[0] if seen.frames else None

    def merge(self, left: Counted, right: Counted) -> Counted:
        left.nulls += right.nulls
        if right.spilled is not None:
            left.spilled = right.spilled if left.spilled is None else left.spilled + right.spilled
        if left.table is not None and right.table is not None and left.table.dtype == right.table.dtype:
            left.table.add(right.table)
        elif left.table is None and not left.frames:
            left.table, left.frames, left.compacted = right.table, right.frames, right.compacted
        else:
            self._as_frames(left)
            self._as_frames(right)
            for frame in right.frames:
                self._add(left, frame)
        return self._bounded(left)

    def finish(self, seen: Counted) -> Values:
        """Values with their counts, in no order."""
        return self._result(self._total(seen), seen.nulls)

    def _total(self, seen: Counted) -> pl.DataFrame | None:
        held = self._held(seen)
        return held if seen.spilled is None else seen.spilled.total(held, self.keys, COUNT)

    def _result(self, counted: pl.DataFrame | None, nulls: int) -> Values:
        seen = 0 if counted is None else int(counted[COUNT].sum())
        return Values(counted, nulls, seen, seen)

    def kept(self, result: Values) -> Values | None:
        return result if result.frame is None or self._may_keep(frame_in(result.frame).height) else None

    def _may_keep(self, values: int) -> bool:
        return self.keep is None or values <= self.keep

    def resume(self, kept: Values) -> Counted:
        frames = [frame_in(frame) for frame in (kept.frame, kept.rest) if frame is not None]
        if any(frame.columns != [*self.keys, COUNT] for frame in frames):
            raise ValueError(f"kept counts of other columns than {self.keys}")
        seen = Counted(kept.nulls)
        if frames:
            counted = pl.concat(frames, how="vertical_relaxed")
            dtype = counted.schema[self.keys[0]]
            if len(self.keys) == 1 and is_whole(dtype):
                seen.table = Tally.of(whole(counted[self.keys[0]]).to_numpy(), counted[COUNT].to_numpy(), dtype)
            else:
                self._add(seen, counted)
        return seen

    def split(self, seen: Counted, count: int) -> Iterator[Counted]:
        """Counts in parts by hash: a value is in the same part wherever it was counted."""
        total = self._total(seen)
        parts = [None] * count if total is None else shards(total, self.keys, count)
        for number, part in enumerate(parts):
            frames = [] if part is None else [part]
            yield Counted(0 if number else seen.nulls, frames=frames, compacted=0 if part is None else part.height)

    def join(self, results: Sequence[Values]) -> Values:
        """One result from those of all parts."""
        frames = [frame for result in results for frame in (result.frame, result.rest) if frame is not None]
        joined = pl.concat(frames, how="vertical_relaxed") if frames else None
        made = self._result(joined, sum(result.nulls for result in results))
        whole = made.whole and all(result.whole for result in results)
        rest = made.rest if whole else None
        return replace(made, seen=sum(result.seen for result in results), whole=whole, rest=rest)


@dataclass(frozen=True)
class Ranked(Counts):
    """Counts, most frequent first and equally frequent ones in ascending order; only those that are wanted.

    `least`: how often a value has to occur. `most`: how many values to keep, or None for all.
    """

    least: int = 0
    most: int | None = None

    def _result(self, counted: pl.DataFrame | None, nulls: int) -> Values:
        found = super()._result(counted, nulls)
        if counted is None:
            return found
        ranked = self._ranked(counted)
        rest, whole = None, ranked.height == counted.height
        if not whole and self._may_keep(counted.height - ranked.height):
            there = columns(self.keys)
            rest, whole = counted.join(ranked, on=there, how="anti", nulls_equal=True), True
        return replace(found, frame=ranked, kept=int(ranked[COUNT].sum()), rest=rest, whole=whole)

    def _ranked(self, counted: pl.DataFrame) -> pl.DataFrame:
        kept = counted.filter(pl.col(COUNT) >= self.least) if self.least > 1 else counted
        ranked = rank(kept, self.keys)
        return ranked if self.most is None else ranked.head(self.most)

    def kept(self, result: Values) -> Values | None:
        return result if result.whole else None


@dataclass(frozen=True)
class Values:
    """Counted values (None if there are none); rows that were null, that were not, and whose value is among them.

    `rest`: the values that are not among them; `whole`: whether all of these are there.
    """

    frame: Any  # a frame, or a table that may be on disk
    nulls: int
    seen: int
    kept: int
    rest: pl.DataFrame | None = None
    whole: bool = True


def frame_in(table: Any) -> pl.DataFrame:
    """The rows of a frame, or of a table that may be on disk."""
    frame: pl.DataFrame = table if isinstance(table, pl.DataFrame) else table.frame
    return frame


class Tally:
    """A hash table of whole numbers and their counts. A slot without a count is empty."""

    def __init__(self, dtype: pl.DataType, slots: int = _START) -> None:
        self.dtype = dtype
        self.used = 0
        self.keys = np.empty(slots, np.int64)
        self.counts = np.zeros(slots, np.int64)

    def count(self, values: NDArray[np.int64]) -> None:
        at = 0
        while True:
            room = int(len(self.keys) * _FULL)
            at, self.used = _native.count_into(values, at, self.keys, self.counts, self.used, room)
            if at == len(values):
                return
            self._grow(4 if self.used < 1 << 20 else 2)

    def _grow(self, times: int) -> None:
        keys, counts = self.keys, self.counts
        self.keys, self.counts = np.empty(len(keys) * times, np.int64), np.zeros(len(keys) * times, np.int64)
        _native.put_counts(keys, counts, self.keys, self.counts)

    def add(self, other: Tally) -> None:
        while self.used + other.used > len(self.keys) * _FULL:
            self._grow(2)
        self.used += _native.put_counts(other.keys, other.counts, self.keys, self.counts)

    def frame(self, name: str) -> pl.DataFrame:
        """The values and their counts."""
        there = self.counts > 0
        return frame_of([from_whole(self.keys[there], name, self.dtype), pl.Series(COUNT, self.counts[there])])

    def __getstate__(self) -> dict[str, Any]:
        there = self.counts > 0
        return {"dtype": self.dtype, "keys": self.keys[there], "counts": self.counts[there]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["dtype"], _slots(len(state["keys"])))  # type: ignore[misc]
        self.used = _native.put_counts(state["keys"], state["counts"], self.keys, self.counts)

    @classmethod
    def of(cls, keys: NDArray[np.int64], counts: NDArray[np.int64], dtype: pl.DataType) -> Tally:
        """The table of these values, each of which is there once."""
        made = cls(dtype, _slots(len(keys)))
        made.used = _native.put_counts(keys, counts, made.keys, made.counts)
        return made


def _slots(values: int) -> int:
    """The slots of a table for as many values: a power of two."""
    return 1 << (max(_START, int(values / _FULL) + 1) - 1).bit_length()


def rank(counted: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Most frequent first, equally frequent ones in ascending order.

    Count and value are sorted as one number where both fit in 64 bits: 20 times faster than as two columns.
    """
    values = counted.get_column(keys[0]).alias("values")
    if len(keys) == 1 and counted.height and values.dtype.is_integer() and is_whole(values.dtype):
        counts = counted.get_column(COUNT).to_numpy()
        low, high, most = int(values.min()), int(values.max()), int(counts.max())  # type: ignore[arg-type]
        bits = (high - low).bit_length()
        if bits + most.bit_length() <= 63 and values.dtype != pl.UInt64:
            packed = (most - counts) << bits
            packed |= values.cast(pl.Int64).to_numpy() - low
            packed.sort()
            found = pl.Series("values", (packed & ((1 << bits) - 1)) + low).cast(values.dtype).alias(keys[0])
            return frame_of([found, pl.Series(COUNT, most - (packed >> bits))])
    down = [True, *(False for _ in keys)]
    return counted.sort([pl.col(COUNT), *columns(keys)], descending=down, nulls_last=False)
