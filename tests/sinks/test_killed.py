"""A writer killed at any moment leaves the earlier result or the new one, whole, and never a mixture."""

import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import ArgumentError, NoFilesError
from rowmill.sinks.staging import staged_folder

WRITER = """
import sys
import numpy as np
from rowmill import Dataset
n, value, out = 40_000, int(sys.argv[2]), sys.argv[1]
dataset = Dataset({"v": np.full(n, value), "i": np.arange(n)}, npartitions=12)
sys.stdin.readline()
while True:
    dataset.to_parquet(out, row_group_size=1000)
    value += 1
    dataset = Dataset({"v": np.full(n, value), "i": np.arange(n)}, npartitions=12)
    print(value, flush=True)
"""


def start(out, value):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(out), str(value)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    writer.stdin.write("\n")
    writer.stdin.flush()
    return writer


def check(out):
    """What a reader sees: nothing, or one whole table; says which."""
    try:
        frame = Dataset(out).to_polars()
    except NoFilesError:
        return None
    assert frame.height == 40_000
    assert frame["v"].n_unique() == 1
    assert frame["i"].to_list() == list(range(40_000))
    return frame["v"][0]


def test_killed_while_replacing(tmp_path):
    out = tmp_path / "out"
    dice = random.Random(4)
    seen = None
    for _ in range(8):
        writer = start(out, 0 if seen is None else seen + 1)
        writer.stdout.readline()  # at least one write is complete
        time.sleep(dice.uniform(0, 0.12))
        writer.kill()
        writer.wait()
        now = check(out)
        assert now is not None
        assert seen is None or now > seen  # never back to something older
        seen = now
        # A reader of the folder above sees the finished table only.
        assert Dataset(tmp_path).num_rows == 40_000
    Dataset({"v": np.zeros(40_000, int), "i": np.arange(40_000)}).to_parquet(out)
    assert check(out) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["out"]  # leftovers of the killed are gone


def test_killed_before_the_first_result(tmp_path):
    dice = random.Random(7)
    nothing = 0
    for n in range(5):
        out = tmp_path / str(n) / "out"
        writer = start(out, 5)
        while not out.parent.exists():  # the writer has begun
            time.sleep(0.002)
        time.sleep(dice.uniform(0, 0.05))
        writer.kill()
        writer.wait()
        nothing += check(out) is None
    assert nothing >= 1  # at least one was killed in the middle


def test_replacing_never_leaves_a_gap(tmp_path):
    """A reader that looks all the time always finds a whole folder under the name."""
    out = tmp_path / "out"
    dataset = Dataset({"a": np.arange(10)})
    dataset.to_parquet(out)
    done = threading.Event()
    missed = []

    def look():
        while not done.is_set():
            if not os.access(out / "part_0.parquet", os.R_OK):
                missed.append(1)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(60):
            dataset.to_parquet(out)
    finally:
        done.set()
        looker.join()
    assert not missed


def test_a_stranger_who_comes_while_we_write_is_kept(tmp_path):
    with pytest.raises(ArgumentError, match="stranger"), staged_folder(tmp_path / "out") as folder:
        (folder / "part_0.parquet").write_bytes(b"x")
        (tmp_path / "out").mkdir()
        (tmp_path / "out/stranger").write_text("keep")
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "stranger"]


def test_an_unfinished_write_is_invisible(tmp_path):
    part = tmp_path / ".out.0123456789ab.rowmill-part"
    part.mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(part / "part_0.parquet")
    with pytest.raises(NoFilesError):
        Dataset(tmp_path)


def test_a_live_writer_is_not_swept_away(tmp_path):
    with staged_folder(tmp_path / "out") as folder:
        (folder / "part_0.parquet").write_bytes(b"being written")
        Dataset({"a": [1]}).to_parquet(tmp_path / "out")
        assert (folder / "part_0.parquet").exists()
        (folder / "part_0.parquet").unlink()
        (folder / "_metadata.json").write_text('{"file_stats": []}')
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]
