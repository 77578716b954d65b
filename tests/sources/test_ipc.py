"""Arrow IPC files as a source."""

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.fs
import pytest

from rowmill import Dataset
from rowmill.errors import DataFileError, SchemaDriftError
from rowmill.sources.ipc import IpcSource
from rowmill.sources.paths import Files
from rowmill.sources.source import Fragment

FRAME = pl.DataFrame({"a": range(100), "s": [f"t{i}" for i in range(100)], "l": [[i] for i in range(100)]})


@pytest.fixture(params=["uncompressed", "zstd"])
def folder(tmp_path, request):
    FRAME.write_ipc(tmp_path / "0.arrow", compression=request.param, record_batch_size=30)
    pyarrow.feather.write_feather(FRAME.to_arrow(), str(tmp_path / "1.feather"), chunksize=64)
    return tmp_path


def test_batches_are_fragments(folder):
    dataset = Dataset(folder)
    assert [(f.unit, f.rows) for f in dataset.source.fragments][-2:] == [(1, 64), (1, 36)]
    assert dataset.num_rows == 200
    assert dataset.to_polars().equals(pl.concat([FRAME, FRAME]))


@pytest.mark.parametrize(("start", "rows"), [(0, 100), (29, 2), (60, 40), (95, 5), (10, 0), (0, 1)])
def test_slices_local_and_through_a_file_system(folder, start, rows):
    path = str(folder / "0.arrow")
    expected = FRAME.slice(start, rows).select("l", "a")
    for system in (None, pyarrow.fs.LocalFileSystem()):
        source = IpcSource(Files((path,), "ipc", system))
        assert source.read(Fragment(0, start, rows), ["l", "a"]).equals(expected)


def test_drift_and_change(folder):
    dataset = Dataset(folder)
    FRAME.head(10).write_ipc(folder / "0.arrow")
    with pytest.raises(DataFileError, match=r"0\.arrow"):
        dataset.to_polars()
    FRAME.with_columns(pl.col("a").cast(pl.String)).write_ipc(folder / "0.arrow")
    with pytest.raises(SchemaDriftError, match="'a'"):
        Dataset(folder)


def test_engine_names(folder):
    for engine in ("ipc", "arrow", "feather"):
        assert Dataset(folder / "0.arrow", engine=engine).num_rows == 100


def test_empty(tmp_path):
    with pa.ipc.new_file(str(tmp_path / "e.arrow"), pa.schema([("a", pa.int64())])):
        pass
    assert Dataset(tmp_path).to_polars().shape == (0, 1)
