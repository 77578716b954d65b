"""`rowmill cache list` and `cache clear`: the stores that loaders keep on disk."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

import rowmill
from rowmill.cli import console
from rowmill.errors import ArgumentError
from rowmill.report import plural

app = typer.Typer(help="Show or remove the stores that loaders keep on disk.", no_args_is_help=True)
Folder = Annotated[
    Path | None, typer.Argument(help="What loaders were given as cache=; by default that of cache='auto'.")
]


def _check(folder: Path | None) -> None:
    """A folder that was named has to be there; that of cache='auto' is made when it is first used."""
    if folder is not None and not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ArgumentError(f"{folder} {what}; wanted the folder that loaders were given as cache=; check the path")


@app.command("list")
def list_(folder: Folder = None, json: console.Json = False) -> None:
    """Show the stores of a cache folder, the one not used for the longest time first."""
    _check(folder)
    entries = rowmill.cache.list(folder)
    if json:
        console.emit([{**asdict(entry), "path": str(entry.path)} for entry in entries])
        return
    table = console.table("Stores", "used", "size", "rows", "state", "made from", "path", right=("size", "rows"))
    for entry in entries:
        used = datetime.fromtimestamp(entry.used).strftime("%Y-%m-%d %H:%M")
        rows = "" if entry.rows is None else f"{entry.rows:,}"
        state = "complete" if entry.complete else "begun"
        table.add_row(used, f"{entry.nbytes / 1e6:,.1f} MB", rows, state, entry.source, str(entry.path))
    console.show(table if entries else "No stores.")


@app.command()
def clear(folder: Folder = None, json: console.Json = False) -> None:
    """Remove all stores of a cache folder that no process is using."""
    _check(folder)
    removed = rowmill.cache.clear(folder)
    if json:
        console.emit({"removed": removed, "left": len(rowmill.cache.list(folder))})
    else:
        left = len(rowmill.cache.list(folder))
        console.show(f"Removed {plural(removed, 'store')}; {left:,} {'is' if left == 1 else 'are'} left, in use.")
