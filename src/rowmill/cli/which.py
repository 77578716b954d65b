"""`rowmill which`: which rows of which files were in a step of training."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer

from rowmill.cli import console
from rowmill.errors import StateError
from rowmill.feed.run.batch_rows import locate_saved_step

_MAX_STATE_BYTES = 1 << 20
_SHOWN = 20


def which(
    path: console.Path_,
    state: Annotated[Path, typer.Option(help="A file with what the loader's state_dict() returned, as JSON.")],
    step: Annotated[int, typer.Option(min=0, help="The step of the epoch; the first is 0.")],
    epoch: Annotated[int | None, typer.Option(min=0, help="By default the epoch of the state.")] = None,
    rank: Annotated[int, typer.Option(min=0, help="The process whose batch it was.")] = 0,
    ranks: Annotated[int | None, typer.Option(min=1, help="For elastic loaders: the number of processes.")] = None,
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    json: console.Json = False,
) -> None:
    """Say which rows were in a step of training: file, row group and row. Reads no value of the table."""
    source = console.open_table(path, engine, where, version).source
    found = locate_saved_step(source, _read(state), step, epoch, rank, ranks)
    if json:
        console.emit(found.to_dicts())
        return
    title = f"Step {step}: {found.height:,} rows" + (f", the first {_SHOWN}" if found.height > _SHOWN else "")
    table = console.table(title, "file", "row group", "row", right=("row group", "row"))
    for file, group, row in found.head(_SHOWN).iter_rows():
        table.add_row(*("" if value is None else console.plain(str(value)) for value in (file, group, row)))
    console.show(table)
    if found.height > _SHOWN:
        console.show("All of them: --json")


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_STATE_BYTES:
            raise StateError(f"{path} has more than 1 MB; wanted the JSON of a loader's state_dict()")
        found = json_format.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise StateError(f"cannot read {path} as the JSON of a loader's state_dict(): {error}") from error
    if not isinstance(found, dict):
        raise StateError(f"{path} holds {type(found).__name__}; wanted the JSON of a loader's state_dict()")
    return found
