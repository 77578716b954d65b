"""Where the rows of a CSV file begin: bytes in, a short table of offsets and row counts out.

A file is scanned once in large blocks; a line end counts where it stands outside quotes, that is after an even
number of quote characters. Nothing is parsed, and one offset is kept for about 64 thousand rows or 8 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmill.errors import DataFileError

_BLOCK = 8 << 20
_ROWS = 65_536
_LINE_END, _RETURN = 10, 13


@dataclass(frozen=True)
class Piece:
    """Rows `start` to `start + rows` of a file, in bytes `begin` to `end`; `blank` empty lines among them."""

    begin: int
    end: int
    start: int
    rows: int
    blank: int


def index_rows(file: Any, begin: int, quote: str | None, keep_blank: bool, name: str) -> list[Piece]:
    """The pieces of an open file from byte `begin` on. Empty lines are no rows, unless `keep_blank`."""
    pieces: list[Piece] = []
    done, rows, blank, total = begin, 0, 0, 0

    def close(end: int) -> None:
        nonlocal done, rows, blank, total
        if rows:
            pieces.append(Piece(done, end, total, rows, blank))
            total += rows
        if rows or not blank:
            done, rows, blank = end, 0, 0

    file.seek(begin)
    last = begin
    quotes = 0
    for at, block in _blocks(file, begin):
        ends, quotes = _line_ends(block, quotes, quote)
        starts = np.concatenate(([last - at], ends[:-1])) if len(ends) else ends
        empty = _empty(block, starts, ends)
        if keep_blank:
            empty[:] = False
        counts = np.cumsum(~empty)
        cuts = np.flatnonzero((counts % _ROWS == 0) & ~empty)
        previous = -1
        for cut in [*cuts.tolist(), len(ends) - 1] if len(ends) else []:
            lines = int(cut) - previous
            blanks = int(empty[previous + 1 : cut + 1].sum())
            rows, blank = rows + lines - blanks, blank + blanks
            close(at + int(ends[cut]))
            previous = int(cut)
        last = at + int(ends[-1]) if len(ends) else last
        size = at + len(block)
        tail = bytes(block[last - at :].tobytes()) if last >= at else b"."
    if quotes % 2:
        raise DataFileError(
            f"{name} ends inside a quoted value that opened after byte {last}; wanted a closing {quote!r}; "
            f"complete the file, or pass quote_char=None where quotes mean nothing"
        )
    if begin < last or total or rows or blank or _any(file, begin):
        if _unended(last, locals().get("size", begin), locals().get("tail", b"")):
            rows += 1
            close(int(locals()["size"]))
    return pieces
