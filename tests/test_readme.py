"""The README's programs run as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_every_program_in_the_readme_runs(tmp_path):
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(programs) >= 2
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(programs)], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert found.returncode == 0, found.stderr


def test_the_two_commands_are_at_the_top():
    top = README.read_text()[:1200]
    assert "make demo" in top and "make test" in top
