"""The memory setting bounds what reading CSV takes: strings that grow, strings that are short first, bare line ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 200_000_000


def growing(path: Path) -> int:
    """Strings of 6 to 3,000 letters, longer from row to row."""
    with path.open("wb") as file:
        file.write(b"id,s\n")
        file.writelines(b"%d,%s\n" % (i, (b"x%05d" % i) * (1 + i // 60)) for i in range(30_000))
    return 30_000


def skewed(path: Path) -> int:
    """5,000 strings of one letter, then strings of 24,000."""
    with path.open("wb") as file:
        file.write(b"id,s\n")
        file.writelines(b"%d,%s\n" % (i, b"a" if i < 5_000 else (b"y%05d" % i) * 4_000) for i in range(20_000))
    return 20_000


def line_ends(path: Path) -> int:
    """Two rows, and 8 MB of empty lines between them."""
    path.write_bytes(b"id,s\n1,a\n" + b"\n" * (8 << 20) + b"3,b\n")
    return 2


def main(path: str) -> None:
    from rowmill import Dataset
    from rowmill.loader.torch import Loader
    from tests.hostile.memory import status

    sum(1 for _ in Loader({"id": [1, 2], "s": ["a", "b"]}, 1))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is taken now
    before = status("VmHWM")
    rows = sum(len(features["id"]) for features, _ in Loader(Dataset(path), 64, shuffle=True, memory=LIMIT))
    print(json.dumps({"rows": rows, "over": status("VmHWM") - before}))


@pytest.mark.parametrize("write", [growing, skewed, line_ends])
def test_resident_memory_of_csv(tmp_path, tried, write):
    rows = write(tmp_path / "table.csv")
    command = [sys.executable, "-m", "tests.hostile.test_csv_memory", str(tmp_path / "table.csv")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    tried("tables read with their memory measured")
    assert found["rows"] == rows
    assert found["over"] <= 1.25 * LIMIT, f"{found['over'] / 1e6:.0f} MB over the baseline"


if __name__ == "__main__":
    main(sys.argv[1])
