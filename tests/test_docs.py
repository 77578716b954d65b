"""The programs of the pages in docs/ run as they are printed."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "keras-and-jax.md"


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_the_page_on_keras_runs(backend, tmp_path):
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert programs
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(programs)],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert found.returncode == 0, found.stderr


def test_the_workflow_page(tmp_path):
    """In a file, as a cluster's processes import the program that started them."""
    programs = re.findall(r"```python\n(.*?)```", (DOCS / "workflow.md").read_text(), re.S)
    assert len(programs) >= 5
    *setting_up, cluster = programs
    body = "\n".join(setting_up) + "\n" + cluster.replace('if __name__ == "__main__":', "if True:")
    (tmp_path / "program.py").write_text('if __name__ == "__main__":\n' + textwrap.indent(body, "    "))
    found = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert found.returncode == 0, found.stderr[-4000:]
    assert (tmp_path / "prepared-there").is_dir()
