"""The commands and programs of the pages on the command line and the report run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["command-line", "report"])
def test_a_page_runs(page, tmp_path):
    blocks = re.findall(r"```(bash|python)\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S)
    assert blocks
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "rowmill").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rowmill "$@"\n')
    (bin_ / "rowmill").chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"}
    blocks.sort(key=lambda block: block[0] != "python")  # the program makes the table
    for language, text in blocks:
        start = [sys.executable, "-c"] if language == "python" else ["bash", "-euc"]
        done = subprocess.run(
            [*start, text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_the_page_names_every_command():
    from rowmill.cli.app import app

    names = {(c.name or c.callback.__name__) for c in app.registered_commands} | {g.name for g in app.registered_groups}
    told = (DOCS / "command-line.md").read_text()
    assert len(names) == 10 and all(f"`rowmill {name}" in told for name in names)
