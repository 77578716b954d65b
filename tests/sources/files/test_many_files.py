"""Ten thousand files: opened in seconds, and only their footers read."""

import os
import shutil
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    pl.DataFrame({f"C{i}": np.arange(20) for i in range(40)}).write_parquet(folder / "0.parquet")
    for i in range(1, 10_000):
        os.link(folder / "0.parquet", folder / f"{i}.parquet")
    return folder


def test_ten_thousand_files_open_in_seconds(many):
    begin = time.perf_counter()
    dataset = Dataset(many)
    assert time.perf_counter() - begin < 30
    assert dataset.num_rows == 200_000
    assert len(dataset.source.fragments) == 10_000
    assert dataset.source.files.paths[9].endswith("/9.parquet")


READ = """
import sys
from rowmill import Dataset
def bytes_read():
    return int(next(l for l in open("/proc/self/io") if l.startswith("rchar")).split()[1])
Dataset(sys.argv[1] + "/warm.parquet")
before = bytes_read()
dataset = Dataset(sys.argv[1] + "/f*.parquet")
assert len(dataset.source.fragments) == 200
print(bytes_read() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="counts bytes through /proc")
def test_only_footers_are_read(tmp_path):
    values = np.random.Generator(np.random.Philox(1)).random((50_000, 4))
    pl.DataFrame(values, schema=list("abcd")).write_parquet(tmp_path / "f0.parquet", compression="uncompressed")
    size = (tmp_path / "f0.parquet").stat().st_size
    for i in range(1, 200):
        os.link(tmp_path / "f0.parquet", tmp_path / f"f{i}.parquet")
    shutil.copy(tmp_path / "f0.parquet", tmp_path / "warm.parquet")
    done = subprocess.run([sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True, check=True)
    a_file = int(done.stdout) / 200
    assert a_file < 80_000 < size / 10  # PyArrow reads 64 kB from the end of a file
