"""A full disk and a process without file handles: errors that say so, old results whole, rows right."""

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import CacheWarning, DataFileError
from rowmill.io import Shuffle
from rowmill.loader.tensordict import dataset_to_tensordict
from rowmill.report import of_dataset
from rowmill.sinks import scatter
from rowmill.tools.synthetic import criteo
from tests.counts import hostile
from tests.store.common import epochs, stream

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]
ROWS = 100_000  # of some 100 bytes that do not compress


@pytest.fixture
def small(tmp_path, tried):
    """A disk of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], capture_output=True)
    if made.returncode:
        pytest.skip("a small disk cannot be mounted here")
    tried("full disks")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture(scope="module")
def frame():
    dice = np.random.default_rng(3)
    columns = {f"c{i}": dice.integers(0, 2**62, ROWS) for i in range(10)}
    texts = dice.integers(0, 2**62, ROWS).astype(str)
    return pl.DataFrame({**columns, "key": dice.integers(0, 5, ROWS), "text": texts})


@pytest.fixture
def spilling(small, monkeypatch):
    """Temporary files go to the small disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(small))
    monkeypatch.setattr(scatter, "_BUCKET_BYTES", 1 << 20)


def is_full(found, where):
    assert found.value.errno == errno.ENOSPC
    assert f"no space left on device while writing {where}" in str(found.value)
    assert isinstance(found.value, OSError)


WAYS = {
    "one file": {"output_files": 1},
    "small row groups": {"row_group_size": 500},
    "compressed": {"compression": "zstd", "row_group_size": 5_000},
    "many files": {"output_files": 40},
    "folders": {"partition_on": "key"},
    "shuffled": {"shuffle": Shuffle.PER_PARTITION},
    "full shuffle": {"shuffle": Shuffle.FULL},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("filled", range(0, 2_000, hostile(1_900, 100)))
def test_to_parquet(small, frame, way, filled):
    """`filled`: kB that are taken already, so that the disk is full at another moment."""
    Dataset(frame.head(500)).to_parquet(small / "out")
    before = Dataset(small / "out").to_polars(), sorted(os.listdir(small / "out"))
    (small / "filler").write_bytes(bytes(1000 * filled))
    with pytest.raises(DataFileError) as found:
        Dataset(frame, npartitions=4).to_parquet(small / "out", **WAYS[way])
    is_full(found, small)
    assert Dataset(small / "out").to_polars().equals(before[0]) and sorted(os.listdir(small / "out")) == before[1]
    assert sorted(os.listdir(small)) == ["filler", "out"]


@pytest.mark.parametrize("bytes_left", range(0, 100_000, hostile(33_000, 4_096)))
def test_to_parquet_with_a_little_room(small, frame, bytes_left):
    """Wherever the room ends: in the data, in the footer, in the side files, or not at all."""
    taken = small / "filler"
    taken.write_bytes(bytes(2 * 1024 * 1024 - 40_960 - bytes_left))
    try:
        Dataset(frame.head(300)).to_parquet(small / "out")
    except DataFileError as error:
        assert error.errno == errno.ENOSPC and "no space left on device" in str(error)
        assert os.listdir(small) == ["filler"]
    else:
        assert Dataset(small / "out").to_polars().equals(frame.head(300))


def test_spilling_of_a_shuffle(spilling, small, frame, tmp_path):
    with pytest.raises(DataFileError) as found:
        Dataset(frame, npartitions=4).to_parquet(tmp_path / "out", Shuffle.FULL)
    is_full(found, small)
    assert not (tmp_path / "out").exists()


def test_spilling_of_keys(spilling, small, frame):
    with pytest.raises(DataFileError) as found:
        Dataset(frame, npartitions=4).shuffle_by_keys(["key"], npartitions=3)
    is_full(found, small)


def test_spilling_of_a_query(spilling, small, frame):
    with pytest.raises(DataFileError) as found:
        _ = Dataset(frame.lazy().with_columns(pl.col("c1") + 1)).num_rows
    is_full(found, small)


def test_spilling_of_counts(spilling, small, frame):
    with pytest.raises(DataFileError) as found:
        Workflow(["text", "c1", "c2"] >> ops.Categorify()).fit(Dataset(frame, npartitions=8), memory="4MB")
    is_full(found, small)


def test_saving_a_workflow(small, frame):
    fitted = Workflow(["text", "c1", "c2", "c3"] >> ops.Categorify()).fit(Dataset(frame))
    with pytest.raises(DataFileError) as found:
        fitted.save(small / "workflow")
    assert found.value.errno == errno.ENOSPC and "no space left on device" in str(found.value)
    assert os.listdir(small) == []


def test_a_store(small, frame, tmp_path):
    Dataset(frame).to_parquet(tmp_path / "table", output_files=4)
    columns = ["c1", "c2", "c3", "c4", "c5"]
    wanted = epochs(stream(tmp_path / "table", columns=columns), 2)
    with pytest.warns(CacheWarning, match="no space left on device; rows are read from their source") as seen:
        assert epochs(stream(tmp_path / "table", small / "cache", columns=columns), 2) == wanted
    assert len(seen) == 1


def test_wrapped_items(small):
    class Items:
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            return np.full(1000, index)

    with pytest.raises(DataFileError) as found:
        dataset_to_tensordict(Items(), folder=small / "wrapped")
    is_full(found, small)


def test_synthetic_tables_and_reports(small, frame):
    with pytest.raises(DataFileError) as found:
        criteo(small / "table", ROWS, files=2)
    is_full(found, small)
    (small / "filler").write_bytes(bytes(2 * 1024 * 1024 - 40_960))
    with pytest.raises(DataFileError) as found:
        of_dataset(Dataset(frame), "frame").write(small / "report.html")
    is_full(found, small)


FEW = """
import resource, sys, warnings
import polars as pl
from rowmill import Dataset
from rowmill.errors import RowmillError, CacheWarning
from rowmill.io import Shuffle
from rowmill.sinks import scatter
from tests.store.common import epochs, stream

what, table, out, left = sys.argv[1:]
scatter._BUCKET_BYTES = 1 << 17
data = Dataset(table)
data.to_polars()
wanted = epochs(stream(table), 1)
used = len(__import__("os").listdir("/proc/self/fd")) - 1
resource.setrlimit(resource.RLIMIT_NOFILE, (used + int(left), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    try:
        if what == "write":
            data.to_parquet(out, output_files=2)
        elif what == "shuffle":
            data.to_parquet(out, Shuffle.FULL)
        elif what == "store":
            assert epochs(stream(table, out), 1) == wanted
        print("done", *[w.message for w in seen if issubclass(w.category, CacheWarning)])
    except RowmillError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("what", ["write", "shuffle", "store"])
@pytest.mark.parametrize("left", range(0, 20, hostile(11, 1)))
def test_no_file_handles(frame, tmp_path, tried, what, left):
    """Whatever number of handles is left: all rows, or an error that names the limit."""
    Dataset(frame.select("c1", "c2", "key").head(20_000)).to_parquet(tmp_path / "table", output_files=2)
    arguments = [what, str(tmp_path / "table"), str(tmp_path / "out")]

    def run(arguments, left):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        command = [sys.executable, "-c", FEW, *arguments, str(left)]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, env=environment)

    done = run(arguments, left)
    tried("limits of file handles")
    assert done.returncode == 0, done.stderr
    if not done.stdout.startswith("done"):
        assert done.stdout.startswith("DataFileError") and "too many open files (the limit is" in done.stdout
        if what == "store":  # the cache folder may be there, and serves the next run
            assert run(arguments[:3], 200).stdout == "done\n"
        else:
            assert not (tmp_path / "out").exists()
    elif what != "store":
        assert Dataset(tmp_path / "out").num_rows == 20_000
