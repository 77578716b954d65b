"""Writing and rearranging stream: a table of 480 MB passes through a process that never holds it."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset

ROWS, COLUMNS = 10_000_000, 6  # 480 MB decoded

CHILD = """
import sys, threading, time
from rowmill import Dataset
from rowmill.io import Shuffle
def now():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
dataset = Dataset(sys.argv[1])
dataset.head(10)
base, peak, done = now(), [0], threading.Event()
def watch():
    while not done.wait(0.01):
        peak[0] = max(peak[0], now())
watcher = threading.Thread(target=watch)
watcher.start()
if sys.argv[3] == "keys":
    dataset.shuffle_by_keys("c0", npartitions=16)
else:
    dataset.to_parquet(sys.argv[2], {"plain": None, "full": Shuffle.FULL}[sys.argv[3]], output_files=2, seed=1)
done.set()
watcher.join()
print((peak[0] - base) // 1_000_000)
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    frame = pl.DataFrame({f"c{i}": np.arange(ROWS // 10) // 16 * (i + 1) for i in range(COLUMNS)})
    for i in range(10):
        frame.write_parquet(folder / f"{i}.parquet", row_group_size=250_000, compression="lz4")
    assert Dataset(folder).num_rows == ROWS
    return folder


@pytest.mark.parametrize(("what", "most"), [("plain", 200), ("keys", 200), ("full", 380)])
def test_peak_memory(table, tmp_path, what, most):
    args = [sys.executable, "-c", CHILD, str(table), str(tmp_path / "out"), what]
    done = subprocess.run(args, capture_output=True, text=True, check=True)
    assert int(done.stdout) < most
