"""Which rows a store holds: segments (runs of rows with a checksum), and the journal with an entry for each.

A piece that is not in the journal does not exist, whatever stands in the files. A line is written after its data, and
carries a sum of its own, so half a line is none. Called by `store`.
"""

from __future__ import annotations

import json
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LINE = re.compile(  # sum, and what it is of: start, rows, checksum, places of lists
    rb"([0-9a-f]{8}) (\[([0-9]{1,19}), ([1-9][0-9]{0,18}), "
    rb'"([0-9a-f]{16})", \[((?:[0-9]{1,19}(?:, [0-9]{1,19})*)?)\]\])'
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows `start` to `start + rows` of the table, their checksum, and where the values of their lists begin."""

    start: int
    rows: int
    checksum: int
    lists: tuple[int, ...] = ()

    @property
    def stop(self) -> int:
        return self.start + self.rows


class Segments:
    """The pieces that are there, none overlapping another."""

    def __init__(self, found: Iterable[Segment] = ()) -> None:
        self._starts: list[int] = []
        self._pieces: dict[int, Segment] = {}
        self.rows = 0
        for piece in found:
            self.add(piece)

    def __iter__(self) -> Iterator[Segment]:
        return (self._pieces[start] for start in self._starts)

    def __contains__(self, piece: Segment) -> bool:
        return self._pieces.get(piece.start) == piece

    def add(self, piece: Segment) -> None:
        """Add a piece; those it overlaps are forgotten."""
        for old in self.over(piece.start, piece.rows):
            self.discard(old)
        self._starts.insert(bisect_left(self._starts, piece.start), piece.start)
        self._pieces[piece.start] = piece
        self.rows += piece.rows

    def discard(self, piece: Segment) -> None:
        if piece in self:
            del self._pieces[piece.start]
            del self._starts[bisect_left(self._starts, piece.start)]
            self.rows -= piece.rows

    def over(self, first: int, rows: int) -> list[Segment]:
        """The pieces that hold any of these rows, in order."""
        low = bisect_right(self._starts, first)
        if low and self._pieces[self._starts[low - 1]].stop > first:
            low -= 1
        high = bisect_left(self._starts, first + rows)
        return [self._pieces[start] for start in self._starts[low:high]]

    def missing(self, first: int, rows: int) -> list[tuple[int, int]]:
        """The runs of these rows that no piece holds: first row and number of rows."""
        gaps, at = [], first
        for piece in self.over(first, rows):
            if piece.start > at:
                gaps.append((at, piece.start - at))
            at = max(at, piece.stop)
        if at < first + rows:
            gaps.append((at, first + rows - at))
        return gaps


def lines(pieces: Iterable[Segment]) -> bytes:
    """The journal's lines for these pieces. Each begins with a line feed, so half a line before it does no harm."""
    texts = (json.dumps([p.start, p.rows, f"{p.checksum:016x}", list(p.lists)]).encode() for p in pieces)
    return b"".join(b"\n%08x %b" % (zlib.crc32(text), text) for text in texts)


def parsed(journal: bytes, rows: int, lists: int) -> Iterator[Segment]:
    """The segments that complete journal entries describe; entries beyond the table's rows are skipped."""
    longest = 64 + 22 * (2 + lists)
    for line in journal.split(b"\n"):
        found = _LINE.fullmatch(line) if len(line) <= longest else None
        if found is None or found[1] != b"%08x" % zlib.crc32(found[2]):
            continue
        start, count, places = int(found[3]), int(found[4]), [int(place) for place in found[6].split(b", ") if place]
        if start + count <= rows and len(places) == lists and max(places, default=0) < 2**63:
            yield Segment(start, count, int(found[5], 16), tuple(places))
