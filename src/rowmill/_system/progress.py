"""A progress bar on the terminal for long work, and nothing at all where stderr is not one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, total: int, progress: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Gives the function that is told how many rows were done. `progress=False` silences the bar."""
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda rows: bar.advance(task, rows)
