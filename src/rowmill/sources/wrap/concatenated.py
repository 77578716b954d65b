"""Several sources one after another, as one. Their columns must agree, as those of several files must."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.schema import Schema
from rowmill.sources.bounds import Bounds, bounds_of
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.locate import Rows, locate
from rowmill.sources.null_columns import CountsNulls
from rowmill.sources.schema_unification import unify
from rowmill.sources.source import Fragment, Source, read_slices
from rowmill.sources.types import conform, schema_of


class ConcatenatedSource:
    """The rows of several sources, in this order, in the columns of the first. Numbers become as wide as is needed."""

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources:
            raise ArgumentError("found no datasets to concatenate; wanted at least one")
        self._sources = tuple(sources)
        names = self._sources[0].schema.column_names
        types = [
            (f"dataset number {number}", dict(source.read(Fragment(0, 0, 0), source.schema.column_names).schema))
            for number, source in enumerate(self._sources)
        ]
        self.dtypes = unify(types)
        self._schema = schema_of({name: self.dtypes[name] for name in names})

    @property
    def one_after_another(self) -> Sequence[Source]:
        """The sources whose rows these are."""
        return self._sources

    @property
    def schema(self) -> Schema:
        return self._schema

    def _first_units(self) -> list[int]:
        """The number of the first unit of each source, and of the unit after the last."""
        units = (max((fragment.unit for fragment in source.fragments), default=-1) + 1 for source in self._sources)
        return [0, *accumulate(max(1, count) for count in units)]

    @property
    def fragments(self) -> Sequence[Fragment]:
        return tuple(
            Fragment(first + fragment.unit, fragment.start, fragment.rows)
            for first, source in zip(self._first_units(), self._sources, strict=False)
            for fragment in source.fragments
        )

    def _find(self, fragment: Fragment) -> tuple[Source, Fragment]:
        firsts = self._first_units()
        number = min(bisect_right(firsts, fragment.unit), len(self._sources)) - 1
        return self._sources[number], Fragment(fragment.unit - firsts[number], fragment.start, fragment.rows)

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        source, found = self._find(fragment)
        return conform(source.read(found, columns), self.dtypes)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        source, found = self._find(fragment)
        return (conform(frame, self.dtypes) for frame in read_slices(source, found, columns, max_bytes))

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        """What all sources know of a column."""
        known = [s.known_nulls(columns) if isinstance(s, CountsNulls) else {} for s in self._sources]
        return {name: any(k[name] for k in known) for name in columns if all(name in k for k in known)}

    def bounds(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
        """What each source knows of its own fragments, of columns that have the same type in all of them."""
        found: dict[str, tuple[list[Any], list[Any]]] = {
            name: ([None] * len(fragments), [None] * len(fragments)) for name in columns
        }
        placed = [self._find(fragment) for fragment in fragments]
        for source in self._sources:
            numbers = [number for number, (one, _) in enumerate(placed) if one is source]
            for name, ends in bounds_of(source, [placed[number][1] for number in numbers], columns).items():
                if ends[0].dtype == self.dtypes[name]:
                    for held, end in zip(found[name], ends, strict=True):
                        for number, value in zip(numbers, end, strict=True):
                            held[number] = value
        return {
            name: (pl.Series(name, low, self.dtypes[name]), pl.Series(name, high, self.dtypes[name]))
            for name, (low, high) in found.items()
        }

    def describe(self, fragment: Fragment) -> str:
        source, found = self._find(fragment)
        return source.describe(found)

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        source, found = self._find(Fragment(unit, 0, 0))
        return locate(source, found.unit, rows)

    def fingerprint(self) -> str:
        return of_values([source.fingerprint() for source in self._sources], self._schema)

    def stamp(self) -> tuple[str, str]:
        stamps = [source.stamp() for source in self._sources]
        return of_values([where for where, _ in stamps]), of_values([state for _, state in stamps], self._schema)

    def row_bytes(self, columns: Sequence[str]) -> float:
        return max(source.row_bytes(columns) for source in self._sources)
