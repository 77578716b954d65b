"""`rowmill bench`: what this machine reaches on these files, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from rowmill._system.progress import progress_bar
from rowmill.cli import console
from rowmill.errors import ArgumentError
from rowmill.feed.report.verdict import limit_text
from rowmill.report import plural
from rowmill.report.loading import loadable
from rowmill.schema import Schema
from rowmill.tools import throughput
from rowmill.tools.throughput import Pace

NEAR = 0.7  # from this share of the ceiling on, decoding is what limits

CEILING, OURS, STOCK = "decoding alone", "Rowmill, shuffled", "stock DataLoader"


def bench(
    path: console.Path_,
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    batch_size: console.BatchSize = 65_536,
    columns: console.Columns = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long each of the three is measured.")] = 4,
    json: console.Json = False,
) -> None:
    """Measure what this machine reaches on these files: decoding alone, Rowmill, the stock DataLoader."""
    data = console.open_table(path, engine, where, version)
    if not data.num_rows:
        raise ArgumentError(f"{path} has no rows; wanted some to load")
    chosen = console.names(columns) or loadable(data.schema)
    paces: dict[str, Pace] = {}
    tenths = int(10 * seconds)
    with progress_bar(CEILING, tenths) as passed:
        paces[CEILING] = throughput.decode(data, chosen, seconds=seconds, passed=passed)
    with progress_bar(OURS, tenths) as passed:
        paces[OURS] = throughput.rowmill(data, chosen, batch_size, seconds=seconds, passed=passed)
    with progress_bar(STOCK, tenths) as passed:
        stock = throughput.stock(data, chosen, batch_size, seconds=seconds, passed=passed)
    if stock is not None:
        paces[STOCK] = stock
    told = limit(paces, costly=costly(data.schema, chosen))
    if json:
        found = {name: {"rows_per_second": p.rows_per_second, "busy": p.busy} for name, p in paces.items()}
        console.emit({"columns": chosen, "batch_size": batch_size, "paces": found, "limit": told})
        return
    figures = ("rows/s", "of decoding", "cores busy")
    table = console.table(
        f"{plural(len(chosen), 'column')}, batches of {plural(batch_size, 'row')}", "", *figures, right=figures
    )
    for name, each in paces.items():
        share = each.rows_per_second / paces[CEILING].rows_per_second
        table.add_row(name, f"{each.rows_per_second:,.0f}", f"{share:.0%}", f"{each.busy:.0%}")
    console.show(table, told)
    if stock is not None and data.num_rows > throughput.STOCK_ROWS:
        rows = f"{throughput.STOCK_ROWS:,}"
        console.show(f"[dim]The stock DataLoader had the first {rows} rows in memory; reading is not counted.[/]")


def costly(schema: Schema, columns: Sequence[str]) -> bool:
    """Whether there is text or a list among these columns."""
    return any(schema[name].is_list or schema[name].dtype in ("string", "binary") for name in columns)


def limit(paces: Mapping[str, Pace], *, costly: bool) -> str:
    """What limits Rowmill here, in the words of the report, and what to do. `costly`: there are text or lists."""
    ours = paces[OURS]
    share = ours.rows_per_second / paces[CEILING].rows_per_second
    told = f"Rowmill reaches {share:.0%} of decoding alone; {limit_text(ours.bound, ours.cores)}. "
    if ours.bound == "storage":
        return told + "Use a faster disk, larger row groups, or cache= on a local disk."
    if share < NEAR:
        text = "Text and lists cost most; load" if costly else "Shuffling and packing take the rest; load"
        return told + f"{text} only the columns that a model takes (--columns)."
    return told + "Load fewer columns, write smaller dtypes, or keep rows decoded with cache=."
