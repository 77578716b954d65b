"""Names to files: natural order, patterns, folders, hive folders, and what is refused."""

import os
from pathlib import Path

import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import ArgumentError, DataFileError, NoFilesError
from rowmill.sources.files.paths import find_files, local_path


def write(path: Path, value: int, **more) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"a": [value], **more}).write_parquet(path)


@pytest.fixture
def twelve(tmp_path):
    for i in range(12):
        write(tmp_path / f"part_{i}.parquet", i)
    return tmp_path


@pytest.mark.parametrize("spell", ["folder", "path", "glob", "list", "url", "reversed", "list of globs"])
def test_every_spelling_gives_files_in_natural_order(twelve, spell):
    files = [str(p) for p in twelve.iterdir()]
    given = {
        "folder": str(twelve),
        "path": twelve,
        "glob": f"{twelve}/part_*.parquet",
        "list": files,
        "url": f"file://{twelve}",
        "reversed": sorted(files)[::-1],
        "list of globs": [f"{twelve}/part_?.parquet", f"{twelve}/part_1*.parquet", str(twelve)],
    }[spell]
    assert Dataset(given).to_polars()["a"].to_list() == list(range(12))


def test_relative_path_and_home(twelve, monkeypatch):
    monkeypatch.chdir(twelve.parent)
    assert Dataset(twelve.name).num_rows == 12
    assert Dataset(f"{twelve.name}/*.parquet").num_rows == 12
    monkeypatch.setenv("HOME", str(twelve))
    assert Dataset("~/part_3.parquet").to_polars()["a"].to_list() == [3]


def test_nested_folders_and_hidden_names(tmp_path):
    write(tmp_path / "x/y/2.parquet", 2)
    write(tmp_path / "x/10.parquet", 10)
    for hidden in ("_temporary/0.parquet", ".part/0.parquet", "_0.parquet", "x/.1.parquet"):
        write(tmp_path / hidden, -1)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "README.md").write_text("not data")
    assert sorted(Dataset(tmp_path).to_polars()["a"]) == [2, 10]
    assert sorted(Dataset(f"{tmp_path}/**/*.parquet").to_polars()["a"]) == [2, 10]


def test_symbolic_links_are_followed_once(tmp_path):
    write(tmp_path / "real/0.parquet", 1)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/link").symlink_to(tmp_path / "real")
    (tmp_path / "real/loop").symlink_to(tmp_path / "real")
    assert Dataset(tmp_path / "data").to_polars()["a"].to_list() == [1]


def test_a_file_whose_name_has_wildcards(tmp_path):
    write(tmp_path / "a[1].parquet", 7)
    assert Dataset(tmp_path / "a[1].parquet").to_polars()["a"].to_list() == [7]


def test_hive_folders_become_columns(tmp_path):
    write(tmp_path / "day=2/kind=a%2Fb/0.parquet", 1)
    write(tmp_path / "day=10/kind=__HIVE_DEFAULT_PARTITION__/0.parquet", 2)
    dataset = Dataset(tmp_path)
    assert dataset.to_polars().to_dicts() == [
        {"a": 1, "day": 2, "kind": "a/b"},
        {"a": 2, "day": 10, "kind": None},
    ]
    assert dataset.schema["day"].dtype == "int64"
    assert dataset.to_polars(["kind"]).columns == ["kind"]
    assert dataset.to_polars(["day", "a"]).rows() == [(2, 1), (10, 2)]
    assert Dataset(f"{tmp_path}/*/*/*.parquet").to_polars().equals(dataset.to_polars())


def test_hive_value_with_leading_zero_stays_text(tmp_path):
    write(tmp_path / "m=01/0.parquet", 1)
    write(tmp_path / "m=12/0.parquet", 2)
    assert Dataset(tmp_path).to_polars()["m"].to_list() == ["01", "12"]


def test_hive_column_also_stored_comes_from_the_file(tmp_path):
    write(tmp_path / "k=1/0.parquet", 1, k=pl.Series([5], dtype=pl.Int8))
    assert Dataset(tmp_path).to_polars().rows() == [(1, 5)]


def test_hive_folders_with_different_keys_are_refused(tmp_path):
    write(tmp_path / "k=1/0.parquet", 1)
    write(tmp_path / "j=1/0.parquet", 1)
    with pytest.raises(ArgumentError, match="same keys"):
        Dataset(tmp_path)


@pytest.mark.parametrize("name", ["missing.parquet", "missing", "*.parquet", "nowhere/**/*.parquet", "empty"])
def test_nothing_there_is_an_error(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoFilesError, match="wanted") as caught:
        Dataset(tmp_path / name)
    assert isinstance(caught.value, FileNotFoundError)


def test_empty_list_is_an_error():
    with pytest.raises(NoFilesError, match="empty list"):
        Dataset([])


def test_one_missing_file_of_a_list_is_an_error(twelve):
    with pytest.raises(NoFilesError, match=r"gone\.parquet"):
        Dataset([twelve / "part_1.parquet", twelve / "gone.parquet"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(twelve):
    (twelve / "part_3.parquet").chmod(0)
    with pytest.raises(DataFileError, match=r"part_3.parquet"):
        Dataset(twelve)
    with pytest.raises(DataFileError, match="permission"):
        Dataset(twelve / "part_3.parquet")


def test_engine_by_name_and_by_argument(tmp_path):
    write(tmp_path / "noending", 4)
    write(tmp_path / "b.pq", 4)
    assert Dataset(tmp_path / "noending", "parquet").num_rows == 1
    assert Dataset(tmp_path / "b.pq").num_rows == 1
    with pytest.raises(ArgumentError, match="engine='parquet'"):
        Dataset(tmp_path / "noending")
    with pytest.raises(ArgumentError, match="unknown engine 'orc'"):
        Dataset(tmp_path / "b.pq", engine="orc")


def test_mixed_formats_are_refused(tmp_path):
    write(tmp_path / "a.parquet", 1)
    (tmp_path / "b.csv").write_text("a\n1\n")
    with pytest.raises(ArgumentError, match="csv and parquet"):
        Dataset(tmp_path)
    assert Dataset(tmp_path, engine="csv").num_rows == 1
    with pytest.raises(ArgumentError, match="several formats"):
        Dataset([tmp_path / "a.parquet", tmp_path / "b.csv"])


def test_things_that_are_no_path(twelve):
    with pytest.raises(ArgumentError, match="list of paths"):
        Dataset([twelve / "part_1.parquet", 7])
    with pytest.raises(TypeError, match="cannot make a dataset of int"):
        Dataset(7)


def test_unknown_scheme():
    with pytest.raises(ArgumentError, match="nosuchscheme"):
        Dataset("nosuchscheme://bucket/a.parquet")


def test_mixed_schemes(twelve):
    with pytest.raises(ArgumentError, match="several file systems"):
        find_files(["s3://b/a.parquet", str(twelve / "part_1.parquet")])


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/w", "gs://b/w", "GS://b", "abfs://c@a/w", "http://x/w", "hdfs:///w", "a+b://c", "file://host/w"],
)
def test_a_url_is_no_local_path(url):
    with pytest.raises(ArgumentError, match="path is '"):
        local_path(url, "path")
    with pytest.raises(ArgumentError, match="path is '"):
        local_path(Path(url), "path")


@pytest.mark.parametrize(
    "given, wanted",
    [("file:///tmp/w", "/tmp/w"), ("file://localhost/w", "/w"), ("w", "w"), ("a:b/c", "a:b/c"), (Path("/x"), "/x")],
)
def test_local_paths(given, wanted):
    assert local_path(given, "path") == Path(wanted)


@pytest.mark.parametrize("given", ["", b"w", 3, None, "a\0b"])
def test_what_is_no_path_at_all(given):
    with pytest.raises(ArgumentError, match="path is"):
        local_path(given, "path")
