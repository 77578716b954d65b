"""Corrupt and truncated files: an error that names the file, never a hang, a crash or other rows."""

import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset
from rowmill.errors import DataFileError


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.parquet"
    rows = 5000
    table = pa.table(
        {"a": np.arange(rows), "s": [f"text {i}" for i in range(rows)], "l": [[i, i] for i in range(rows)]}
    )
    pq.write_table(table, path, row_group_size=1000, write_page_checksum=True)
    return path.read_bytes()


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.6, 0.95, 0.9999])
def test_truncated_file_is_refused_at_open(tmp_path, good, part):
    (tmp_path / "fine.parquet").write_bytes(good)
    (tmp_path / "cut.parquet").write_bytes(good[: int(len(good) * part)])
    with pytest.raises(DataFileError, match=r"cut\.parquet") as caught:
        Dataset(tmp_path)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"a,b\n1,2\n" * 50, b"\0" * 4096])
def test_things_that_are_no_parquet(tmp_path, content):
    (tmp_path / "odd.parquet").write_bytes(content)
    with pytest.raises(DataFileError, match=r"odd\.parquet"):
        Dataset(tmp_path / "odd.parquet")


def test_a_hole_in_the_data_names_file_and_row_group(tmp_path, good):
    bad = bytearray(good)
    middle = slice(int(len(bad) * 0.45), int(len(bad) * 0.55))
    bad[middle] = bytes(len(bad[middle]))
    (tmp_path / "hole.parquet").write_bytes(bad)
    dataset = Dataset(tmp_path)
    with pytest.raises(DataFileError, match=r"hole\.parquet, row group \d is damaged: .*column '.'"):
        dataset.to_polars()


def test_a_column_name_that_is_no_text(tmp_path):
    pq.write_table(pa.table({"name": [1]}), tmp_path / "odd.parquet", store_schema=False)
    (tmp_path / "odd.parquet").write_bytes((tmp_path / "odd.parquet").read_bytes().replace(b"name", b"n\xe5\xffe"))
    with pytest.raises(DataFileError, match=r"odd\.parquet"):
        Dataset(tmp_path).to_polars()


FLIPS = """
import sys, random
from rowmill import Dataset
from rowmill.errors import RowmillError
good = open(sys.argv[1], "rb").read()
want = Dataset(sys.argv[1]).to_polars()
dice = random.Random(int(sys.argv[3]))
errors = same = other = 0
for _ in range(60):
    bad = bytearray(good)
    for _ in range(dice.choice([1, 4, 64])):
        bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
    open(sys.argv[2], "wb").write(bad)
    try:
        got = Dataset(sys.argv[2]).to_polars()
        same += got.equals(want); other += not got.equals(want)
    except RowmillError as error:
        assert "flip.parquet" in str(error), error
        errors += 1
print(errors, same, other)
"""


def test_flipped_bits_never_crash_or_hang(tmp_path, good):
    """In a child process, so that a crash is seen as one."""
    (tmp_path / "good.parquet").write_bytes(good)
    args = [sys.executable, "-c", FLIPS, str(tmp_path / "good.parquet"), str(tmp_path / "flip.parquet"), "5"]
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    errors, _, _ = map(int, done.stdout.split())
    assert errors >= 20


def test_broken_arrow_and_csv(tmp_path):
    frame = pl.DataFrame({"a": range(100)})
    frame.write_ipc(tmp_path / "a.arrow")
    whole = (tmp_path / "a.arrow").read_bytes()
    (tmp_path / "a.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataFileError, match=r"a\.arrow"):
        Dataset(tmp_path / "a.arrow")
    (tmp_path / "p.csv").write_text('a,b\n1,"x\n2,y\n')
    with pytest.raises(DataFileError, match=r"p\.csv"):
        Dataset(tmp_path / "p.csv")
    (tmp_path / "q.csv").write_text("a,b\n" + "1,x\n" * 300_000 + '1,"x\n2,y\n')
    with pytest.raises(DataFileError, match=r"q\.csv ends inside a quoted value"):
        _ = Dataset(tmp_path / "q.csv").num_rows
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(DataFileError, match=r"e\.csv is empty"):
        Dataset(tmp_path / "e.csv")
