"""Who may import whom, read from the source itself. The rule is in CONTRIBUTING.md."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "rowmill"

ALLOWED = {
    "errors": set(),
    "sizes": {"errors"},
    "schema": {"errors"},
    "sources": {"errors", "schema", "sizes", "sources"},
    "feed": {"errors", "schema", "sizes", "sources.source", "feed"},
    "dataset": {"errors", "schema", "sizes", "sources", "dataset"},
    "loader": {"errors", "schema", "feed", "dataset"},
    "tools": {"*"},
}
FRAMEWORKS = {"torch", "tensorflow", "keras", "jax", "fastai", "lightning", "tensordict"}


def part_of(path: Path) -> str:
    name = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "dataset" if name in ("dataset", "write", "rearrange", "io") else name


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
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
        inner = "dataset" if inner.split(".")[0] in ("write", "rearrange", "io") else inner
        known = [a for a in allowed if inner == a or inner.startswith(a + ".") or a.startswith(inner + ".")]
        assert known or part_of(ROOT / f"{inner.split('.')[0]}.py") == part, f"{path}: {part} may not import {name}"


def test_importing_rowmill_loads_no_framework():
    heavy = ["torch", "tensorflow", "jax", "pandas", "dask", "numba", "matplotlib", "pyarrow.dataset"]
    code = f"import rowmill, sys; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_file_can_be_held_in_the_head():
    long = {str(p.relative_to(ROOT)): n for p in MODULES if (n := len(p.read_text().splitlines())) > 400}
    assert not long, f"files over 400 lines: {long}"
