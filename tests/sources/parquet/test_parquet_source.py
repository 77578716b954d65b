"""Parquet files as a source: fragments, slices, types, sizes, empty things, and a file that changes."""

import datetime
import pickle

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from rowmill import Dataset
from rowmill.errors import ColumnError, DataFileError
from rowmill.sources.parquet.arrow_reader import read_parquet_rows, stream_parquet_rows
from rowmill.sources.source import Fragment


@pytest.fixture
def numbers(tmp_path):
    frame = pl.DataFrame({"a": np.arange(1000), "b": np.arange(1000) / 2, "c": [str(i) for i in range(1000)]})
    frame[:600].write_parquet(tmp_path / "0.parquet", row_group_size=250)
    frame[600:].write_parquet(tmp_path / "1.parquet", row_group_size=400)
    return tmp_path, frame


def test_fragments_are_row_groups(numbers):
    path, _ = numbers
    source = Dataset(path).source
    assert [(f.unit, f.start, f.rows) for f in source.fragments] == [
        (0, 0, 250),
        (0, 250, 250),
        (0, 500, 100),
        (1, 0, 400),
    ]
    described = source.describe(source.fragments[1])
    assert described == f"{path}/0.parquet, row group 1 (rows 250 to 500)"


@pytest.mark.parametrize(
    ("unit", "start", "rows"), [(0, 0, 1), (0, 249, 2), (0, 100, 450), (1, 399, 1), (0, 0, 600), (1, 7, 0)]
)
def test_any_slice_or_join_of_fragments(numbers, unit, start, rows):
    path, frame = numbers
    source = Dataset(path).source
    expected = frame.slice(600 * unit + start, rows).select("c", "a")
    assert source.read(Fragment(unit, start, rows), ["c", "a"]).equals(expected)
    table = read_parquet_rows(f"{path}/{unit}.parquet", LocalFileSystem(), start, rows, ["c", "a"])
    assert pl.from_arrow(table).select("c", "a").equals(expected)


def test_no_columns_still_counts_rows(numbers):
    path, _ = numbers
    assert Dataset(path).source.read(Fragment(0, 5, 17), []).height == 17


def test_unknown_column_says_what_was_meant(numbers):
    path, _ = numbers
    with pytest.raises(ColumnError, match=r"0\.parquet"):
        Dataset(path).source.read(Fragment(0, 0, 1), ["aa"])


TYPES = [
    (pa.array([True, None]), "bool"),
    (pa.array([1, None], pa.int8()), "int8"),
    (pa.array([1, None], pa.uint64()), "uint64"),
    (pa.array([1.5, None], pa.float16()), "float16"),
    (pa.array([1.5, None], pa.float32()), "float32"),
    (pa.array(["x", None]), "string"),
    (pa.array([b"x", None]), "binary"),
    (pa.array([0, None], pa.date32()), "date"),
    (pa.array([0, None], pa.time64("us")), "time"),
    (pa.array([0, None], pa.timestamp("ms")), "datetime[ms]"),
    (pa.array([0, None], pa.timestamp("us", "UTC")), "datetime[us, UTC]"),
    (pa.array([0, None], pa.duration("ns")), "duration[ns]"),
    (pa.array([0, None], pa.decimal128(38, 9)), "decimal[38,9]"),
    (pa.nulls(2), "null"),
    (pa.array(["x", "y"]).dictionary_encode(), "string"),
    (pa.array([{"x": 1}, None]), "struct[x: int64]"),
    (pa.array([[[1]], None]), "list[list[int64]]"),
    (pa.array([["x"], None]), "list[string]"),
]


@pytest.mark.parametrize(("values", "name"), TYPES, ids=[name for _, name in TYPES])
def test_types_are_named_and_read_exactly(tmp_path, values, name):
    pq.write_table(pa.table({"a": values}), tmp_path / "a.parquet")
    dataset = Dataset(tmp_path)
    assert dataset.schema["a"].dtype == name
    assert not dataset.schema["a"].is_list
    assert dataset.to_polars()["a"].to_list() == values.to_pylist()
    assert dataset.source.row_bytes(["a"]) > 0


def test_list_columns(tmp_path):
    table = pa.table(
        {
            "l": pa.array([[1, 2], None], pa.list_(pa.int32())),
            "f": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2)),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    schema = Dataset(tmp_path).schema
    assert (schema["l"].dtype, schema["l"].is_list, schema["l"].width) == ("int32", True, None)
    assert (schema["f"].dtype, schema["f"].is_list, schema["f"].width) == ("float32", True, 2)


def test_map_column_is_named_and_readable(tmp_path):
    pq.write_table(pa.table({"m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}), tmp_path / "a.parquet")
    dataset = Dataset(tmp_path)
    assert "map" in dataset.schema["m"].dtype or "struct" in dataset.schema["m"].dtype
    assert dataset.to_polars().height == 1


def test_datetimes_are_exact(tmp_path):
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    pl.DataFrame({"t": [moment, None]}).write_parquet(tmp_path / "a.parquet")
    assert Dataset(tmp_path).to_polars()["t"].to_list() == [moment, None]


def test_row_bytes_follow_the_data(tmp_path):
    rows = 2000
    frame = pl.DataFrame(
        {
            "i": np.arange(rows, dtype=np.int32),
            "l": pl.Series([[1] * 50] * rows, dtype=pl.List(pl.Int64)),
            "s": ["x" * 500] * rows,
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    source = Dataset(tmp_path).source
    assert source.row_bytes(["i"]) == 4
    for name in ("l", "s"):
        real = frame.select(name).estimated_size() / rows
        assert 0.7 * real < source.row_bytes([name]) < 1.6 * real


def test_empty_files_and_row_groups(tmp_path):
    empty = pa.table({"a": pa.array([], pa.int64())})
    with pq.ParquetWriter(tmp_path / "0.parquet", empty.schema) as writer:
        for values in ([], [1, 2], [], [3]):
            writer.write_table(pa.table({"a": pa.array(values, pa.int64())}))
    pq.write_table(empty, tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [4]}), tmp_path / "2.parquet")
    dataset = Dataset(tmp_path)
    assert [f.rows for f in dataset.source.fragments] == [2, 1, 1]
    assert dataset.to_polars()["a"].to_list() == [1, 2, 3, 4]
    alone = Dataset(tmp_path / "1.parquet")
    assert (alone.num_rows, alone.npartitions, alone.head().shape, alone.to_polars().shape) == (0, 0, (0, 1), (0, 1))


def test_a_file_that_shrinks_after_opening_is_noticed(numbers):
    path, frame = numbers
    dataset = Dataset(path)
    frame[:500].write_parquet(path / "0.parquet")
    with pytest.raises(DataFileError, match=r"0\.parquet has changed.* bytes, and had .*open the Dataset again"):
        dataset.to_polars()


def test_a_file_that_disappears_is_noticed(numbers):
    path, _ = numbers
    dataset = Dataset(path)
    (path / "1.parquet").unlink()
    with pytest.raises(DataFileError, match=r"1\.parquet") as caught:
        dataset.to_polars()
    assert caught.value.__cause__ is not None


def test_large_row_group_is_read_in_slices_with_little_memory(tmp_path):
    """The PyArrow reader holds a slice, not the row group."""
    rows = 4_000_000
    pl.DataFrame({"a": np.random.Generator(np.random.Philox(1)).integers(0, 2**60, rows)}).write_parquet(
        tmp_path / "a.parquet", row_group_size=rows, compression="uncompressed"
    )
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    base = pool.max_memory() or 0
    batches = list(stream_parquet_rows(f"{tmp_path}/a.parquet", LocalFileSystem(), 10, 100_000, ["a"], 8_192))
    assert sum(batch.num_rows for batch in batches) == 100_000
    assert pool.max_memory() - max(base, before) < 16_000_000  # the whole row group takes 32 MB


def test_a_file_that_is_written_again_is_not_read_on(tmp_path):
    pl.DataFrame({"a": np.arange(1000)}).write_parquet(tmp_path / "0.parquet", row_group_size=100)
    source = Dataset(tmp_path).source
    assert source.read(source.fragments[3], ["a"])["a"].to_list() == list(range(300, 400))
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**60, 1000)  # pages elsewhere, and of other sizes
    pl.DataFrame({"a": values}).write_parquet(tmp_path / "0.parquet", row_group_size=100, compression="snappy")
    with pytest.raises(DataFileError, match=r"0\.parquet has changed"):
        source.read(source.fragments[3], ["a"])
    again = Dataset(tmp_path).source
    assert again.read(again.fragments[3], ["a"])["a"].to_list() == values[300:400].tolist()


def test_what_is_kept_of_footers_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("rowmill.sources.parquet.scan_cache.MOST_CELLS", 10)
    for number in range(6):
        pl.DataFrame({"a": [number] * 8, "b": 0}).write_parquet(tmp_path / f"{number}.parquet", row_group_size=4)
    source = Dataset(tmp_path).source
    for _ in range(2):
        for fragment in source.fragments:
            assert source.read(fragment, ["a"])["a"].unique().to_list() == [fragment.unit]
            scans = source._scans
            assert scans._cells == sum(cells for cells, _ in scans._kept.values())
            assert len(scans._kept) == 1 or scans._cells <= 10
    copy = pickle.loads(pickle.dumps(source))
    assert copy.read(source.fragments[0], ["a"])["a"].to_list() == [0] * 4
