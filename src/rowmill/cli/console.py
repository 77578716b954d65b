"""How commands answer: tables for people on stdout, JSON for machines, and the options that several of them share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rowmill._dataset.sql_condition import sql_condition
from rowmill.dataset import Dataset
from rowmill.report.facts import Advice
from rowmill.sources.files.paths import local_path

Path_ = Annotated[str, typer.Argument(metavar="PATH", help="A file, folder, pattern or URL of Parquet, CSV or Arrow.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Engine = Annotated[str | None, typer.Option(help="parquet, csv or ipc; by default told by the file names.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Rows of a batch.")]
Columns = Annotated[list[str] | None, typer.Option(help="Columns to load, separated by commas; by default all.")]
Separator = Annotated[str | None, typer.Option(help="CSV: what separates fields.")]
NullValues = Annotated[
    list[str] | None, typer.Option("--null-values", help="CSV: texts that mean null, separated by commas: NA,?,-.")
]
Where = Annotated[
    str | None, typer.Option(help="Only rows for which this SQL condition holds: \"day >= '2024-01-31' and x > 3\".")
]
Version = Annotated[
    str | None, typer.Option(help="Delta tables: the number of a version, or a moment such as 2024-01-31T12:00.")
]
Memory = Annotated[str, typer.Option(help="What loading may take, such as 1GB; auto: what the cores need.")]


def open_table(
    path: str, engine: str | None = None, where: str | None = None, version: str | None = None, **options: Any
) -> Dataset:
    """The table that a command reads, or the rows of it that `--where` chooses."""
    if version is not None:
        options |= {"version": int(version)} if version.isdecimal() else {"timestamp": version}
    table = Dataset(path, engine, **options)
    return table if where is None else table.filter(sql_condition(where))


def emit(content: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(content, indent=1, default=str) + "\n")


def show(*things: Any, whole: bool = False) -> None:
    """Tables and sentences on stdout; as wide as the terminal, or wide enough for a log. `whole`: no line is broken."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for thing in things:
        console.print(thing, soft_wrap=whole)


def table(title: str, *headings: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns in `right` hold numbers."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left")
    return made


def plain(text: str) -> str:
    """Text as it is: square brackets would be read as styles."""
    return text.replace("[", r"\[")


def advise(advice: Iterable[Advice]) -> None:
    """Each piece of advice on two lines: what was found, and what to do."""
    for one in advice:
        show(f"[yellow]![/] {plain(one.found)}\n  [dim]{plain(one.do)}[/]", whole=True)


def output_path(given: str | Path) -> Path:
    """Where a command writes: a local path, or a `file://` URL of one."""
    return local_path(given, "the output")


def names(given: list[str] | None) -> list[str] | None:
    """`--columns a,b --columns c` as a list of names."""
    if not given:
        return None
    return [name.strip() for part in given for name in part.split(",") if name.strip()]
