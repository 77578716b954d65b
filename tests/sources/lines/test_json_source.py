"""JSON lines: the rows that Python's own parser finds, in pieces; and what is refused rather than lost."""

import datetime as dt
import json
import random

import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import ArgumentError, ColumnError, DataFileError, SchemaDriftError
from rowmill.loader.numpy import Loader
from rowmill.sources.lines import json_source, row_index

ROWS = [
    {"id": 2**53 + i, "x": i / 7, "s": f'a"b\\n{i}\n' if i % 3 else None, "l": list(range(i % 4)), "ok": i % 2 == 0}
    for i in range(1_000)
]


def write(path, rows, end="\n"):
    path.write_text("".join(json.dumps(row) + end for row in rows))
    return path


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(row_index, "_ROWS", 64)
    monkeypatch.setattr(row_index, "_BLOCK", 4_096)
    monkeypatch.setattr(row_index, "_PART", 512)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_the_rows_are_those_of_python(tmp_path, small_pieces, end):
    for number, part in enumerate((ROWS[:300], ROWS[300:301], [], ROWS[301:])):
        write(tmp_path / f"{number}.jsonl", part, end)
    data = Dataset(tmp_path)
    assert "not counted yet" in repr(data)
    assert data.to_polars().to_dicts() == ROWS and data.num_rows == len(ROWS)
    assert data.to_polars().schema["id"] == pl.Int64 and len(data.fragments) > 10
    loader = Loader(data, 64, columns=["id", "x"], shuffle=True)
    assert sorted(i for batch, _ in loader for i in batch["id"].tolist()) == [row["id"] for row in ROWS]
    places = loader.rows(3)
    assert (
        set(places["file"].str.slice(-7)) <= {"0.jsonl", "1.jsonl", "3.jsonl"}
        and places["row_group"].null_count() == 64
    )
    assert data.filter(pl.col("ok")).num_rows == 500
    assert data.slice(290, 20).to_polars()["id"].to_list() == [row["id"] for row in ROWS[290:310]]


def test_without_a_line_end_and_by_other_names(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1}\n{"b": "x"}')
    for engine in ("json", "jsonl", "ndjson"):
        assert Dataset(tmp_path / "a.json", engine=engine).to_polars().rows() == [(1, None), (None, "x")]
    with pytest.raises(ArgumentError, match="engine="):
        Dataset(tmp_path / "a.json")


def test_a_folder_of_parquet_files_may_hold_other_json_files(tmp_path):
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "notes.json").write_text("[]")
    assert Dataset(tmp_path).num_rows == 1


def test_types_that_json_has_not(tmp_path):
    rows = [{"day": "2024-01-02", "at": "2024-01-02T03:04:05", "n": 1, "new": None}, {"day": None, "at": None, "n": 2}]
    data = Dataset(
        write(tmp_path / "a.jsonl", rows),
        dtypes={"day": "date", "at": "datetime[us]", "n": "int8", "later": "float32"},
    )
    assert data.to_polars().rows() == [
        (dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5), 1, None, None), (None, None, 2, None, None),
    ]  # fmt: skip
    assert data.to_polars().dtypes == [pl.Date, pl.Datetime("us"), pl.Int8, pl.String, pl.Float32]
    with pytest.raises(DataFileError, match="does not fit"):
        Dataset(tmp_path / "a.jsonl", dtypes={"day": "int64"}).to_polars()


def later(monkeypatch, rows, first=50):
    """The first rows, by which columns are found, are the first 50."""
    monkeypatch.setattr(json_source, "_INFERRED_BYTES", sum(len(json.dumps(row)) + 1 for row in rows[:first]) + 1)


def test_what_comes_later_is_never_lost(tmp_path, small_pieces, monkeypatch):
    plain = [{"a": i} for i in range(200)]
    for strange, said, dtypes in (
        ({"a": 1, "b": "x"}, r"key 'b'.*dtypes=\{'b': 'string'\}", {"b": "string"}),
        ({"a": 0.5}, r"'a' is float64 in .*int64 in the first rows.*dtypes=", {"a": "float64"}),
        ({"a": "x"}, r"'a' is string", {"a": "string"}),
        ({"a": [1]}, r"cannot parse|'a' is list", None),
        ({"a": 2**63}, "'a' is int128", {"a": "uint64"}),
    ):
        rows = [*plain, strange]
        later(monkeypatch, rows)
        path = write(tmp_path / "a.jsonl", rows)
        with pytest.raises((SchemaDriftError, DataFileError), match=said):
            Dataset(path).to_polars()
        if dtypes is not None:
            found = Dataset(path, dtypes=dtypes).to_polars()
            assert found.height == 201 and found.row(200, named=True) == strange
    wide = [*plain[:100], {"a": None}, *plain[100:]]
    later(monkeypatch, wide)
    assert Dataset(write(tmp_path / "b.jsonl", wide)).to_polars()["a"].null_count() == 1


NO_OBJECTS = ['{"a": 1', '{"a": NaN}', "[1]", "3", '{"a": 1},', '{"a": 1}{"a": 2}', '{"a": 1e999}', "\0", '{"a": true}']


@pytest.mark.parametrize("line", NO_OBJECTS)
def test_lines_that_are_no_objects(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' + line + '\n{"a": 2}\n')
    with pytest.raises(DataFileError, match=r"cannot parse|found"):
        Dataset(path).to_polars()


def test_files_that_differ(tmp_path):
    write(tmp_path / "0.jsonl", [{"a": 1}])
    write(tmp_path / "1.jsonl", [{"a": 2, "b": 0.5}])
    assert Dataset(tmp_path).to_polars().rows() == [(1, None), (2, 0.5)]
    write(tmp_path / "2.jsonl", [{"a": "x"}])
    with pytest.raises(SchemaDriftError, match=r"'a' is string in the first rows of .*2\.jsonl"):
        Dataset(tmp_path)


def test_a_file_that_changes_and_bad_arguments(tmp_path):
    path = write(tmp_path / "a.jsonl", ROWS[:5])
    data = Dataset(path)
    write(path, ROWS[5:10])
    with pytest.raises(DataFileError, match="changed"):
        data.to_polars()
    with pytest.raises(ArgumentError, match="unknown argument 'sep'"):
        Dataset(path, sep=";")
    with pytest.raises(ColumnError):
        Dataset(path).to_polars(["nothing"])


def test_damaged_bytes_are_errors_or_rows(tmp_path):
    draw, whole = random.Random(3), write(tmp_path / "whole.jsonl", ROWS[:50]).read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (tmp_path / "a.jsonl").write_bytes(data)
        try:
            frame = Dataset(tmp_path / "a.jsonl").to_polars()
            assert frame.height <= 53
        except (DataFileError, SchemaDriftError):
            pass
