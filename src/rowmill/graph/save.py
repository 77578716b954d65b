"""A workflow as a folder and back: `workflow.json` (the graph), numbered Parquet tables, and a manifest of checksums.

Nothing in the folder can run. Operators are named from a closed list, functions only by what the caller passes, tables
by number; column names never become file names, and nothing outside the folder is opened. A folder is written beside
its target and renamed, so a reader sees all of it or nothing. It can be moved.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from rowmill.errors import ArgumentError, RowmillError, UnknownFunctionError, WorkflowFileError
from rowmill.graph.codec import Tables, decode, encode
from rowmill.graph.node import Apply, Concat, Named, Node, Only, Select, Without, walk
from rowmill.graph.operator import Fitted, Operator
from rowmill.graph.selector import ColumnSelector
from rowmill.schema import Schema
from rowmill.sinks.staging import staged_folder
from rowmill.statistics.values import VERSION as HASH_VERSION

FORMAT = "rowmill.workflow"
VERSION = 1
GRAPH, MANIFEST = "workflow.json", "_metadata.json"
MAX_JSON = 100 << 20
MAX_NODES = 100_000
MAX_TABLES = 100_000


@dataclass(frozen=True)
class Loaded:
    """What a folder held."""

    output: Node
    fitted: dict[int, Fitted]
    removed: frozenset[str]
    root: Schema | None
    learnt_from: str | None


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
            files[_table_file(number)] = written.getvalue()
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        sums = {name: {"bytes": len(content), "sha256": _sha(content)} for name, content in files.items()}
        manifest = {"format": FORMAT, "version": VERSION, "files": sums}
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
        if any(value is needs for needs in operator.dependencies()):
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


def fingerprint(output: Node, fitted: Mapping[int, Fitted], removed: frozenset[str]) -> str:
    """Letters that change with any setting, function or statistic."""
    tables = Tables()
    text = json.dumps(describe(output, fitted, tables, _code_of), sort_keys=True) + repr(sorted(removed))
    seen = hashlib.sha256(text.encode())
    for frame in tables.frames:
        seen.update(repr(frame.schema).encode())
        seen.update(frame.hash_rows(seed=0).to_numpy().tobytes() if frame.width else b"")
    return seen.hexdigest()[:16]


def _code_of(function: Any) -> str:
    """A function by what it does, as far as that can be seen: its code, constants and what it encloses."""
    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    enclosed = [repr(cell.cell_contents) for cell in getattr(function, "__closure__", None) or ()]
    return _sha(repr((code.co_code, code.co_names, [repr(c) for c in code.co_consts], enclosed)).encode())


def load(path: str | PathLike[str], operators: Mapping[str, type[Operator]], functions: Mapping[str, Any]) -> Loaded:
    """The workflow in a folder. Everything is checked before anything is built."""
    folder = Path(path)
    files = _checked_files(folder)
    graph = _parsed(files[GRAPH])
    _check(isinstance(graph, dict) and graph.get("format") == FORMAT, "it is no workflow")
    _check_version(graph.get("version"), VERSION)
    _check_version(graph.get("hash"), HASH_VERSION)
    tables: dict[int, pl.DataFrame] = {}

    def read(number: Any) -> pl.DataFrame:
        _check(
            isinstance(number, int) and not isinstance(number, bool) and 0 <= number < MAX_TABLES, "a table's number"
        )
        if number not in tables:
            content = files.get(_table_file(number))
            _check(content is not None, f"table {number} is missing")
            tables[number] = pl.read_parquet(BytesIO(content or b""))
        return tables[number]

    with loading(folder):
        return _built(graph, operators, functions, read)


@contextmanager
def loading(path: str | PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong with what a folder holds is an error about that folder."""
    try:
        yield
    except (UnknownFunctionError, WorkflowFileError):
        raise
    except (RowmillError, pl.exceptions.PolarsError, ArithmeticError, AttributeError, LookupError, TypeError,
            ValueError, RecursionError, OSError, AssertionError) as error:  # fmt: skip
        raise WorkflowFileError(f"{path} holds no workflow that can be loaded: {error}; save it again") from error


def _built(graph: Any, operators: Mapping[str, Any], functions: Mapping[str, Any], read: Any) -> Loaded:
    described = graph["nodes"]
    _check(isinstance(described, list) and 0 < len(described) <= MAX_NODES, "the list of nodes")
    nodes: list[Node] = []
    fitted: dict[int, Fitted] = {}
    for index, entry in enumerate(described):
        _check(isinstance(entry, dict), f"node {index}")
        numbers = entry["parents"]
        _check(
            isinstance(numbers, list) and all(type(n) is int and 0 <= n < index for n in numbers), "a node's parents"
        )
        parents = tuple(nodes[n] for n in numbers)
        nodes.append(_node(entry, parents, operators, functions, read))
        if "learnt" in entry:
            fitted[index] = _state(entry["learnt"], read)
    order = {id(node): index for index, node in enumerate(walk(nodes[-1]))}
    _check(all(order.get(id(node)) == index for index, node in enumerate(nodes)), "the order of nodes")
    root = graph.get("columns")
    schema = None if root is None else Schema.from_json(json.dumps({"columns": root}))
    learnt_from, removed = graph.get("learnt_from"), graph.get("removed", [])
    _check(learnt_from is None or isinstance(learnt_from, str), "learnt_from")
    _check(isinstance(removed, list) and all(isinstance(name, str) for name in removed), "removed")
    return Loaded(nodes[-1], fitted, frozenset(removed), schema, learnt_from)


def _node(entry: Any, parents: tuple[Node, ...], operators: Mapping[str, Any], functions: Any, read: Any) -> Node:
    kind = entry.get("kind")
    if kind == "Apply":
        return _applied(entry, parents, operators, functions, read)
    if kind == "Concat":
        return Concat(parents)
    if kind == "Named":
        _check(len(parents) == 1 and isinstance(entry["name"], str), "a named part")
        return Named(entry["name"], parents[0])
    selector = decode(entry.get("columns"), read, {})
    _check(isinstance(selector, ColumnSelector), "a node's columns")
    if kind == "Select":
        _check(not parents, "a selection")
        return Select(selector)
    _check(kind in ("Only", "Without") and len(parents) in (1, 2), f"a node of kind {kind!r}")
    return Only(parents[:1], selector) if kind == "Only" else Without(parents, selector)


def _applied(entry: Any, parents: tuple[Node, ...], operators: Mapping[str, Any], functions: Any, read: Any) -> Node:
    name, settings = entry.get("operator"), entry.get("settings")
    _check(isinstance(name, str) and name in operators, f"an operator named {str(name)[:40]!r}")
    _check(isinstance(settings, dict) and bool(parents), "an operator's settings")
    operator = operators[name]
    decoded = {key: decode(value, read, functions) for key, value in settings.items()}
    if name == "Expr":
        return Apply(operator(*decoded.pop("exprs"), keep=bool(decoded.pop("keep"))), parents)
    if len(parents) > 1:  # what it depends on is in the graph
        missing = _DEPENDENCY.get(name)
        _check(missing is not None, f"more than one parent for {name}")
        if missing not in decoded:
            decoded[str(missing)] = parents[1]
    return Apply(operator(**decoded), parents)


_DEPENDENCY = {
    "TargetEncoding": "target",
    "JoinGroupby": "cont_cols",
    "LambdaOp": "dependency",
    "DifferenceLag": "partition_cols",
}


def _state(entry: Any, read: Any) -> Fitted:
    _check(isinstance(entry, dict) and isinstance(entry.get("tables"), list), "what was learnt")
    values = decode(entry["values"], read, {})
    _check(isinstance(values, dict), "what was learnt")
    named = {key: read(number) for key, number in entry["tables"] if isinstance(key, str)}
    return Fitted(values, named)


def _checked_files(folder: Path) -> dict[str, bytes]:
    """The content of the files that the manifest lists, each as long and as it was written."""
    manifest = _parsed(_content(folder, MANIFEST, MAX_JSON))
    _check(isinstance(manifest, dict) and manifest.get("format") == FORMAT, f"{folder / MANIFEST} is of something else")
    _check_version(manifest.get("version"), VERSION)
    listed = manifest.get("files")
    _check(isinstance(listed, dict) and 0 < len(listed) <= MAX_TABLES and GRAPH in listed, "the list of files")
    files = {}
    for name, facts in listed.items():
        known = name == GRAPH or (name.startswith("tables/") and name == _table_file(_number(name)))
        _check(known, f"a file named {name[:60]!r}")
        _check(isinstance(facts, dict) and type(facts.get("bytes")) is int, "the list of files")
        content = _content(folder, name, facts["bytes"])
        _check(len(content) == facts["bytes"] and _sha(content) == facts.get("sha256"), f"{name} has changed")
        files[name] = content
    return files


def _number(name: str) -> int:
    digits = name.removeprefix("tables/").removesuffix(".parquet")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 8 else -1


def _table_file(number: int) -> str:
    return f"tables/{number:06}.parquet"


def _content(folder: Path, name: str, most: int) -> bytes:
    """A file of the folder itself: nothing that a link leads to."""
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in name.split("/")[:-1]:
                inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                os.close(directory)
                directory = inside
            handle = os.open(name.split("/")[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
        finally:
            os.close(directory)
        with os.fdopen(handle, "rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:
        raise WorkflowFileError(
            f"cannot read {folder / name}: {error}; wanted a folder that Workflow.save wrote"
        ) from error


def _parsed(content: bytes) -> Any:
    _check(len(content) <= MAX_JSON, "a file that is too long")
    try:
        return json.loads(content, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise WorkflowFileError(f"cannot read the workflow: {str(error)[:200]}; save it again") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name is there twice")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _check_version(found: Any, known: int) -> None:
    _check(type(found) is int and found >= 1, "the version")
    if found > known:
        raise WorkflowFileError(
            f"the workflow was saved by a later version of Rowmill (format {found}); update Rowmill"
        )


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise WorkflowFileError(f"cannot load the workflow: {what} is not as Workflow.save writes it; save it again")


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
