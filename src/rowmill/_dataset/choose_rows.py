"""Choosing rows of a dataset: the base class of `Dataset` for `filter`, `split`, `folds`, `slice`, `sample`, `concat`.

All are lazy: they give datasets over the same files. What is chosen is decided in `row_choices`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rowmill._dataset.moments import moment
from rowmill._dataset.overlap import common_row
from rowmill._dataset.row_choices import HashShare, Outside, RowNumbers, checked, condition
from rowmill._system.interrupts import interruptible
from rowmill.errors import ArgumentError, OverlapError, missing_column
from rowmill.graph.saved.expressions import save_expression
from rowmill.schema import Schema
from rowmill.sources.files.fingerprint import of_rows
from rowmill.sources.names import column
from rowmill.sources.source import Fragment, Source
from rowmill.sources.wrap.concatenated import ConcatenatedSource
from rowmill.sources.wrap.filtered import RowChoice
from rowmill.sources.wrap.repartitioned import JoinedSource
from rowmill.sources.wrap.time_cut import TimeCut

if TYPE_CHECKING:
    from rowmill.dataset import Dataset

Names = str | Sequence[str]


class ChoosesRows:
    """What `Dataset` can do with some of its rows."""

    source: Source
    schema: Schema

    def _checked(self: Any, choice: RowChoice, progress: bool | None = None) -> Dataset:
        """The chosen rows. What cannot be compared is said now, not when rows are counted."""
        choice.chosen(self.source.read(Fragment(0, 0, 0), choice.columns), 0)
        chosen: Dataset = self._choose(choice, progress)
        return chosen

    @interruptible
    def filter(self, *conditions: Any, progress: bool | None = None) -> Dataset:
        """The rows for which all conditions hold: expressions such as `pl.col("day") >= date(2024, 1, 1)`, or PyArrow's
        tuples, `[("day", ">=", date(2024, 1, 1))]`. A null does not hold.

        Row groups that statistics or folders rule out are not read. How many rows are left is counted when it is first
        asked for (by `num_rows`, a loader, `fit`), in one pass over the columns of the conditions. A condition looks at
        one row at a time: no means, no shifts.
        """
        given = conditions[0] if len(conditions) == 1 else list(conditions)
        return self._checked(condition(given, self.schema), progress)

    @interruptible
    def split(
        self,
        shares: float | Sequence[float] | Sequence[pl.Expr] | None = None,
        *,
        by: Names | None = None,
        seed: int = 0,
        time: str | None = None,
        at: Any = None,
        later_statistics: bool = False,
    ) -> tuple[Dataset, ...]:
        """Disjoint datasets that together have all rows.

        `split(0.8)` gives two, `split([0.8, 0.1, 0.1])` three: each row goes to one of them by a hash of its number and
        `seed`, or with `by="user_id"` by a hash of its keys, so that no key is on both sides. Shares are met on
        average. `split(time="ts", at=moment)` gives the rows before a moment, and those at or after it; a null time is
        an error. `split([pl.col("day") < 5, pl.col("day") >= 5])` gives the rows of each condition, which must have
        none in common (`OverlapError`) and may leave some out. The parts are the same on every machine, however the
        table is cut into files and row groups.

        After a split in time, a workflow that was fitted on rows at or after the moment is refused for both parts
        (`LeakageError`), unless `later_statistics=True`.
        """
        if (time is None) != (at is None) or (shares is None) == (time is None):
            raise ArgumentError("give a share, such as split(0.8), or a moment: split(time='ts', at=datetime(...))")
        if time is not None:
            if by is not None:
                raise ArgumentError("by= goes with shares; a split in time is by time alone")
            return self._split_at(time, at, later_statistics)
        if isinstance(shares, list | tuple) and any(isinstance(one, pl.Expr) for one in shares):
            parts = tuple(self.filter(one) for one in shares)
            for part, other in combinations(parts, 2):
                part.check_disjoint(other)
            return parts
        keys = self._keys(by)
        edges = _edges([shares, 1 - shares] if isinstance(shares, int | float) else list(shares or []))
        return tuple(self._checked(HashShare(keys, _whole(seed), low, high)) for low, high in pairwise(edges))

    def _split_at(self: Any, time: str, at: Any, later_statistics: bool) -> tuple[Dataset, ...]:
        if time not in self.schema:
            raise missing_column(time, "to split by", self.schema.column_names)
        dtype = self.schema[time].dtype
        when = moment(at, dtype) if isinstance(at, str) and dtype.startswith("date") else at
        parts = (column(time) < when, column(time) >= when)
        made = tuple(self._checked(checked(save_expression(part), self.schema, never_null=time)) for part in parts)
        for part, before in zip(made, (True, False), strict=True):
            cut = TimeCut(time, when, before, later_statistics, of_rows(self.source))
            part.cuts = (*self.cuts, cut)
        return made

    @interruptible
    def check_disjoint(self, *others: Dataset) -> None:
        """Raise `OverlapError` if another dataset has a row that this one has, such as training and test data that were
        chosen by hand. Rows are compared by file, row group and number; values are not read, but by conditions."""
        for other in others:
            if (place := common_row(self.source, other.source)) is not None:
                raise OverlapError(
                    f"both datasets have {place}, and maybe more rows: a model would be tested on what it was trained "
                    f"on; use conditions that exclude each other (< and >= of one value), or let split() make both: "
                    f"split(0.8), split(0.8, by=...), split(time=..., at=...)"
                )

    def folds(self, count: int, *, by: Names | None = None, seed: int = 0) -> Iterator[tuple[Dataset, Dataset]]:
        """`count` pairs of training and validation data. Each row is in the validation data of one pair, and in the
        training data of the others. `by` and `seed` as in `split`."""
        if not isinstance(count, int) or isinstance(count, bool) or count < 2:
            raise ArgumentError(f"folds({count!r}); wanted a whole number of at least 2")
        keys, edges = self._keys(by), [number / count for number in range(count + 1)]
        for low, high in pairwise(edges):
            valid = HashShare(keys, _whole(seed), low, high)
            yield self._checked(Outside((valid,))), self._checked(valid)

    @interruptible
    def slice(self: Any, start: int, rows: int | None = None) -> Dataset:
        """`rows` rows from row `start` on, or all from there on. A negative `start` counts from the end."""
        for number in (start, 0 if rows is None else rows):
            if not isinstance(number, int) or isinstance(number, bool):
                raise ArgumentError(f"slice({start!r}, {rows!r}); wanted whole numbers")
        total = sum(fragment.rows for fragment in self.source.fragments)
        first = min(max(0, start + total if start < 0 else start), total)
        last = total if rows is None else min(total, first + rows)
        if rows is not None and rows < 0:
            raise ArgumentError(f"slice of {rows} rows; wanted 0 or more")
        pieces, before = [], 0
        for fragment in self.source.fragments:
            begin, end = max(first - before, 0), min(last - before, fragment.rows)
            if begin < end:
                pieces.append(fragment.slice(begin, end - begin))
            before += fragment.rows
        made: Dataset = self._like(JoinedSource(self.source, pieces, [piece.rows for piece in pieces]))
        return made

    @interruptible
    def sample(self, share: float | None = None, *, n: int | None = None, seed: int = 0) -> Dataset:
        """A random sample, in table order: a share of the rows on average, or exactly `n` of them, each row once."""
        if (share is None) == (n is None):
            raise ArgumentError("give one of a share, such as sample(0.1), and a number of rows: sample(n=1000)")
        if share is not None:
            return self._checked(HashShare((), _whole(seed), 0.0, _edges([share, 1 - share])[1]))
        total = sum(fragment.rows for fragment in self.source.fragments)
        if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= total:
            raise ArgumentError(f"sample of {n!r} rows; wanted a whole number from 0 to the table's {total}")
        drawn = np.random.Generator(np.random.Philox(_whole(seed))).choice(total, n, replace=False, shuffle=False)
        return self._checked(RowNumbers(np.sort(drawn).astype(np.int64)))

    @classmethod
    def concat(cls, datasets: Sequence[Any]) -> Dataset:
        """The rows of several datasets, one after another. They have the same columns, in any order; numbers become as
        wide as is needed. Tags and settings are those of the first."""
        from rowmill.dataset import Dataset

        opened = [one if isinstance(one, Dataset) else Dataset(one) for one in datasets]
        source = ConcatenatedSource([one.source for one in opened])
        return opened[0]._like(source)

    def _keys(self, by: Names | None) -> tuple[str, ...]:
        keys = (by,) if isinstance(by, str) else tuple(by or ())
        for name in keys:
            if name not in self.schema:
                raise missing_column(name, "to split by", self.schema.column_names)
        return keys


def _whole(seed: Any) -> int:
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
        raise ArgumentError(f"seed is {seed!r}; wanted a whole number of 0 or more")
    return seed


def _edges(shares: Sequence[Any]) -> list[float]:
    """Where the parts of a split begin and end between 0 and 1."""
    good = all(isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one <= 1 for one in shares)
    if len(shares) < 2 or not good or abs(sum(shares) - 1) > 1e-9:
        raise ArgumentError(f"found shares {list(shares)}; wanted at least two numbers from 0 to 1 that add up to 1")
    return [0.0, *list(accumulate(shares))[:-1], 1.0]
