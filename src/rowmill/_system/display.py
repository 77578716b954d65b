"""How things show themselves in a terminal and in a notebook: a title, and rows of texts, aligned.

Used by datasets, loaders and workflows.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

MOST_ROWS = 20  # shown of a long table; a line says how many more there are

DisplayRows = Sequence[tuple[str, ...]]


class Displayed:
    """Something that shows itself as a title and rows of texts: `_display` says which."""

    def _display(self) -> tuple[str, DisplayRows]:
        raise NotImplementedError

    def __repr__(self) -> str:
        return as_text(*self._display())

    def _repr_html_(self) -> str:
        return as_html(*self._display())


def as_text(title: str, rows: DisplayRows) -> str:
    """A title and rows below it, their parts in columns."""
    shown, more = _short(rows)
    widths = [max(len(row[i]) for row in shown if i < len(row)) for i in range(max(map(len, shown), default=0))]
    lines = ["  " + "  ".join(part.ljust(width) for part, width in zip(row, widths, strict=False)) for row in shown]
    return "\n".join([title, *(line.rstrip() for line in lines), *([f"  ... {more:,} more"] if more else [])])


def as_html(title: str, rows: DisplayRows) -> str:
    """A title and a table, for a notebook."""
    shown, more = _short(rows)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(part)}</td>" for part in row) + "</tr>" for row in shown)
    rest = f"<tr><td>... {more:,} more</td></tr>" if more else ""
    return f"<div><strong>{html.escape(title)}</strong><table>{body}{rest}</table></div>"


def plural(number: int, thing: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _short(rows: DisplayRows) -> tuple[DisplayRows, int]:
    return (rows, 0) if len(rows) <= MOST_ROWS + 1 else (rows[:MOST_ROWS], len(rows) - MOST_ROWS)
