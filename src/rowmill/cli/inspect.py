"""`rowmill inspect`, `plan` and `report`: what a table is, what an epoch will be, and both with a run on a page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rowmill._system.progress import progress_bar
from rowmill.cli import console
from rowmill.dataset import Dataset
from rowmill.errors import ArgumentError
from rowmill.report import Report, TableFacts, load_for, measure_table, of_dataset, of_loader, open_loader, plural

Sample = Annotated[int, typer.Option(min=1, help="Rows to look at; a table with no more is read whole.")]
MixingColumn = Annotated[str | None, typer.Option(help="A column (a label, a time) to see how well it is mixed.")]
Shuffle = Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Whether epochs are shuffled.")]


def inspect(
    path: console.Path_,
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    sep: console.Separator = None,
    null_values: console.NullValues = None,
    sample: Sample = 200_000,
    json: console.Json = False,
) -> None:
    """Show a table: schema, rows, row groups, nulls, cardinalities, and what could be better."""
    given: dict[str, Any] = {"sep": sep, "null_values": console.names(null_values)}
    options = {name: value for name, value in given.items() if value is not None}
    facts = measure_table(console.open_table(path, engine, where, version, **options), path, sample=sample)
    if json:
        console.emit(facts.to_dict())
        return
    groups = facts.fragment_rows
    more = "" if facts.file_bytes is None else f", {facts.file_bytes / 1e6:,.1f} MB on disk"
    console.show(
        *([console.plain(facts.version)] if facts.version else []),
        f"[bold]{plural(facts.rows, 'row')}[/], {plural(len(facts.columns), 'column')}, "
        f"{plural(facts.files, 'file')}{more}, "
        f"{facts.rows * facts.row_bytes / 1e6:,.1f} MB decoded",
        f"{plural(len(groups), 'row group')} of {min(groups, default=0):,} to {max(groups, default=0):,} rows, "
        f"up to {max(groups, default=0) * facts.row_bytes / 1e6:,.1f} MB decoded",
        _columns(facts),
    )
    console.advise(facts.advice)


def _columns(facts: TableFacts) -> object:
    seen = "all rows" if facts.exact else f"{facts.sampled_rows:,} sampled rows"
    headings = ("column", "type", "nulls", "distinct", "min", "max", "commonest", "share", "tags")
    table = console.table(f"Columns, from {seen}", *headings, right=("nulls", "distinct", "min", "max", "share"))
    least = "" if facts.exact else "≥ "
    for c in facts.columns:
        kind = f"list of {c.dtype}" if c.is_list else c.dtype
        cells = [c.name, kind, f"{c.nulls:.1%}" if c.nulls else "", f"{least}{c.distinct:,}", c.minimum, c.maximum]
        cells += [c.top_value, f"{c.top_share:.1%}", ", ".join(c.tags)]
        table.add_row(*map(console.plain, cells))
    return table


def plan(
    path: console.Path_,
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    batch_size: console.BatchSize = 65_536,
    columns: console.Columns = None,
    memory: console.Memory = "auto",
    shuffle: Shuffle = True,
    ranks: Annotated[int, typer.Option(min=1, help="Processes that share an epoch.")] = 1,
    mixing: MixingColumn = None,
    json: console.Json = False,
) -> None:
    """Say what an epoch will be: steps, memory, bytes, and how well the table is mixed."""
    data, wanted = console.open_table(path, engine, where, version), console.names(columns)
    loader = open_loader(data, batch_size, columns=wanted, memory=memory, shuffle=shuffle, ranks=ranks)
    found = loader.plan(mixing)
    if json:
        console.emit(asdict(found))
    else:
        console.show(found)


def report(
    path: console.Path_,
    output: Annotated[
        Path, typer.Option("--output", "-o", parser=console.output_path, help="The page to write.")
    ] = Path("report.html"),
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    batch_size: console.BatchSize = 65_536,
    columns: console.Columns = None,
    memory: console.Memory = "auto",
    sample: Sample = 200_000,
    mixing: MixingColumn = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="Load for so long; 0 looks at the files only.")] = 10,
    png: Annotated[
        Path | None, typer.Option(parser=console.output_path, help="A folder for the pictures as PNG files.")
    ] = None,
    json: console.Json = False,
) -> None:
    """Write a page on a table: the dataset, the plan, a run that loads it, and what limits that."""
    folder = output.absolute().parent
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ArgumentError(f"{folder} {what}; wanted a folder to write {output.name} in; make it, or give another -o")
    data = console.open_table(path, engine, where, version)
    if seconds and data.num_rows:
        found = _loaded(data, path, console.names(columns), batch_size, memory, sample, mixing, seconds)
    else:
        found = of_dataset(data, path, sample=sample)
    page = found.write(output)
    pictures = [] if png is None else found.write_png(png)
    if json:
        console.emit({**found.to_dict(), "path": str(page), "pictures": [str(p) for p in pictures]})
    else:
        console.show(f"[bold]{found.verdict[0]}.[/]", f"Report: {console.plain(str(page))}")


def _loaded(
    data: Dataset, path: str, columns: list[str] | None, batch_size: int, memory: str, sample: int,
    mixing: str | None, seconds: float,
) -> Report:  # fmt: skip
    """Load for some time, in as many epochs as that takes, then report on it."""
    loader = open_loader(data, batch_size, columns=columns, memory=memory)
    loader.peek()  # compiles, so that this is not counted
    with progress_bar("Loading", int(10 * seconds)) as passed:
        run = load_for(loader, seconds, passed)
    return of_loader(loader, column=mixing, trained=False, sample=sample, place=path, run=run)
