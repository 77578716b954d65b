"""Two-column text tables that print well in a terminal, in a notebook and in a log."""

from __future__ import annotations

import html
from typing import Any


class TextTable:
    """Something with a `table()`: a title, and rows of a name and a text."""

    def table(self) -> tuple[str, list[tuple[str, str]]]:
        raise NotImplementedError

    def __str__(self) -> str:
        title, rows = self.table()
        width = max(len(name) for name, _ in rows)
        return "\n".join([title, *(f"  {name:<{width}}  {text}" for name, text in rows)])

    def __rich__(self) -> Any:
        from rich.table import Table

        title, rows = self.table()
        table = Table(title=title, show_header=False, title_justify="left")
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for name, text in rows:
            table.add_row(name, text)
        return table

    def _repr_html_(self) -> str:
        title, rows = self.table()
        cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
        return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"


def bytes_text(size: float) -> str:
    """`1.5 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
