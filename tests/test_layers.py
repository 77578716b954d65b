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
    "sizes": {"errors"},
    "progress": set(),
    "display": set(),
    "lock": set(),
    "heap": set(),
    "threads": set(),
    "interrupts": set(),
    "forked": {"errors"},
    "handles": set(),
    "tags": {"errors"},
    "dtypes": {"errors"},
    "utils": {"errors"},
    "column_schema": {"errors", "dtypes", "tags"},
    "schema": {"errors", "dtypes", "tags", "column_schema"},
    "sources": {"display", "errors", "forked", "handles", "heap", "lock", "schema", "sizes", "threads", "sources"},
    "sinks": {"errors", "forked", "handles", "schema", "sizes", "progress", "threads", "sources", "sinks"},
    "statistics": {"_native", "errors", "sources.names", "statistics"},
    "graph": {
        "errors",
        "handles",
        "schema",
        "tags",
        "statistics",
        "sources",
        "sinks.staging",
        "graph",
        "ops.udf",
        "ops",  # when called: a bare function is an operator, and only known ones are saved
    },
    "ops": {"_native", "errors", "schema", "sizes", "sources", "statistics", "graph", "ops"},
    "engines": {"errors", "progress", "sources.source", "sources.spool", "statistics", "threads", "engines"},
    "whole": {"dataset", "errors", "graph.node"},
    "workflow": {
        "forked",
        "interrupts",
        "dataset",
        "display",
        "errors",
        "engines",
        "graph",
        "ops",
        "schema",
        "sizes",
        "sources",
        "utils",
        "whole",
    },
    "feed": {
        "forked",
        "interrupts",
        "_native",
        "errors",
        "heap",
        "lock",
        "schema",
        "sizes",
        "sources.source",
        "sources.names",
        "threads",
        "feed",
    },
    "store": {"_native", "errors", "handles", "lock", "sizes", "sources.paths", "threads", "feed", "store"},
    "cache": {"sources.paths", "store"},
    "dataset": {
        "forked",
        "interrupts",
        "display",
        "errors",
        "schema",
        "sizes",
        "sources",
        "sinks",
        "utils",
        "loader.torch_map",
    },  # the last when it is called
    "io": {"dataset", "sinks"},
    "loader": {
        "interrupts",
        "display",
        "errors",
        "heap",
        "lock",
        "threads",
        "schema",
        "sizes",
        "sources.source",
        "sources.names",
        "sources.paths",
        "sources.summary",
        "progress",
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
        "errors",
        "schema",
        "progress",
        "dataset",
        "sources.null_texts",
        "sources.paths",
        "feed.explain",
        "feed.show",
        "feed.stats",
        "report",
    },
    "cli": {
        "errors",
        "schema",
        "progress",
        "dataset",
        "sources.paths",
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
            if node.module == "rowmill" or node.module.count(".") < 2:
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
