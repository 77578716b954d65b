"""What the demonstration shows on the terminal: bars while it runs, a table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rowmill.tools.demo.model import Training
    from rowmill.tools.demo.race import Lap

STOCK, ROWMILL = "stock DataLoader", "Rowmill"


@contextmanager
def bars(
    console: Console, goal: int, names: Sequence[str] = (STOCK, ROWMILL)
) -> Iterator[Callable[[str], Callable[[int], None]]]:
    """A bar for each name, up to `goal` rows. Gives a function that starts one and returns what advances it.

    Where the output is not a terminal there is a plain line for each instead, when all are done.
    """
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=40), Speed())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks = {name: progress.add_task(f"{name:<16}", total=goal) for name in names}

        def begin(name: str) -> Callable[[int], None]:
            start, task = time.perf_counter(), tasks[name]

            def passed(rows: int) -> None:
                progress.update(task, advance=rows, seconds=time.perf_counter() - start)

            return passed

        yield begin
    if not console.is_terminal:
        for task in progress.tasks:
            console.print(task.description, Speed().render(task))


class Speed(ProgressColumn):
    """The rows so far and how many came per second, up to the latest batch."""

    def render(self, task: Task) -> Text:
        seconds = task.fields.get("seconds")
        if seconds is None:
            return Text("")
        speed = task.completed / seconds / 1e6
        return Text(f"{task.completed:>12,.0f} rows in {seconds:5.1f} s  {speed:6.2f}M rows/s")


def report(laps: Mapping[str, Lap], trainings: Mapping[str, Training]) -> Table:
    """What was measured, and how far apart the two are."""
    table = Table(title="What came out", title_justify="left", title_style="bold")
    table.add_column("")
    for heading in (STOCK, ROWMILL, "better by"):
        table.add_column(heading, justify="right", style="bold cyan" if heading == ROWMILL else None)

    def add(what: str, values: list[float], form: str, *, better: float | None = None) -> None:
        shown = "" if better is None else f"{better:,.1f}x"
        table.add_row(what, *(format(value, form) for value in values), shown)

    speeds = [laps[name].rows_per_second / 1e6 for name in (STOCK, ROWMILL)]
    costs = [laps[name].cpu_per_million for name in (STOCK, ROWMILL)]
    add("Race: million rows/s", speeds, ".2f", better=speeds[1] / speeds[0])
    add("Race: CPU-seconds per million rows", costs, ".2f", better=costs[0] / costs[1])
    table.add_section()
    stock, ours = trainings[STOCK], trainings[ROWMILL]
    add("Training: seconds", [stock.seconds, ours.seconds], ".1f", better=stock.seconds / ours.seconds)
    waits = [stock.waited, ours.waited]
    add("Training: seconds waiting for data", waits, ".2f", better=stock.waited / max(ours.waited, 1e-3))
    add("Training: loss at the end", [stock.loss, ours.loss], ".4f")
    add("Training: AUC on held-out rows", [stock.auc, ours.auc], ".4f")
    return table
