"""What a workflow knows of the rows it has learnt from, as JSON data and back. Called by `save` and `load`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowmill.errors import WorkflowFileError
from rowmill.graph.execution.learnt_rows import LearntPart, LearntRows
from rowmill.sources.wrap.time_cut import Moment

_MAX_TEXT = 1_000
_MAX_PARTS = 100_000


def describe_learnt(learnt: LearntRows) -> dict[str, Any]:
    """The entries that a saved workflow has of it."""
    parts = [[part.fingerprint, part.rows, part.files and list(part.files)] for part in learnt.parts]
    latest = {name: at if isinstance(at, str) else {"number": repr(at)} for name, at in learnt.latest.items()}
    return {"learnt": {"parts": parts, "latest": latest}}


def read_learnt(graph: Mapping[str, Any]) -> LearntRows:
    """What these entries say, each of them checked."""
    if "learnt" not in graph:  # saved by an earlier version
        fingerprint, rows = graph.get("learnt_from"), graph.get("learnt_rows")
        return LearntRows() if fingerprint is None else LearntRows((_part([fingerprint, rows, None]),))
    given: Any = graph["learnt"]
    _check(isinstance(given, dict))
    parts, latest = given.get("parts"), given.get("latest")
    _check(isinstance(parts, list) and len(parts) <= _MAX_PARTS and isinstance(latest, dict))
    return LearntRows(tuple(map(_part, parts)), {name: _moment(value) for name, value in latest.items()})


def _part(given: Any) -> LearntPart:
    _check(isinstance(given, list) and len(given) == 3)
    fingerprint, rows, files = given
    _check(_is_text(fingerprint) and (rows is None or _is_count(rows)))
    if files is None:
        return LearntPart(fingerprint, rows)
    _check(isinstance(files, list) and len(files) == 2 and _is_count(files[0]) and _is_text(files[1]))
    return LearntPart(fingerprint, rows, (files[0], files[1]))


def _moment(given: Any) -> Moment:
    if isinstance(given, str):
        _check(_is_text(given))
        return given
    text: Any = given.get("number") if isinstance(given, dict) else None
    _check(isinstance(text, str) and len(text) <= 40)
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError as error:
        raise _damaged() from error


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) < _MAX_TEXT


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _check(holds: bool) -> None:
    if not holds:
        raise _damaged()


def _damaged() -> WorkflowFileError:
    return WorkflowFileError(
        "cannot load the workflow: what it says of the rows it has learnt from is not as Workflow.save writes it; save "
        "it again"
    )
