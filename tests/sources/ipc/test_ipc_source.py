"""Arrow IPC files as a source."""

import contextlib
import struct

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.fs
import pyarrow.ipc
import pytest

from rowmill import Dataset
from rowmill.errors import DataFileError, MemoryLimitError, SchemaDriftError
from rowmill.loader.torch import Loader
from rowmill.sources.files.paths import Files
from rowmill.sources.ipc.batch_sizes import batch_sizes
from rowmill.sources.ipc.ipc_source import IpcSource
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


def write_compressed(path, table, compression, rows=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)


def mixed_table(rows=5_000):
    return pa.table(
        {
            "id": np.arange(rows),
            "x": pa.array([None if i % 3 else i for i in range(rows)]),
            "s": pa.array([str(i) * (i % 7) for i in range(rows)]),
            "l": pa.array([[i] * (i % 4) for i in range(rows)]),
            "d": pa.array([str(i % 5) for i in range(rows)]).dictionary_encode(),
        }
    )


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_the_sizes_of_batches_are_those_that_arrow_decodes(tmp_path, compression):
    write_compressed(tmp_path / "a.arrow", mixed_table(), compression, 1_700)
    with pa.ipc.open_file(str(tmp_path / "a.arrow")) as reader:
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    found = batch_sizes(str(tmp_path / "a.arrow"))
    assert [batch.rows for batch in found] == [batch.num_rows for batch in batches] == [1_700, 1_700, 1_600]
    for batch, size in zip(batches, found, strict=True):
        without_dictionary = sum(column.nbytes for column in batch.columns[:-1]) + batch.num_rows * 4
        assert without_dictionary <= size.nbytes <= 1.1 * without_dictionary + 4_096
    frame = pl.from_arrow(mixed_table())
    frame.write_ipc(tmp_path / "b.arrow", compression=compression or "uncompressed")
    assert [batch.rows for batch in batch_sizes(str(tmp_path / "b.arrow"))] == [5_000]
    assert Dataset(tmp_path / "b.arrow").to_polars(["id", "x", "s", "l"]).equals(frame.drop("d"))


@pytest.mark.parametrize("length", [1 << 62, 3 << 30, -5, 1 << 20])
def test_a_compressed_buffer_that_claims_an_impossible_size_is_refused(tmp_path, length):
    """Polars allocates what the buffer asks for, and aborts the process where it cannot."""
    path = tmp_path / "a.arrow"
    write_compressed(path, mixed_table().select(["id", "x"]), "zstd")
    data = bytearray(path.read_bytes())
    frame = b"\x28\xb5\x2f\xfd"
    at = data.rfind(frame, 0, data.rfind(frame)) - 8
    data[at : at + 8] = struct.pack("<q", length)
    path.write_bytes(data)
    with pytest.raises(DataFileError, match="cannot expand to"):
        Dataset(path)


def test_metadata_of_batches_that_are_damaged_are_an_error(tmp_path):
    path = tmp_path / "a.arrow"
    write_compressed(path, mixed_table(), "lz4", 1_700)
    whole, random = path.read_bytes(), np.random.Generator(np.random.Philox(3))
    for _ in range(300):
        data = bytearray(whole)
        data[random.integers(len(data) // 2, len(data))] ^= 1 << random.integers(8)
        path.write_bytes(data)
        with contextlib.suppress(ValueError):  # and nothing else
            batch_sizes(str(path))


def test_a_compressed_batch_that_does_not_fit_in_memory_is_refused(tmp_path):
    write_compressed(tmp_path / "a.arrow", pa.table({"a": np.zeros(4_000_000), "b": np.zeros(4_000_000)}), "zstd")
    data = Dataset(tmp_path / "a.arrow")
    with pytest.raises(MemoryLimitError, match="takes 64 MB once decompressed"):
        next(iter(Loader(data, 100, memory="20MB")))
    assert len(Loader(data, 100, memory="200MB").peek()[0]["a"]) == 100
    whole = tmp_path / "b.arrow"
    write_compressed(whole, pa.table({"a": np.zeros(4_000_000), "b": np.zeros(4_000_000)}), "zstd", 100_000)
    assert len(Loader(Dataset(whole), 100, memory="40MB").peek()[0]["a"]) == 100
