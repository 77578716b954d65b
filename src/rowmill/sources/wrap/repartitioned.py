"""A source whose rows are divided into other partitions.

Nothing is read or moved until a partition is read; a partition may span files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
import polars as pl

from rowmill.schema import Schema
from rowmill.sources.bounds import Bounds, bounds_of_parts
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.frames.pandas_index import unlisted_schema
from rowmill.sources.locate import Rows, locate, locate_parts
from rowmill.sources.null_columns import CountsNulls
from rowmill.sources.source import Fragment, Source, read_slices


class JoinedSource:
    """The given fragments of a source one after another, as partitions of the given numbers of rows."""

    def __init__(
        self, source: Source, pieces: Sequence[Fragment], partition_rows: Sequence[int], keeper: object = None
    ) -> None:
        self._source = source
        self._keeper = keeper  # held as long as the source: it owns temporary files
        self._pieces = tuple(pieces)
        self._starts = (0, *accumulate(p.rows for p in pieces))
        edges = [0, *accumulate(partition_rows)]
        self._fragments = tuple(Fragment(0, a, b - a) for a, b in pairwise(edges) if b > a)

    @property
    def schema(self) -> Schema:
        return self._source.schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        return self._fragments

    @property
    def same_rows_as(self) -> Source | None:
        """The other source, where all of its rows are here in their order."""
        return self._source if self._pieces == tuple(self._source.fragments) else None

    @property
    def unlisted(self) -> Schema:
        """The columns that can be read but are not listed."""
        return unlisted_schema(self._source)

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        """What the other source knows, where all of its rows are here."""
        rows = self.same_rows_as
        return rows.known_nulls(columns) if isinstance(rows, CountsNulls) else {}

    def bounds(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
        """What the other source knows of the fragments in which the rows lie."""
        return bounds_of_parts(self._source, map(self.spans, fragments), columns)

    def spans(self, fragment: Fragment) -> list[Fragment]:
        """The fragments of the other source, or slices of them, that hold these rows."""
        at = max(0, bisect_right(self._starts, fragment.start) - 1)
        found: list[Fragment] = []
        while at < len(self._pieces) and self._starts[at] < fragment.stop:
            first = max(fragment.start - self._starts[at], 0)
            last = min(fragment.stop - self._starts[at], self._pieces[at].rows)
            if last > first:
                found.append(self._pieces[at].slice(first, last - first))
            at += 1
        return found

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        spans = self.spans(fragment)
        if not spans:
            return self._source.read(Fragment(0, 0, 0), columns)
        frames = [self._source.read(span, columns) for span in spans]
        return pl.concat(frames) if len(frames) > 1 else frames[0]

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        spans = self.spans(fragment)
        if not spans:
            yield self.read(fragment, columns)
        for span in spans:
            yield from read_slices(self._source, span, columns, max_bytes)

    def describe(self, fragment: Fragment) -> str:
        spans = self.spans(fragment)
        if not spans:
            return "no rows"
        first = self._source.describe(spans[0])
        return first if len(spans) == 1 else f"{first} to {self._source.describe(spans[-1])}"

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        starts = np.asarray(self._starts, np.int64)
        pieces = np.searchsorted(starts, rows, "right") - 1

        def within(number: int, found: Rows) -> pl.DataFrame:
            return locate(self._source, self._pieces[number].unit, self._pieces[number].start + found)

        return locate_parts(pieces, within, rows - starts[pieces])

    def fingerprint(self) -> str:
        return of_values(self._source.fingerprint(), self._pieces, self._fragments)

    def stamp(self) -> tuple[str, str]:
        where, state = self._source.stamp()
        return where, of_values(state, self._pieces, self._fragments)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._source.row_bytes(columns)
