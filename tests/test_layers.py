"""Who may import whom, read from the source itself. The rule is in CONTRIBUTING.md."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "rowmill"

ALLOWED = {
    "_native": {"_native"},
    "errors": set(),
    "_system": {"errors", "_system"},
    "tags": {"errors"},
    "dtypes": {"errors"},
    "utils": {"errors"},
    "column_schema": {"errors", "dtypes", "tags"},
    "schema": {"errors", "dtypes", "tags", "column_schema"},
    "sources": {"_system", "errors", "schema", "sources"},
    "sinks": {"_system", "errors", "schema", "sources", "sinks"},
    "statistics": {"_native", "errors", "sources.names", "sources.owned", "statistics"},
    "graph": {
        "_system.handles",
        "errors",
        "schema",
        "tags",
        "statistics",
        "sources",
        "sinks.staging",
        "graph",
        "ops.udf",
        "ops",  # when called: a bare function is an operator, and only known ones are saved
    },
    "ops": {"_native", "_system.sizes", "errors", "schema", "sources", "statistics", "graph", "ops"},
    "engines": {
        "_system.progress",
        "_system.threads",
        "errors",
        "sources.source",
        "sources.files.temporary_files",
        "statistics",
        "engines",
    },
    "whole_partitions": {"dataset", "errors", "graph.node"},
    "_workflow": {
        "_workflow",
        "dataset",
        "errors",
        "engines.engine",
        "graph",
        "schema",
        "sources",
        "whole_partitions",
    },
    "workflow": {
        "_workflow",
        "_system",
        "dataset",
        "errors",
        "engines",
        "graph",
        "ops",
        "schema",
        "sources",
        "utils",
        "whole_partitions",
    },
    "feed": {
        "_native",
        "_system",
        "errors",
        "schema",
        "sources.source",
        "sources.names",
        "sources.locate",
        "sources.summary",
        "sources.files.added_files",
        "feed",
    },
    "store": {"_native", "_system", "errors", "sources.files.paths", "feed", "store"},
    "cache": {"sources.files.paths", "store"},
    "dataset": {
        "_system",
        "_dataset",
        "errors",
        "schema",
        "sources",
        "sinks",
        "utils",
        "loader._torch.map_style",  # when `as_map_style` is called
    },
    "_dataset": {
        "_dataset",
        "_system.interrupts",
        "_system.progress",
        "errors",
        "schema",
        "sources",
        "statistics.values",
        "graph.saved.expressions",
        "dataset",  # for its type, and to open what `concat` is given
    },
    "io": {"dataset", "sinks"},
    "loader": {
        "_system",
        "errors",
        "schema",
        "sources.source",
        "sources.names",
        "sources.files.paths",
        "sources.summary",
        "feed",
        "store",
        "dataset",
        "report",  # when loader.report() is called
        "loader",
        "workflow",
        "ops",
        "graph.node",  # in feature_workflow alone, which makes one
    },
    "report": {
        "_system.display",
        "_system.progress",
        "errors",
        "schema",
        "dataset",
        "sources.null_texts",
        "sources.summary",
        "sources.files.paths",
        "feed.report",
        "report",
    },
    "cli": {
        "_dataset.sql_condition",
        "_system.progress",
        "errors",
        "feed.report.verdict",
        "feed.run.batch_rows",
        "schema",
        "dataset",
        "sources.files.paths",
        "workflow",
        "ops",
        "cache",
        "report",
        "tools",
        "cli",
    },
    "__main__": {"cli"},
    "tools": {"*"},
}
FRAMEWORKS = {"torch", "tensorflow", "keras", "jax", "fastai", "lightning", "tensordict"}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def nodes(tree):
    """All of a module but what only the type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            yield node
            yield from nodes(node)


def imports(path: Path):
    for node in nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            if (ROOT.parent / node.module.replace(".", "/")).is_dir():  # names of a package may be modules
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_its_layer_may(path):
    part = part_of(path)
    allowed = ALLOWED[part]
    for name in imports(path):
        if name.split(".")[0] in FRAMEWORKS:
            assert part in ("loader", "tools"), f"{path}: imports {name}"
            continue
        if not name.startswith("rowmill.") or "*" in allowed:
            continue
        inner = name.removeprefix("rowmill.")
        known = any(inner == a or inner.startswith(a + ".") for a in allowed)
        assert known, f"{path}: {part} may not import {name}"


def test_importing_rowmill_loads_no_framework():
    heavy = ["torch", "tensorflow", "jax", "pandas", "dask", "matplotlib", "pyarrow.dataset"]
    code = f"import rowmill, sys; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_file_can_be_held_in_the_head():
    long = {str(p.relative_to(ROOT)): n for p in MODULES if (n := len(p.read_text().splitlines())) > 400}
    assert not long, f"files over 400 lines: {long}"
