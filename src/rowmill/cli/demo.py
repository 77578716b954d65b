"""`rowmill demo`: what a newcomer sees first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rowmill.cli import console


def demo(
    which: Annotated[str, typer.Argument(help="race (the stock DataLoader against Rowmill) or memmap.")] = "race",
    output: Annotated[
        Path, typer.Option("--output", "-o", parser=console.output_path, help="Folder for tables and pictures.")
    ] = Path("demo-output"),
    rows: Annotated[int | None, typer.Option(help="Rows of the table that is raced on.")] = None,
    scale: Annotated[float | None, typer.Option(help="Items to be mapped, in times of the usual number.")] = None,
) -> None:
    """Show what Rowmill does: a race, a training, a picture. Needs the extra `demo`."""
    arguments = ["--output", str(output)]
    if which == "race":
        from rowmill.tools.demo.__main__ import main

        arguments += [] if rows is None else ["--rows", str(rows)]
    elif which == "memmap":
        from rowmill.tools.demo_memmap import main

        arguments += [] if scale is None else ["--scale", str(scale)]
    else:
        raise typer.BadParameter(f"{which!r}; wanted 'race' or 'memmap'", param_hint="WHICH")
    raise typer.Exit(main(arguments))
