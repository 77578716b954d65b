"""Large row groups in slices: the rows are those of the file, whichever way they are read."""

import gc
import os
import pickle
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset
from rowmill.errors import DataFileError
from rowmill.sources.source import Fragment, read_slices

ROWS = 6_000


@pytest.fixture(scope="module")
def table():
    rng = np.random.Generator(np.random.Philox(5))
    lengths = rng.integers(0, 400, ROWS)
    lengths[-300:] = 5_000
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.table(
        {
            "id": np.arange(ROWS),
            "l": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(rng.integers(0, 9, offsets[-1]))),
            "s": pa.array([None if i % 7 == 0 else "x" * (i % 500) for i in range(ROWS)]),
            "x": rng.random(ROWS),
        }
    )


@pytest.fixture
def path(tmp_path, table, monkeypatch):
    """One file of two row groups, and a folder for temporary files of its own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=ROWS - 1_000)
    return tmp_path / "a.parquet"


def copies(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent / "tmp"))


@pytest.mark.parametrize("columns", [["id", "l", "s", "x"], ["l"], ["x", "s"], ["x", "id"]])
@pytest.mark.parametrize(("start", "rows"), [(0, ROWS), (0, 50), (1_234, 100), (4_900, 200), (5_700, 300), (3, 4_000)])
def test_slices_are_the_rows_of_the_file(path, table, columns, start, rows):
    source = Dataset(path).source
    wanted = pl.from_arrow(table.slice(start, rows)).select(columns)
    frames = list(read_slices(source, Fragment(0, start, rows), columns, 1 << 20))
    assert pl.concat(frames).equals(wanted)
    assert source.read(Fragment(0, start, rows), columns).equals(wanted)


def test_no_slice_is_larger_than_it_may_be(path):
    source = Dataset(path).source
    frames = list(read_slices(source, Fragment(0, 0, ROWS), ["id", "l", "s"], 1 << 20))
    assert len(frames) > 4
    assert max(frame.estimated_size() for frame in frames) <= 1 << 20


def test_parts_of_a_large_row_group_are_read_from_one_copy(path, monkeypatch):
    """The file is streamed once, however many parts are read; the copy goes with the dataset."""
    from rowmill.sources.parquet import arrow_reader

    streamed = []
    stream = arrow_reader.stream_parquet_rows
    monkeypatch.setattr(arrow_reader, "stream_parquet_rows", lambda *a, **k: (streamed.append(a), stream(*a, **k))[1])
    data = Dataset(path)
    for start in range(600, 4_600, 400):
        list(read_slices(data.source, Fragment(0, start, 100), ["l"], 1 << 20))
    assert len(streamed) == 1 and len(copies(path)) == 1
    other = pickle.loads(pickle.dumps(data.source))
    assert pl.concat(list(read_slices(other, Fragment(0, 600, 100), ["l"], 1 << 20))).height == 100
    assert len(copies(path)) == 2
    del data, other
    gc.collect()
    for _ in range(100):
        if not copies(path):
            break
        time.sleep(0.05)
    assert copies(path) == []


def test_rows_come_without_a_place_for_copies_too(path, table, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(path.parent / "not there"))
    source = Dataset(path).source
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for start in (600, 1_600):
            frames = list(read_slices(source, Fragment(0, start, 100), ["l"], 1 << 20))
            assert pl.concat(frames)["l"].to_list() == table["l"].slice(start, 100).to_pylist()
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 1 and "set TMPDIR" in texts[0] and "write smaller row groups" in texts[0]


def test_a_copy_does_not_hide_that_the_file_has_changed(path, table):
    source = Dataset(path).source
    list(read_slices(source, Fragment(0, 600, 100), ["l"], 1 << 20))
    pq.write_table(table.slice(1), path, row_group_size=ROWS - 1_000)
    with pytest.raises(DataFileError, match=r"a\.parquet"):
        list(read_slices(source, Fragment(0, 1_600, 100), ["l"], 1 << 20))
