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
from os import PathLike
from pathlib import Path
from typing import Any

from rowmill.errors import ArgumentError
from rowmill.graph.codec import Tables, encode
from rowmill.graph.functions import letters_of
from rowmill.graph.node import Apply, Named, Node, Only, Select, Without, walk
from rowmill.graph.operator import Fitted, Operator
from rowmill.schema import Schema
from rowmill.sinks.staging import staged_folder
from rowmill.statistics.values import VERSION as HASH_VERSION

FORMAT = "rowmill.workflow"
VERSION = 1
GRAPH, MANIFEST = "workflow.json", "_metadata.json"


def save(
    path: str | PathLike[str],
    output: Node,
    fitted: Mapping[int, Fitted],
    removed: frozenset[str],
    root: Schema | None,
    learnt_from: str | None,
) -> None:
    """Write a workflow to a folder, which appears when all of it is written."""
    tables = Tables()
    graph = describe(output, fitted, tables, function_name)
    graph |= {"removed": sorted(removed), "learnt_from": learnt_from}
    graph["columns"] = None if root is None else json.loads(root.to_json())["columns"]
    with staged_folder(Path(path)) as folder:
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


def describe(output: Node, fitted: Mapping[int, Fitted], tables: Tables, name: Callable[[Any], str]) -> dict[str, Any]:
    """The graph and its states as JSON data; frames go to `tables`."""
    nodes = list(walk(output))
    number = {id(node): index for index, node in enumerate(nodes)}
    described = []
    for index, node in enumerate(nodes):
        entry: dict[str, Any] = {"kind": type(node).__name__, "parents": [number[id(p)] for p in node.parents]}
        if isinstance(node, Select | Only | Without):
            entry["columns"] = encode(node.selector, tables, name=name)
        elif isinstance(node, Named):
            entry["name"] = node.name
        elif isinstance(node, Apply):
            entry |= _described_operator(node.operator, tables, name)
        if index in fitted:
            state = fitted[index]
            entry["learnt"] = {
                "values": encode(state.values, tables, name=name),
                "tables": [[key, tables.add(table.frame)] for key, table in state.tables.items()],
            }
        described.append(entry)
    return {"format": FORMAT, "version": VERSION, "hash": HASH_VERSION, "nodes": described}


def _described_operator(operator: Operator, tables: Tables, name: Callable[[Any], str]) -> dict[str, Any]:
    from rowmill.ops import OPERATORS

    kind = type(operator).__name__
    if OPERATORS.get(kind) is not type(operator):
        raise ArgumentError(
            f"cannot save an operator of type {type(operator).__qualname__}: only those of rowmill.ops can be loaded "
            f"again; write it as a LambdaOp with a named function"
        )
    settings = {}
    for key, value in operator.settings().items():
        if key == operator.needs and any(value is needed for needed in operator.dependencies()):
            continue  # it is in the graph, as a parent
        settings[key] = encode(value, tables, name=name)
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
    text = json.dumps(describe(output, fitted, tables, name), sort_keys=True) + repr(sorted(removed))
    seen = hashlib.sha256(text.encode())
    for frame in tables.frames:
        seen.update(repr(frame.schema).encode())
        seen.update(frame.hash_rows(seed=0).to_numpy().tobytes() if frame.width else b"")
    return seen.hexdigest()[:16], doubts[0] if doubts else ""


def table_file(number: int) -> str:
    """The name of a table's file."""
    return f"tables/{number:06}.parquet"


def sha256(content: bytes) -> str:
    """The checksum of a file, as the manifest has it."""
    return hashlib.sha256(content).hexdigest()
