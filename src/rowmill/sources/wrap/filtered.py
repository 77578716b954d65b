"""Some rows of another source: those that a `RowChoice` chooses, in their order.

How many rows each part has is known exactly, because they are counted before the first is read: a pass over the columns
that the choice looks at, and none over parts that statistics rule out. Reading filters again. Counts are kept for
blocks of `BLOCK_ROWS` rows, so that a slice of a fragment is found without reading what is before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill._system.lock import Lock
from rowmill._system.progress import progress_bar
from rowmill._system.sizes import cores
from rowmill._system.threads import map_threads
from rowmill.errors import UncomparableError
from rowmill.schema import Schema
from rowmill.sources.bounds import Bounds, bounds_of_parts
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.frames.pandas_index import unlisted_schema
from rowmill.sources.locate import Rows, locate, locate_parts
from rowmill.sources.names import columns as exactly
from rowmill.sources.null_columns import CountsNulls
from rowmill.sources.owned import owned
from rowmill.sources.source import Fragment, Source, read_slices
from rowmill.sources.wrap.transformed import rows_before

BLOCK_ROWS = 16_384
Key = tuple[str, str]
_SLICE_BYTES = 16 << 20  # of the columns that a choice looks at, read at once while counting
_REMEMBERED = 256  # counts of (table, choice) kept in this process
_remembered: OrderedDict[Key | None, list[NDArray[np.int64]]] = OrderedDict()
_remembering = Lock()


class RowChoice(Protocol):
    """Which rows are chosen: a function of a row's values and of its number in the table, and of nothing else."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        ...

    @property
    def by_value(self) -> bool:
        """Whether it looks at values only, and not at the number of a row in its table."""
        ...

    def chosen(self, frame: pl.DataFrame, first: int) -> NDArray[np.bool_]:
        """Whether each row is chosen. `first`: the number of the frame's first row in the table."""
        ...

    def excluded(self, source: Source, fragments: Sequence[Fragment]) -> NDArray[np.bool_]:
        """Fragments none of whose rows can be chosen, as far as that is known without reading them."""
        ...

    def fingerprint(self) -> str:
        """Some letters that are equal for equal choices, on every machine."""
        ...


@dataclass(frozen=True)
class _Piece:
    """A fragment of the other source, and how many rows are chosen before each of its blocks, and in all."""

    fragment: Fragment
    first: int  # number of its first row in the table
    start: int  # rows chosen in the unit before this fragment
    before: NDArray[np.int64]

    @property
    def rows(self) -> int:
        return int(self.before[-1])


class FilteredSource:
    """The chosen rows of another source. Units are those of the other source."""

    def __init__(self, source: Source, choice: RowChoice, progress: bool | None = None) -> None:
        self._source = source
        self._choice = choice
        self._progress = progress
        self._lock = Lock()

    @property
    def schema(self) -> Schema:
        return self._source.schema

    @property
    def unlisted(self) -> Schema:
        """The columns that can be read but are not listed."""
        return unlisted_schema(self._source)

    @cached_property
    def _pieces(self) -> dict[int, list[_Piece]]:
        """For each unit the fragments that have chosen rows."""
        fragments, before = self._source.fragments, rows_before(self._source)
        pieces: dict[int, list[_Piece]] = {}
        chosen: dict[int, int] = {}
        for fragment, counts in zip(fragments, self._counts(fragments, before), strict=True):
            start = chosen.get(fragment.unit, 0)
            piece = _Piece(fragment, before[fragment.unit] + fragment.start, start, np.cumsum([0, *counts.tolist()]))
            if piece.rows:
                pieces.setdefault(fragment.unit, []).append(piece)
                chosen[fragment.unit] = start + piece.rows
        return pieces

    def _counts(self, fragments: Sequence[Fragment], before: dict[int, int]) -> list[NDArray[np.int64]]:
        """For each fragment the chosen rows of each of its blocks; counted once for a table and a choice."""
        key = self._key()
        with _remembering:
            if key in _remembered:
                _remembered.move_to_end(key)
                return _remembered[key]
        excluded = self._choice.excluded(self._source, fragments)
        with progress_bar("Counting chosen rows", len(fragments), self._progress) as done:

            def count(number: int) -> NDArray[np.int64]:
                fragment = fragments[number]
                blocks = np.zeros(-(-fragment.rows // BLOCK_ROWS), np.int64)
                if not excluded[number]:
                    for at, mask in self._masks(fragment, before[fragment.unit] + fragment.start):
                        np.add.at(blocks, (at + np.flatnonzero(mask)) // BLOCK_ROWS, 1)
                done(1)
                return blocks

            counts = map_threads(count, range(len(fragments)), cores(), "rowmill-filter")
        if key is not None:
            with _remembering:
                _remembered[key] = counts
                while len(_remembered) > _REMEMBERED:
                    _remembered.popitem(last=False)
        return counts

    def _key(self) -> Key | None:
        """What counts are remembered by; None for rows made by a function that may have changed unseen."""
        try:
            return self.stamp()
        except UncomparableError:
            return None

    def _masks(self, fragment: Fragment, first: int) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Which rows of a fragment are chosen, in slices: the first row of each, and the answers."""
        at, columns = 0, self._choice.columns
        if not columns:
            yield 0, self._choice.chosen(pl.DataFrame(height=fragment.rows), first)
            return
        for frame in read_slices(self._source, fragment, columns, _SLICE_BYTES):
            yield at, self._choice.chosen(frame, first + at)
            at += frame.height

    def _counted(self) -> dict[int, list[_Piece]]:
        with self._lock:  # several threads may ask first
            return self._pieces

    @property
    def fragments(self) -> Sequence[Fragment]:
        return tuple(
            Fragment(unit, piece.start, piece.rows) for unit, pieces in self._counted().items() for piece in pieces
        )

    def _parts(self, fragment: Fragment) -> Iterator[tuple[_Piece, int, int]]:
        """The pieces that hold these rows: of each the first of them among its chosen rows, and how many they are."""
        for piece in self._counted().get(fragment.unit, []):
            first, last = max(fragment.start, piece.start), min(fragment.stop, piece.start + piece.rows)
            if first < last:
                yield piece, first - piece.start, last - first

    def read(self, fragment: Fragment, columns: Sequence[str]) -> pl.DataFrame:
        frames = [frame for part in self._parts(fragment) for frame in self._read(*part, columns, None)]
        if not frames:
            return self._source.read(Fragment(fragment.unit, 0, 0), columns)
        return frames[0] if len(frames) == 1 else pl.concat(frames)

    def read_slices(self, fragment: Fragment, columns: Sequence[str], max_bytes: int) -> Iterator[pl.DataFrame]:
        found = False
        for part in self._parts(fragment):
            for frame in self._read(*part, columns, max_bytes):
                found = True
                yield frame
        if not found:
            yield self._source.read(Fragment(fragment.unit, 0, 0), columns)

    def _read(
        self, piece: _Piece, start: int, rows: int, columns: Sequence[str], max_bytes: int | None
    ) -> Iterator[pl.DataFrame]:
        """Chosen rows `start` and on of a piece; only the blocks that hold them are read."""
        block, skip, span = _blocks(piece, start, rows)
        wanted = [*columns, *(name for name in self._choice.columns if name not in columns)]
        frames = (
            iter([self._source.read(span, wanted)])
            if max_bytes is None
            else read_slices(self._source, span, wanted, max_bytes)
        )
        at, left = piece.first + block * BLOCK_ROWS, rows
        for frame in frames:
            mask = self._choice.chosen(frame, at)
            at += frame.height
            found = frame.select(exactly(columns)).filter(pl.Series(mask)) if columns else _height(int(mask.sum()))
            found = found if 2 * found.height > frame.height else owned(found)
            del frame  # or it would stay in memory until the next one has been read
            found, skip = found.slice(skip, left), max(0, skip - found.height)
            left -= found.height
            if found.height:
                yield found
            if not left:
                break

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        """A column without nulls has none among the chosen rows either."""
        known = self._source.known_nulls(columns) if isinstance(self._source, CountsNulls) else {}
        return {name: null for name, null in known.items() if not null}

    def bounds(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
        """What the other source knows of the fragments in which the chosen rows lie."""
        parts = ([piece.fragment for piece, _, _ in self._parts(fragment)] for fragment in fragments)
        return bounds_of_parts(self._source, parts, columns)

    def describe(self, fragment: Fragment) -> str:
        first = next(self._parts(fragment), None)
        return "no rows" if first is None else f"chosen rows of {self._source.describe(first[0].fragment)}"

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        """Where chosen rows are stored. The columns that the choice looks at are read."""
        pieces = self._counted()[unit]
        numbers = np.searchsorted([piece.start for piece in pieces], rows, "right") - 1

        def within(number: int, found: Rows) -> pl.DataFrame:
            piece = pieces[number]
            masks = [mask for _, mask in self._masks(piece.fragment, piece.first)]
            places = np.flatnonzero(np.concatenate(masks))[found - piece.start]
            return locate(self._source, unit, piece.fragment.start + places)

        return locate_parts(numbers, within, rows)

    def fingerprint(self) -> str:
        return of_values(self._source.fingerprint(), self._choice.fingerprint())

    def stamp(self) -> tuple[str, str]:
        where, state = self._source.stamp()
        return where, of_values(state, self._choice.fingerprint())

    def row_bytes(self, columns: Sequence[str]) -> float:
        return self._source.row_bytes([*columns, *(name for name in self._choice.columns if name not in columns)])


def _height(rows: int) -> pl.DataFrame:
    return pl.DataFrame(height=rows)


def _blocks(piece: _Piece, start: int, rows: int) -> tuple[int, int, Fragment]:
    """The first block that holds chosen row `start`, how many chosen rows of it come before, and the rows of the other
    source from there to the end of the last block that is needed."""
    first = int(np.searchsorted(piece.before, start, "right")) - 1
    last = int(np.searchsorted(piece.before, start + rows, "left"))
    begin = first * BLOCK_ROWS
    end = min(piece.fragment.rows, last * BLOCK_ROWS)
    return first, start - int(piece.before[first]), piece.fragment.slice(begin, end - begin)
