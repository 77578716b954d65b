"""`rowmill fit`, `transform` and `convert`: tables made ready for training."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rowmill.cli import console
from rowmill.dataset import Dataset
from rowmill.ops.categorify import Categorify
from rowmill.ops.describe import AddTags
from rowmill.ops.fill import FillMissing
from rowmill.ops.scale import Normalize
from rowmill.report import plural
from rowmill.report.advice import on_null_texts
from rowmill.report.facts import Advice
from rowmill.report.table import measure_text
from rowmill.schema import Tags
from rowmill.workflow import Workflow

Names = list[str] | None
Output = Annotated[Path, typer.Option("--output", "-o", parser=console.output_path, help="The folder to write.")]
Files = Annotated[int | None, typer.Option(min=1, help="In how many files; by default one a partition.")]
GroupRows = Annotated[int | None, typer.Option("--row-group-size", min=1, help="Rows of a row group.")]


def fit(
    path: console.Path_,
    output: Output,
    workflow: Annotated[Path | None, typer.Option(help="A saved workflow whose operators are to learn.")] = None,
    cats: Annotated[Names, typer.Option(help="Columns to turn into ids (Categorify).")] = None,
    conts: Annotated[Names, typer.Option(help="Columns to fill and scale (FillMissing, Normalize).")] = None,
    labels: Annotated[Names, typer.Option(help="Columns to pass on as they are.")] = None,
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    memory: console.Memory = "1GB",
    json: console.Json = False,
) -> None:
    """Let a workflow learn from a table, and save it. Without one, name the columns (or tag them in the schema)."""
    start = time.perf_counter()
    if workflow is not None and (cats or conts or labels):
        raise typer.BadParameter("together with --workflow; give one of them", param_hint="--cats, --conts, --labels")
    data = console.open_table(path, engine, where, version)
    made = Workflow.load(workflow) if workflow is not None else _simple(data, cats, conts, labels)
    made.fit(data, memory=memory).save(output)
    columns = made.output_schema.column_names
    if json:
        console.emit({"path": str(output), "rows": data.num_rows, "columns": columns, "seconds": _since(start)})
    else:
        learnt, made_columns = plural(data.num_rows, "row"), plural(len(columns), "column")
        console.show(f"Fitted on {learnt}; the workflow makes {made_columns}. Saved: {output}")


def _simple(data: Dataset, cats: Names, conts: Names, labels: Names) -> Workflow:
    """Ids, scaled numbers, and labels: what most tables need before a first model."""
    tags = ((cats, Tags.CATEGORICAL), (conts, Tags.CONTINUOUS), (labels, Tags.TARGET))
    groups = [console.names(given) or data.schema.select_by_tag(tag).column_names for given, tag in tags]
    steps: tuple[list[Any], ...] = (
        [Categorify()],
        [FillMissing(), Normalize()],
        [AddTags(Tags.TARGET)],
    )
    node: Any = None
    for columns, chain in zip(groups, steps, strict=True):
        part: Any = columns
        for step in chain if columns else ():
            part = part >> step
        if columns:
            node = part if node is None else node + part
    if node is None:
        raise typer.BadParameter("nothing to fit: no column is named or tagged", param_hint="--cats, --conts, --labels")
    return Workflow(node)


def transform(
    path: console.Path_,
    output: Output,
    workflow: Annotated[Path, typer.Option(help="The saved, fitted workflow.")],
    files: Files = None,
    row_group_size: GroupRows = None,
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    json: console.Json = False,
) -> None:
    """Run a fitted workflow over a table, and write what comes out as Parquet files."""
    start = time.perf_counter()
    made = Workflow.load(workflow).transform(console.open_table(path, engine, where, version))
    made.to_parquet(output, output_files=files, row_group_size=row_group_size)
    _written(output, start, json)


def convert(
    path: console.Path_,
    output: Annotated[Path, typer.Argument(metavar="OUT", parser=console.output_path, help="The folder to write.")],
    files: Files = None,
    row_group_size: GroupRows = None,
    compression: Annotated[str, typer.Option(help="snappy, zstd, lz4, gzip or none.")] = "snappy",
    engine: console.Engine = None,
    where: console.Where = None,
    version: console.Version = None,
    sep: console.Separator = None,
    names: Annotated[Names, typer.Option(help="CSV: names of the columns.")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="CSV: whether the first line holds names; so it is without --names."),
    ] = None,
    null_values: console.NullValues = None,
    hex_: Annotated[Names, typer.Option("--hex", help="Columns of hexadecimal text, to be read as integers.")] = None,
    json: console.Json = False,
) -> None:
    """Write CSV, Arrow or Parquet files as Parquet that suits streaming."""
    start = time.perf_counter()
    options: dict[str, Any] = {"sep": sep, "names": console.names(names), "has_header": header}
    options["null_values"] = console.names(null_values)
    dtypes = dict.fromkeys(console.names(hex_) or (), "hex")
    given = {name: value for name, value in options.items() if value is not None}
    data = console.open_table(path, engine, where, version, dtypes=dtypes or None, **given)
    data.to_parquet(output, output_files=files, row_group_size=row_group_size, compression=compression)
    kind = getattr(getattr(data.source, "files", None), "engine", None)
    _written(output, start, json, tuple(on_null_texts(measure_text(Dataset(output)), shlex.quote(path), kind)))


def _written(output: Path, start: float, json: bool, advice: Sequence[Advice] = ()) -> None:
    found = Dataset(output)
    files = len({fragment.unit for fragment in found.source.fragments})
    if json:
        told = {"advice": [asdict(one) for one in advice]} if advice else {}
        console.emit({"path": str(output), "rows": found.num_rows, "files": files, "seconds": _since(start), **told})
    else:
        console.show(f"Wrote {plural(found.num_rows, 'row')} in {plural(files, 'file')}: {output}")
        console.advise(advice)


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 3)
