"""A workflow back from its folder, which may come from anybody: all of it is checked before anything is built."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import RowmillError, UnknownFunctionError, WorkflowFileError
from rowmill.graph.execution.failures import UNEXPECTED
from rowmill.graph.execution.learnt_rows import LearntRows
from rowmill.graph.node import Apply, Concat, Group, Named, Node, Only, Select, Without, walk
from rowmill.graph.operator import Fitted, Operator
from rowmill.graph.saved.codec import decode
from rowmill.graph.saved.folder import ByteBudget, Folder, too_large
from rowmill.graph.saved.kept import decode_kept
from rowmill.graph.saved.learnt import read_learnt
from rowmill.graph.saved.limits import MAX_NODES, check_limits
from rowmill.graph.saved.literals import MAX_WIDTH
from rowmill.graph.saved.save import FORMAT, GRAPH, MANIFEST, VERSION, sha256, table_file
from rowmill.graph.saved.tables import MAX_COLUMNS, read_table
from rowmill.graph.selector import ColumnSelector
from rowmill.schema import Schema
from rowmill.statistics.values import VERSION as HASH_VERSION

MAX_TABLES = 100_000
MAX_NAME = 65_536
FAILURES: tuple[type[BaseException], ...] = (*UNEXPECTED, RowmillError)
_COLUMN_KEYS = {"name", "dtype", "tags", "properties", "is_list", "width", "dims"}


@dataclass(frozen=True)
class Loaded:
    """What a folder held."""

    output: Node
    fitted: dict[int, Fitted]
    removed: frozenset[str]
    root: Schema | None
    learnt: LearntRows


def load(path: Path, operators: Mapping[str, type[Operator]], functions: Mapping[str, Any], max_bytes: int) -> Loaded:
    """The workflow in a folder. Everything is checked before anything is built."""
    budget = ByteBudget(max_bytes)
    with Folder(path) as folder:
        files = _checked_files(folder, budget)
    graph = _parsed(files[GRAPH], budget)
    _check(isinstance(graph, dict) and graph.get("format") == FORMAT, "it is no workflow")
    _check_version(graph.get("version"), VERSION)
    _check_version(graph.get("hash"), HASH_VERSION)
    tables: dict[int, pl.DataFrame] = {}

    def read(number: Any, *, looked_up: bool = True) -> pl.DataFrame:
        _check(type(number) is int and 0 <= number < MAX_TABLES, "a table's number")
        if number not in tables:
            name = table_file(number)
            _check(name in files, f"table {number} is missing")
            tables[number] = read_table(files[name], name, budget)
        elif looked_up:  # each operator that looks values up in it builds an index of its own
            budget.take(int(tables[number].estimated_size()), table_file(number))
        return tables[number]

    with loading(path):
        return _built(graph, operators, functions, read)


@contextmanager
def loading(path: str | PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong with what a folder holds is an error about that folder."""
    try:
        yield
    except (UnknownFunctionError, WorkflowFileError):
        raise
    except FAILURES as error:
        raise WorkflowFileError(
            f"{path} holds no workflow that can be loaded: {str(error)[:500]}; save it again"
        ) from error


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
    check_limits(nodes[-1])
    root = graph.get("columns")
    schema = None if root is None else _schema(root)
    removed = graph.get("removed", [])
    _check(isinstance(removed, list) and all(isinstance(name, str) for name in removed), "removed")
    return Loaded(nodes[-1], fitted, frozenset(removed), schema, read_learnt(graph))


def _schema(root: Any) -> Schema:
    """The columns of the table, each with its known properties only and of a type that there is."""
    _check(isinstance(root, list) and len(root) <= MAX_COLUMNS, "the list of columns")
    for column in root:
        _check(isinstance(column, dict) and "name" in column and set(column) <= _COLUMN_KEYS, "a column")
        _check(isinstance(column["name"], str) and len(column["name"]) <= MAX_NAME, "the name of a column")
        tags, width, dtype = column.get("tags", []), column.get("width"), column.get("dtype", "unknown")
        _check(isinstance(tags, list) and all(isinstance(tag, str) for tag in tags), "the tags of a column")
        _check(isinstance(column.get("properties", {}), dict), "the properties of a column")
        _check(isinstance(column.get("is_list", False), bool), "whether a column has lists")
        dims = column.get("dims")
        _check(dims is None or (isinstance(dims, list) and len(dims) <= 8), "the shape of a column")
        _check(width is None or (type(width) is int and 1 <= width <= MAX_WIDTH), "the width of a column")
        _check(isinstance(dtype, str) and len(dtype) <= 10_000 and dtype.count("[") <= 50, "the type of a column")
    return Schema.from_dicts(root)


def _node(entry: Any, parents: tuple[Node, ...], operators: Mapping[str, Any], functions: Any, read: Any) -> Node:
    kind = entry.get("kind")
    if kind == "Apply":
        return _applied(entry, parents, operators, functions, read)
    if kind == "Concat":
        return Concat(parents)
    if kind == "Group":
        _check(len(parents) == 1, "a group")
        return Group(parents[0])
    if kind == "Named":
        _check(len(parents) == 1 and isinstance(entry["name"], str) and len(entry["name"]) <= MAX_NAME, "a named part")
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
        more = operator.needs is not None or operator.completing is not Operator.completing
        _check(more and len(parents) == 2, f"more than one parent for {name}")
        if operator.needs is not None:
            decoded.setdefault(operator.needs, parents[1])
    for key in operator.places:
        decoded.pop(key, None)
    for key in operator.tables:
        _check(_is_table(decoded.get(key)), f"the setting {key} of {name}, which must be a table of the folder,")
    return Apply(operator.from_settings(decoded), parents)


def _is_table(value: Any) -> bool:
    """Whether a setting holds tables or values of the folder itself: no path, pattern or URL, alone or in a list."""
    if isinstance(value, Mapping):
        return all(isinstance(each, pl.DataFrame | pl.Series | np.ndarray | list | tuple) for each in value.values())
    return value is None or isinstance(value, pl.DataFrame | pl.Series)


def _state(entry: Any, read: Any) -> Fitted:
    _check(isinstance(entry, dict) and isinstance(entry.get("tables"), list), "what was learnt")
    values = decode(entry["values"], read, {})
    _check(isinstance(values, dict), "what was learnt")
    for pair in entry["tables"]:
        _check(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str), "what was learnt")
    made = Fitted(values, {key: read(number) for key, number in entry["tables"]})
    made.kept = decode_kept(entry.get("kept", {}), partial(read, looked_up=False))
    return made


def _checked_files(folder: Folder, budget: ByteBudget) -> dict[str, bytes]:
    """The content of the files that the manifest lists, each as long and as it was written."""
    manifest = _parsed(folder.read(MANIFEST, budget.json_bytes, budget), budget)
    _check(isinstance(manifest, dict) and manifest.get("format") == FORMAT, str(folder.path / MANIFEST))
    _check_version(manifest.get("version"), VERSION)
    listed = manifest.get("files")
    _check(isinstance(listed, dict) and 0 < len(listed) <= MAX_TABLES and GRAPH in listed, "the list of files")
    files = {}
    for name, facts in listed.items():
        known = name == GRAPH or (name.startswith("tables/") and name == table_file(_number(name)))
        _check(known, f"a file named {name[:60]!r}")
        _check(isinstance(facts, dict) and type(facts.get("bytes")) is int and facts["bytes"] >= 0, "the list of files")
        content = folder.read(name, budget.json_bytes if name == GRAPH else budget.limit, budget)
        _check(len(content) == facts["bytes"] and sha256(content) == facts.get("sha256"), f"{name} has changed and")
        files[name] = content
    return files


def _number(name: str) -> int:
    digits = name.removeprefix("tables/").removesuffix(".parquet")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 8 else -1


def _parsed(content: bytes, budget: ByteBudget) -> Any:
    if len(content) > budget.json_bytes:
        raise too_large("the JSON of the workflow", budget.limit)
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
