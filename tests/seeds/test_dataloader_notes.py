"""Both styles of dataset of the notes on `DataLoader`: the example runs and trains with each."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "dataloader_styles.py"


def test_the_example_of_both_styles_runs():
    found = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    losses = [float(line.rsplit(" ", 1)[1]) for line in found.stdout.splitlines() if ": loss " in line]
    assert len(losses) == 2 and all(0.2 < loss < 1.0 for loss in losses)
    assert "verdict" in found.stdout
