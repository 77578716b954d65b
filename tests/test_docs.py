"""The programs of the pages in docs/ run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "keras-and-jax.md"


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


def test_the_page_on_training_runs(tmp_path):
    programs = re.findall(r"```python\n(.*?)```", PAGE.with_name("training.md").read_text(), re.S)
    assert len(programs) == 3
    check = "assert trainer.global_step == 16 and probabilities.shape == (2000, 2)"
    found = subprocess.run(
        [sys.executable, "-c", "\n".join([*programs, check])], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert found.returncode == 0, found.stderr
