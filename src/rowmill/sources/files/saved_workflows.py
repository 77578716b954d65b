"""Folders that hold a saved workflow: people keep it beside the table it has made, and its files are no rows of that.

Called by `paths` when folders are searched, and by whatever writes to a folder.
"""

# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MANIFEST = "_metadata.json"
WORKFLOW = "rowmill.workflow"  # what the manifest of a saved workflow has as its format
GRAPH = "workflow.json"
_TABLES = "tables"
_MOST_MANIFEST = 256 << 20  # bytes; a million files take 60 MB


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of what Rowmill wrote to a folder; nothing if there is none that can be read."""
    try:
        found = (folder / MANIFEST).lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_MANIFEST:
            return {}
        read = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def holds_workflow(folder: str | Path) -> bool:
    """Whether a folder is what `Workflow.save` wrote."""
    return (Path(folder) / GRAPH).is_file() and read_manifest(Path(folder)).get("format") == WORKFLOW


def without_workflows(files: Sequence[str]) -> list[str]:
    """The files that a pattern found, without the tables of saved workflows."""
    folders = {os.path.dirname(file) for file in files}
    tables = {f for f in folders if os.path.basename(f) == _TABLES and holds_workflow(os.path.dirname(f) or ".")}
    return [file for file in files if os.path.dirname(file) not in tables] if tables else list(files)
