"""The memory setting bounds what loading a few chosen rows of a large table takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

LIMIT = 100_000_000
ROWS = 400_000


def write(path: Path) -> None:
    """400 MB of text in one row group. One row in a hundred has a `k` of 0."""
    import polars as pl

    texts = pl.Series([os.urandom(500).hex() for _ in range(4_000)])
    numbers = pl.Series(range(ROWS))
    frame = pl.DataFrame({"id": numbers, "k": numbers * 7_919 % 100, "s": texts.gather(numbers * 31 % 4_000)})
    frame.write_parquet(path, row_group_size=ROWS)


def main(path: str) -> None:
    import polars as pl

    from rowmill import Dataset
    from rowmill.loader.torch import Loader
    from tests.hostile.memory import status

    sum(1 for _ in Loader(Dataset({"id": [1, 2], "s": ["a", "b"]}).filter(pl.col("id") > 0), 1))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is taken now
    before = status("VmHWM")
    chosen = Dataset(path).filter(pl.col("k") == 0)
    rows = sum(len(features["id"]) for features, _ in Loader(chosen, 64, shuffle=True, memory=LIMIT))
    print(json.dumps({"rows": rows, "over": status("VmHWM") - before}))


def test_a_few_rows_of_a_large_table(tmp_path, tried):
    write(tmp_path / "table.parquet")
    command = [sys.executable, "-m", "tests.hostile.test_filter_memory", str(tmp_path / "table.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    tried("tables read with their memory measured")
    assert found["rows"] == ROWS // 100
    assert found["over"] <= 1.25 * LIMIT, f"{found['over'] / 1e6:.0f} MB over the baseline"


if __name__ == "__main__":
    main(sys.argv[1])
