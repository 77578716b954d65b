"""The `Source` protocol and the `Fragment` it reads; large fragments are cut and small ones joined here.

A source is made of units (files, or one frame); a fragment is a run of rows of one unit. Sources know nothing of
order, batches or tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import polars as pl

from rowmill.schema import Schema


@dataclass(frozen=True, slots=True)
class Fragment:
    """What is read at once: rows `start` to `start + rows` of unit `unit`; a row group, or a slice of one, or a few."""

    unit: int
    start: int
    rows: int

    @property
    def stop(self) -> int:
        return self.start + self.rows

    def slice(self, start: int, rows: int) -> Fragment:
        """`rows` rows of this fragment, from its row `start` on."""
        return Fragment(self.unit, self.start + start, rows)


class Source(Protocol):
    """Lists its fragments with their row counts, and reads one of them, only the columns asked for."""

    @property
    def schema(self) -> Schema:
        """The columns, known without reading a row."""
        ...

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The natural fragments (row groups) in table order; empty ones are left out."""
        ...

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of a fragment, or of any slice or join of fragments of one unit; columns in the order asked for."""
        ...

    def describe(self, fragment: Fragment) -> str:
        """Where a fragment is, for a person: `train/0.parquet, row group 3 (rows 750000 to 1000000)`."""
        ...

    def fingerprint(self) -> str:
        """Some letters that change when the data do: files added, removed or rewritten, rows or types changed."""
        ...

    def stamp(self) -> tuple[str, str]:
        """Where the data are, and some letters that change whenever they are written again, even with the same rows."""
        ...

    def row_bytes(self, columns: Sequence[str]) -> float:
        """About how many bytes a row of these columns takes once decoded; where rows differ, those of the largest
        row groups."""
        ...


def is_source(given: Any) -> bool:
    """Whether something is a source. Its fragments are not asked for: that may count rows or run a query."""
    return all(getattr_static(given, name, None) is not None for name in ("fragments", "read"))


@runtime_checkable
class SlicedSource(Protocol):
    """A source that knows how to read a fragment in slices of a bounded size."""

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        """The rows of a fragment, in order, in frames of about `max_bytes` at most; decoding one takes about twice as
        much besides. A frame has one row at least."""
        ...


def read_slices(source: Source, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
    """The rows of a fragment in frames of about `max_bytes` at most, as the source cuts them, or evenly."""
    if isinstance(source, SlicedSource):
        return source.read_slices(fragment, columns, max_bytes)
    return read_even_slices(source, fragment, columns, max_bytes)


def read_bounded(source: Source, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> pl.DataFrame:
    """The rows of a fragment in one frame, decoded `max_bytes` at a time."""
    frames = list(read_slices(source, fragment, columns, max_bytes))
    return frames[0] if len(frames) == 1 else pl.concat(frames)


def read_even_slices(
    source: Source, fragment: Fragment, columns: Sequence[str], max_bytes: int
) -> Iterator[pl.DataFrame]:
    """The rows of a fragment in frames of as many rows each."""
    if not fragment.rows:
        yield source.read(fragment, columns)
    each = max(1, int(max_bytes / max(1.0, source.row_bytes(columns))))
    for start in range(0, fragment.rows, each):
        yield source.read(fragment.slice(start, min(each, fragment.rows - start)), columns)


def fit_fragments(fragments: Iterable[Fragment], max_rows: int) -> list[Fragment]:
    """Fragments of the same rows, of at most `max_rows`: large ones cut in equal slices, small neighbours joined.

    Joining stops at a quarter of `max_rows`: enough to make reading cheap per row, small enough to shuffle well.
    """
    fitted: list[Fragment] = []
    for fragment in fragments:
        last = fitted[-1] if fitted else None
        joins = last is not None and last.unit == fragment.unit and last.stop == fragment.start
        if last is not None and joins and last.rows + fragment.rows <= max_rows // 4:
            fitted[-1] = Fragment(last.unit, last.start, last.rows + fragment.rows)
            continue
        slices = max(1, -(-fragment.rows // max_rows))
        edges = [fragment.rows * i // slices for i in range(slices + 1)]
        fitted.extend(fragment.slice(a, b - a) for a, b in pairwise(edges))
    return fitted
