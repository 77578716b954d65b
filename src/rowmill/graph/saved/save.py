"""A workflow as a folder: `workflow.json` (the graph), numbered Parquet tables, and a manifest of checksums.

Nothing in the folder can run. Operators are named from a closed list, functions only by what the caller passes, tables
by number; column names never become file names, and nothing outside the folder is opened. A folder is written beside
its target and renamed, so a reader sees all of it or nothing. It can be moved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError, WorkflowFileError
from rowmill.graph.execution.learnt_rows import LearntRows
from rowmill.graph.node import Apply, Named, Node, Only, Select, Without, walk
from rowmill.graph.operator import Fitted, Operator
from rowmill.graph.saved.codec import Tables, encode
from rowmill.graph.saved.expressions import save_expression
from rowmill.graph.saved.function_digest import letters_of
from rowmill.graph.saved.kept import encode_kept
from rowmill.graph.saved.learnt import describe_learnt
from rowmill.graph.saved.limits import check_limits
from rowmill.schema import Schema
from rowmill.sinks.staging import staged_folder
from rowmill.statistics.values import VERSION as HASH_VERSION

FORMAT = "rowmill.workflow"
VERSION = 2  # 1: expressions in Polars' own format, which are not read any more
GRAPH, MANIFEST = "workflow.json", "_metadata.json"


def save(
    path: Path,
    output: Node,
    fitted: Mapping[int, Fitted],
    removed: frozenset[str],
    root: Schema | None,
    learnt: LearntRows,
) -> None:
    """Write a workflow to a folder, which appears when all of it is written. `learnt`: the rows it has learnt from."""
    check_limits(output)
    tables = Tables()
    graph = describe(output, fitted, tables, function_name)
    for number, state in fitted.items():
        graph["nodes"][number]["learnt"]["kept"] = encode_kept(state.kept, tables)
    graph |= {"removed": sorted(removed), **describe_learnt(learnt)}
    graph["columns"] = None if root is None else json.loads(root.to_json())["columns"]
    for frame in tables.frames:
        check_table(frame)
    with staged_folder(path, workflow=True) as folder:
        files = {GRAPH: json.dumps(graph, indent=1, allow_nan=False).encode()}
        for number, frame in enumerate(tables.frames):
            written = BytesIO()
            frame.write_parquet(written, compression="zstd", statistics=False)
            files[table_file(number)] = written.getvalue()
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        sums = {name: {"bytes": len(content), "sha256": sha256(content)} for name, content in files.items()}
        manifest = {"format": FORMAT, "version": VERSION, "files": sums}
        # listed as in a folder of Parquet files, which is how a later save knows that the folder may be replaced
        manifest["file_stats"] = [{"file_name": name, "num_rows": 0} for name in files]
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))


def check_table(frame: pl.DataFrame) -> None:
    """Refuse columns that cannot be read back."""
    for name, dtype in frame.schema.items():
        if dtype in (pl.Int128, pl.UInt128, pl.Object):
            raise ArgumentError(
                f"cannot save a table with column {name!r} of type {dtype}; cast it to int64, float64 or string first"
            )


def describe(
    output: Node, fitted: Mapping[int, Fitted], tables: Tables, name: Callable[[Any], str], **forms: Any
) -> dict[str, Any]:
    """The graph and its states as JSON data; frames go to `tables`. `forms`: see `encode`."""
    nodes = list(walk(output))
    number = {id(node): index for index, node in enumerate(nodes)}
    described = []
    for index, node in enumerate(nodes):
        entry: dict[str, Any] = {"kind": type(node).__name__, "parents": [number[id(p)] for p in node.upstream]}
        if isinstance(node, Select | Only | Without):
            entry["columns"] = encode(node.selector, tables, name=name)
        elif isinstance(node, Named):
            entry["name"] = node.name
        elif isinstance(node, Apply):
            entry |= _described_operator(node.operator, tables, name, forms)
        if index in fitted:
            state = fitted[index]
            entry["learnt"] = {
                "values": encode(state.values, tables, name=name),
                "tables": [[key, tables.add(table.frame)] for key, table in state.tables.items()],
            }
        described.append(entry)
    return {"format": FORMAT, "version": VERSION, "hash": HASH_VERSION, "nodes": described}


def _described_operator(
    operator: Operator, tables: Tables, name: Callable[[Any], str], forms: dict[str, Any]
) -> dict[str, Any]:
    from rowmill.ops import OPERATORS

    kind = type(operator).__name__
    if OPERATORS.get(kind) is not type(operator):
        if forms:  # to compare, not to save
            return {"operator": kind, "settings": name(operator)}
        raise ArgumentError(
            f"cannot save an operator of type {type(operator).__qualname__}: only those of rowmill.ops can be loaded "
            f"again; write it as a LambdaOp with a named function"
        )
    settings = {}
    for key, value in operator.settings().items():
        if key == operator.needs and any(value is needed for needed in operator.dependencies()):
            continue  # it is in the graph, as a parent
        settings[key] = None if key in operator.places else encode(value, tables, name=name, **forms)
    return {"operator": kind, "settings": settings}


def function_name(function: Any) -> str:
    """The name that a function is saved under; one without a name cannot be."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ArgumentError(
            "cannot save a lambda: it has no name to be given again by; define it with def, and pass it to "
            "Workflow.load(path, functions={...})"
        )
    return name


def fingerprint(output: Node, fitted: Mapping[int, Fitted], removed: frozenset[str]) -> tuple[str, str]:
    """Letters that change with any setting, function or statistic; and what they cannot tell of a function, if so."""
    tables, doubts = Tables(), list[str]()
    name = partial(letters_of, doubts=doubts)
    described = describe(output, fitted, tables, name, expression=partial(_written, doubts=doubts))
    text = json.dumps(described, sort_keys=True) + repr(sorted(removed))
    seen = hashlib.sha256(text.encode())
    for frame in tables.frames:
        seen.update(repr(frame.schema).encode())
        seen.update(frame.hash_rows(seed=0).to_numpy().tobytes() if frame.width else b"")
    return seen.hexdigest()[:16], doubts[0] if doubts else ""


def _written(expr: pl.Expr, doubts: list[str]) -> dict[str, Any]:
    """An expression as Polars writes it: to compare, never to read. One that cannot be saved may hold a function."""
    try:
        save_expression(expr)
    except WorkflowFileError:
        doubts.append("an expression that cannot be saved")
    try:
        return {"$expr": json.loads(expr.meta.serialize(format="json"))}
    except (pl.exceptions.PolarsError, ValueError):
        return {"$expr": str(expr)}


def table_file(number: int) -> str:
    """The name of a table's file."""
    return f"tables/{number:06}.parquet"


def sha256(content: bytes) -> str:
    """The checksum of a file, as the manifest has it."""
    return hashlib.sha256(content).hexdigest()
