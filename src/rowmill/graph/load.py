"""A workflow back from its folder, which may come from anybody: all of it is checked before anything is built."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from rowmill.errors import RowmillError, UnknownFunctionError, WorkflowFileError
from rowmill.graph.codec import decode
from rowmill.graph.node import Apply, Concat, Named, Node, Only, Select, Without, walk
from rowmill.graph.operator import Fitted, Operator
from rowmill.graph.save import FORMAT, GRAPH, MANIFEST, VERSION, sha256, table_file
from rowmill.graph.selector import ColumnSelector
from rowmill.schema import Schema
from rowmill.statistics.values import VERSION as HASH_VERSION

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
            content = files.get(table_file(number))
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
            ValueError, RecursionError, OSError, AssertionError, pl.exceptions.PanicException) as error:  # fmt: skip
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
    if len(parents) > 1:  # what it needs besides its input is in the graph
        _check(operator.needs is not None, f"more than one parent for {name}")
        decoded.setdefault(operator.needs, parents[1])
    return Apply(operator.from_settings(decoded), parents)


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
        known = name == GRAPH or (name.startswith("tables/") and name == table_file(_number(name)))
        _check(known, f"a file named {name[:60]!r}")
        _check(isinstance(facts, dict) and type(facts.get("bytes")) is int, "the list of files")
        content = _content(folder, name, facts["bytes"])
        _check(len(content) == facts["bytes"] and sha256(content) == facts.get("sha256"), f"{name} has changed")
        files[name] = content
    return files


def _number(name: str) -> int:
    digits = name.removeprefix("tables/").removesuffix(".parquet")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 8 else -1


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
