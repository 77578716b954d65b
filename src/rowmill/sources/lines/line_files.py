"""Files whose rows are lines, read in pieces: files in, fragments and the bytes of their rows out.

Where rows begin is found by one scan of the bytes, when rows are first counted or read. A file is never in memory
whole. Called by the sources of CSV and JSON lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from rowmill._system.lock import Lock
from rowmill.errors import DataFileError, os_reason
from rowmill.sources.files.paths import Files
from rowmill.sources.files.pins import Pins
from rowmill.sources.lines.row_index import Piece
from rowmill.sources.source import Fragment

IndexRows = Callable[[Any, int], list[Piece]]  # an open file and its number in, its pieces out


class LineFiles:
    """The pieces of a list of files, which are pinned. `index` finds the rows of one of them."""

    def __init__(self, files: Files, index: IndexRows) -> None:
        self._files = files
        self._index = index
        self.pins = Pins.of(files)
        self._lock = Lock()
        self._found: list[list[Piece]] | None = None

    @property
    def counted(self) -> bool:
        """Whether the rows are counted already."""
        return self._found is not None

    def pieces(self) -> list[list[Piece]]:
        """For each file its pieces."""
        with self._lock:  # several threads may ask first
            if self._found is None:
                self._found = [self._scan(unit) for unit in range(len(self._files.paths))]
            return self._found

    def fragments(self) -> Sequence[Fragment]:
        return tuple(Fragment(u, p.start, p.rows) for u, pieces in enumerate(self.pieces()) for p in pieces)

    def _scan(self, unit: int) -> list[Piece]:
        name = self._files.name(unit)
        self.pins.check(unit)
        try:
            with self._files.open(unit) as file:
                found = self._index(file, unit)
        except DataFileError:
            self.pins.check(unit)
            raise
        except OSError as error:
            raise DataFileError(f"cannot read {name}: {os_reason(error)}; check that it is readable") from error
        self.pins.check(unit)
        return found

    def read(self, fragment: Fragment) -> tuple[bytes, Sequence[Piece]]:
        """The bytes of the pieces that hold the rows of a fragment, and these pieces."""
        pieces = self.pieces()[fragment.unit]
        self.pins.check(fragment.unit)
        starts = [piece.start for piece in pieces]
        first = bisect_right(starts, fragment.start) - 1
        last = bisect_right(starts, fragment.stop - 1) - 1
        try:
            with self._files.open(fragment.unit) as file:
                file.seek(pieces[first].begin)
                data: bytes = file.read(pieces[last].end - pieces[first].begin)
        except OSError as error:
            self.pins.check(fragment.unit)
            raise DataFileError(f"cannot read {self.describe(fragment)}: {os_reason(error)}") from error
        self.pins.check(fragment.unit)  # nothing of the file is used after this
        return data, pieces[first : last + 1]

    def describe(self, fragment: Fragment) -> str:
        return f"{self._files.name(fragment.unit)} (rows {fragment.start} to {fragment.stop})"
