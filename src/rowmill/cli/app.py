"""All commands under one name. Called by `rowmill.cli.main`, which needs typer only from here on."""

from __future__ import annotations

from typing import Annotated

import typer

import rowmill
from rowmill.cli import bench, demo, inspect, prepare, stores, which

app = typer.Typer(
    name="rowmill",
    help="Feeds tables to models: looks at Parquet files, measures how fast they load, and prepares them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rowmill {rowmill.__version__}")
        raise typer.Exit


@app.callback()
def rowmill_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Feeds tables to models: looks at Parquet files, measures how fast they load, and prepares them."""


for command in (
    demo.demo, inspect.inspect, inspect.plan, bench.bench, inspect.report,
    prepare.fit, prepare.transform, prepare.convert, which.which,
):  # fmt: skip
    app.command()(command)
app.add_typer(stores.app, name="cache")
