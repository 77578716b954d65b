"""Where the rows of a CSV file begin: bytes in, a short table of offsets and row counts out.

A file is scanned once in large blocks, a part of one at a time; a line end counts where it stands outside quotes, that
is after an even number of quote characters. Nothing is parsed, and one offset is kept for about 64 thousand rows or 8
MB.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmill.errors import DataFileError

_BLOCK = 8 << 20  # no piece goes on beyond a block
_PART = 1 << 20  # of a block, looked at at once: a line end takes some 50 bytes meanwhile
_ROWS = 65_536
_LINE_END, _RETURN = 10, 13


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows `start` to `start + rows` of a file, in bytes `begin` to `end`, with `blank` empty lines among them."""

    begin: int
    end: int
    start: int
    rows: int
    blank: int


def index_rows(file: Any, begin: int, quote: str | None, keep_blank: bool, name: str) -> list[Piece]:
    """The pieces of an open file from byte `begin` on. Empty lines are no rows, unless `keep_blank`."""
    pieces: list[Piece] = []
    at, start = begin, 0  # of the piece under way
    rows = lines = in_block = 0  # rows and lines of the piece under way, rows of the block before this part of it
    for ends, empty, is_last in _lines(file, begin, quote, name):
        is_row = np.ones(len(ends), bool) if keep_blank else ~empty
        counts = in_block + np.cumsum(is_row)
        cuts = np.flatnonzero((counts % _ROWS == 0) & is_row).tolist()
        if is_last and (not cuts or cuts[-1] != len(ends) - 1):
            cuts.append(len(ends) - 1)
        before = 0
        for cut in cuts:
            rows += int(is_row[before : cut + 1].sum())
            lines += cut + 1 - before
            if rows:
                pieces.append(Piece(at, int(ends[cut]), start, rows, lines - rows))
            at, start, before = int(ends[cut]), start + rows, cut + 1
            rows = lines = 0
        rows += int(is_row[before:].sum())
        lines += len(ends) - before
        in_block = 0 if is_last else int(counts[-1])
    return pieces


def _lines(
    file: Any, begin: int, quote: str | None, name: str
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_], bool]]:
    """Per part of a block: the offsets after each line, which of the lines are empty, and whether no other line of the
    block follows. The last line may lack its end."""
    file.seek(begin)
    at = last = begin
    quotes = 0
    before = 0  # the byte before the part
    while data := file.read(_BLOCK):
        held = None
        for start in range(0, len(data), _PART):
            block = np.frombuffer(data, np.uint8, min(_PART, len(data) - start), start)
            ends = np.flatnonzero(block == _LINE_END)
            if quote is not None:
                marks = np.flatnonzero(block == ord(quote))
                if len(marks) or quotes % 2:
                    ends = ends[(np.searchsorted(marks, ends) + quotes) % 2 == 0]
                quotes += len(marks)
            if len(ends):
                if held is not None:
                    yield *held, False
                previous = np.where(ends > 0, block[ends - 1], before)  # the byte before the line end
                after = ends + at + 1
                lengths = np.diff(after, prepend=last)
                held = after, (lengths == 1) | ((lengths == 2) & (previous == _RETURN))
                last = int(after[-1])
            at += len(block)
            before = int(block[-1])
        if held is not None:
            yield *held, True
    if quotes % 2:
        raise DataFileError(
            f"{name} ends inside a quoted value in the row at byte {last}; wanted a closing {quote}; "
            f"complete the file, or pass quote_char=None where quotes mean nothing"
        )
    if at > last:
        yield np.array([at]), np.array([False]), True


def without_blank(data: bytes, quote: str | None) -> bytes:
    """The lines of a piece that are not empty."""
    kept, start = [], 0
    for ends, empty, _ in _lines(io.BytesIO(data), 0, quote, "a piece of CSV"):
        starts = np.append(start, ends[:-1])
        # Runs of lines that stay: they begin where the line before was empty, and end where the next one is.
        first = ~empty & np.append(True, empty[:-1])
        last = ~empty & np.append(empty[1:], True)
        kept += [data[a:b] for a, b in zip(starts[first].tolist(), ends[last].tolist(), strict=True)]
        start = int(ends[-1])
    return b"".join(kept)
