"""Systematic weighted sampling over a table that does not fit in memory: how often each row is drawn.

Systematic sampling (Madow 1949): the weights of all rows are summed up along an axis, which is sampled at equal
distances from a random offset that is drawn anew in every epoch. A row is drawn once for every sample that falls on its
part of the axis. So a row with k times the mean weight is drawn k times on average, and never more than once more or
less often. The draws of a fragment follow from its own weights and the sum of those before it. A fragment with more
draws than rows is read in several passes, which are spread over the epoch like fragments of their own. Called by
`run.planner` and `run.reader`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rowmill._system.lock import Lock
from rowmill._system.threads import map_threads
from rowmill.errors import ArgumentError, missing_column
from rowmill.feed.order import permute
from rowmill.sources.source import Fragment, Source

Weights = str | Callable[[int, int], ArrayLike]  # a column, or a function of a fragment's first row and row count


@dataclass(frozen=True, slots=True)
class Drawn:
    """One pass over a fragment: every `passes`-th of the rows drawn from it, from number `pass_number` on."""

    fragment: Fragment
    number: int
    pass_number: int
    passes: int
    rows: int
    seed: int
    epoch: int


def _check_function(weights: Callable[..., ArrayLike]) -> None:
    try:
        inspect.signature(weights).bind(0, 0)
    except TypeError as error:
        raise ArgumentError(
            f"the function given as weights= cannot be called with two numbers ({error}); wanted f(first, rows), which "
            f"gives a weight for each of `rows` rows of the table from row `first` on"
        ) from error
    except ValueError:  # some built-in functions have no signature
        return


_NUMBERS = ("int", "uint", "float", "bool", "decimal")


class Draw:
    """Where weights come from: a column, a function, or the classes of a column; and what is drawn by them."""

    def __init__(self, source: Source, weights: Weights | None, balance: str | None) -> None:
        if weights is not None and balance is not None:
            raise ArgumentError("both weights= and balance= are given; wanted one of them")
        if callable(weights):
            _check_function(weights)
        self._source = source
        self._function = weights if callable(weights) else None
        self._column = weights if isinstance(weights, str) else balance
        if self._column is not None and self._column not in source.schema:
            known = source.schema.column_names
            raise missing_column(self._column, "to draw rows by", known)
        if isinstance(weights, str) and not source.schema[weights].dtype.startswith(_NUMBERS):
            raise ArgumentError(f"weights={weights!r} is a column of {source.schema[weights].dtype}; wanted numbers")
        self._balance = balance is not None
        self._counts: dict[object, int] = {}
        self._lock = Lock()
        self._cumulative: list[float] = []  # sums of the weights before each fragment, and of all
        self._firsts: list[int] = []  # the first row of each fragment in the table
        self._latest: tuple[tuple[int, int], list[Drawn]] | None = None

    @property
    def name(self) -> str:
        """What rows are drawn by, for a saved position."""
        return f"{'balance' if self._balance else 'weights'}={self._column or 'function'}"

    def drawn(self, fragments: Sequence[Fragment], seed: int, epoch: int, threads: int) -> list[Drawn]:
        """What is drawn in an epoch: passes over fragments. The first call reads one column of the table."""
        with self._lock:
            if not self._cumulative:
                self._weigh(fragments, threads)
            if self._latest is None or self._latest[0] != (seed, epoch):
                counts = np.diff(self._sampled_before(np.asarray(self._cumulative), seed, epoch)).tolist()
                self._latest = (
                    (seed, epoch),
                    [
                        Drawn(
                            fragment, number, pass_number, passes, len(range(pass_number, count, passes)), seed, epoch
                        )
                        for number, (fragment, count) in enumerate(zip(fragments, counts, strict=True))
                        for passes in [-(-count // fragment.rows)]
                        for pass_number in range(passes)
                    ],
                )
            return self._latest[1]

    def read(self, drawn: Drawn, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of a pass, in table order; a row drawn twice is there twice."""
        wanted = list(columns) if self._column is None or self._column in columns else [*columns, self._column]
        frame = self._source.read(drawn.fragment, wanted)
        return frame[self._row_numbers(drawn, None if self._column is None else frame.get_column(self._column))]

    def row_numbers(self, drawn: Drawn) -> NDArray[np.int64]:
        """The rows of a pass, as numbers of rows of its fragment, in table order. Reads the column of weights."""
        return self._row_numbers(drawn, None if self._column is None else self._values(drawn.fragment))

    def _row_numbers(self, drawn: Drawn, column: pl.Series | None) -> NDArray[np.int64]:
        before = self._cumulative[drawn.number]
        column = None if column is None else column.alias("values")
        ends = before + np.cumsum(self._weights(drawn.fragment, drawn.number, column))
        times = np.diff(self._sampled_before(np.concatenate([[before], ends]), drawn.seed, drawn.epoch))
        return np.repeat(np.arange(drawn.fragment.rows), times)[drawn.pass_number :: drawn.passes]

    def _sampled_before(self, along: NDArray[np.float64], seed: int, epoch: int) -> NDArray[np.int64]:
        """How many samples lie before each of these points on the axis: none before its start, all before its end."""
        offset = (permute.key(seed, epoch, -1) >> 11) / 2**53
        places = along / self._cumulative[-1] * self._firsts[-1] if self._firsts[-1] else np.zeros_like(along)
        return np.floor(places + offset).astype(np.int64)

    def _weigh(self, fragments: Sequence[Fragment], threads: int) -> None:
        firsts = np.cumsum([0, *(f.rows for f in fragments)]).tolist()
        self._firsts = firsts
        if self._balance:
            counts: dict[object, int] = {}
            for column in map_threads(self._value_counts, fragments, threads, "rowmill-weights"):
                for value, count in column.iter_rows():
                    counts[value] = counts.get(value, 0) + count
            self._counts = counts  # all at once: an interrupt must not leave some of them
        sums = [0.0]
        for total in map_threads(self._sum, list(enumerate(fragments)), threads, "rowmill-weights"):
            sums.append(sums[-1] + total)
        if firsts[-1] and not sums[-1] > 0:
            raise ArgumentError("all weights are 0; wanted at least one row that can be drawn")
        self._cumulative = sums

    def _values(self, fragment: Fragment) -> pl.Series:
        assert self._column is not None  # and its name could be read as a pattern
        return self._source.read(fragment, [self._column]).get_column(self._column).alias("values")

    def _value_counts(self, fragment: Fragment) -> pl.DataFrame:
        return self._values(fragment).value_counts()

    def _sum(self, numbered: tuple[int, Fragment]) -> float:
        number, fragment = numbered
        weights = self._weights(fragment, number, None if self._column is None else self._values(fragment))
        return float(np.cumsum(weights)[-1])  # in this order, so that a fragment ends where the next begins

    def _weights(self, fragment: Fragment, number: int, column: pl.Series | None) -> NDArray[np.float64]:
        """One weight for each row, finite and not negative."""
        found: ArrayLike
        if self._function is not None:
            found = self._function(self._firsts[number], fragment.rows)
        elif self._balance:
            assert column is not None
            each = [1.0 / count for count in self._counts.values()]
            found = column.replace_strict(list(self._counts), each, return_dtype=pl.Float64).to_numpy()
        else:
            assert column is not None
            found = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        array, where = np.asarray(found, np.float64), self._source.describe(fragment)
        if array.shape != (fragment.rows,):
            raise ArgumentError(f"found weights of shape {array.shape} for {where}; wanted one for each row")
        if not (np.isfinite(array) & (array >= 0)).all():
            raise ArgumentError(f"a weight in {where} is negative, null or not a number; wanted 0 or more")
        return array
