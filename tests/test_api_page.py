"""The reference page: every public name stands in an example, and the examples run as one program."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PAGE = PROJECT / "docs" / "api.md"
SOURCE = PROJECT / "src" / "rowmill"
EXAMPLES = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
MODULES = {
    "rowmill": SOURCE / "__init__.py",
    **{f"rowmill.{name}": SOURCE / f"{name}.py" for name in ("cache", "utils")},
    **{f"rowmill.{name}": SOURCE / name / "__init__.py" for name in ("io", "ops")},
    **{f"rowmill.loader.{path.stem}": path for path in sorted((SOURCE / "loader").glob("[!_]*.py"))},
    "rowmill.tools.synthetic": SOURCE / "tools" / "synthetic.py",
}
NO_EXAMPLE = {"__version__", "CARDINALITIES"}  # constants


def public_names(path: Path) -> list[str]:
    """What `__all__` lists, or else the public classes."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name != "Inputs"]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_example(module):
    missing = [
        name
        for name in public_names(MODULES[module])
        if name not in NO_EXAMPLE and not re.search(rf"\b{name}\b", EXAMPLES)
    ]
    assert not missing, f"{module}: no example in docs/api.md for {missing}"
    assert module == "rowmill" or f"::: {module}" in PAGE.read_text()


def test_the_examples_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-4000:]
