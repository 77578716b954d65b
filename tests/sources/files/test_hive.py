"""`key=value` folders of lists, single folders and files: the columns that the glob of all of them gives."""

import os
from pathlib import Path

import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import ArgumentError


def write(path: Path, value: int, **more) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame({"a": [value], **more}).write_parquet(path)


@pytest.fixture
def days(tmp_path):
    for day in (1, 2, 10):
        write(tmp_path / f"t/day={day}/a.parquet", day * 100)
    return tmp_path / "t"


SPELLINGS = {
    "glob": lambda t: f"{t}/*/*.parquet",
    "folder": lambda t: t,
    "folders": lambda t: [f"{t}/day=1", f"{t}/day=2", f"{t}/day=10"],
    "folders with a slash": lambda t: [f"{t}/day=1/", f"{t}/day=2/", f"{t}/day=10/."],
    "paths of folders": lambda t: [t / "day=1", t / "day=2", t / "day=10"],
    "files": lambda t: [f"{t}/day=10/a.parquet", f"{t}/day=1/a.parquet", f"{t}/day=2/a.parquet"],
    "paths of files": lambda t: sorted(t.glob("*/*.parquet")),
    "tuple": lambda t: (f"{t}/day=1", f"{t}/day=2/a.parquet", f"{t}/day=1*/*.parquet"),
    "URLs": lambda t: [f"file://{t}/day=1", f"file://{t}/day=2", f"file://{t}/day=10"],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_keeps_the_partition_column(days, spelling):
    dataset = Dataset(SPELLINGS[spelling](days))
    assert dataset.to_polars().sort("a").rows() == [(100, 1), (200, 2), (1000, 10)]
    assert dataset.columns == ["a", "day"]
    assert dataset.schema["day"].dtype == "int64"


def test_relative_and_mixed_paths(days, monkeypatch):
    monkeypatch.chdir(days.parent)
    assert Dataset(["t/day=1", "./t/day=2"]).to_polars().rows() == [(200, 2), (100, 1)]
    assert Dataset(["t/day=1", str(days / "day=2")]).to_polars().sort("a").rows() == [(100, 1), (200, 2)]
    monkeypatch.chdir(days)
    assert Dataset(["day=1", "day=2/a.parquet"]).to_polars().rows() == [(100, 1), (200, 2)]
    monkeypatch.chdir(days / "day=1")  # only folders of the path as it is written count
    assert Dataset("a.parquet").to_polars().rows() == [(100,)]
    assert Dataset(["../day=1", "../day=2"]).to_polars().rows() == [(100, 1), (200, 2)]


@pytest.mark.parametrize("given", ["day=2", "day=2/a.parquet", "day=2/*.parquet"])
@pytest.mark.parametrize("wrap", [str, lambda path: [path]], ids=["one", "list"])
def test_a_part_of_the_table_has_the_columns_of_the_whole(days, given, wrap):
    assert Dataset(wrap(f"{days}/{given}")).to_polars().to_dicts() == [{"a": 200, "day": 2}]


def test_folders_above_the_table_do_not_count(tmp_path):
    write(tmp_path / "run=3/train/a.parquet", 1)
    write(tmp_path / "run=3/train/b.parquet", 2)
    for given in ("run=3/train", "run=3/train/*.parquet", "run=3/train/a.parquet"):
        assert Dataset(tmp_path / given).columns == ["a"]
    assert Dataset([tmp_path / "run=3/train/a.parquet", tmp_path / "run=3/train/b.parquet"]).columns == ["a"]


def test_folders_between_key_folders_and_files(tmp_path):
    for day in (1, 2):
        write(tmp_path / f"day={day}/node/a.parquet", day)
    assert Dataset([tmp_path / "day=1/node/a.parquet", tmp_path / "day=2/node"]).to_polars().rows() == [(1, 1), (2, 2)]


def test_folders_of_different_depth(tmp_path):
    write(tmp_path / "year=2023/month=12/a.parquet", 1)
    write(tmp_path / "year=2024/month=1/a.parquet", 2)
    write(tmp_path / "year=2024/month=2/a.parquet", 3)
    mixed = Dataset([tmp_path / "year=2023", tmp_path / "year=2024/month=1", tmp_path / "year=2024/month=2/a.parquet"])
    assert mixed.to_polars().rows() == [(1, 2023, 12), (2, 2024, 1), (3, 2024, 2)]


def test_zeros_in_front_are_kept_by_a_part_of_the_table(tmp_path):
    for month in ("09", "10", "11"):
        write(tmp_path / f"month={month}/a.parquet", int(month))
    for given in (["month=10", "month=11"], ["month=10/a.parquet", "month=11/a.parquet"], ["month=1*/*.parquet"]):
        found = Dataset([tmp_path / name for name in given]).to_polars()
        assert found.rows() == [(10, "10"), (11, "11")]
    (tmp_path / "month=99").mkdir()
    (tmp_path / "day=1").mkdir()
    write(tmp_path / "day=1/a.parquet", 1)
    (tmp_path / "day=none").mkdir()  # without files it is no part of the table
    assert Dataset([tmp_path / "day=1"]).to_polars().rows() == [(1, 1)]


def test_a_file_outside_the_folders_is_refused_by_name(days):
    write(days / "extra.parquet", 5)
    with pytest.raises(
        ArgumentError, match=r"extra.parquet is in no folder day=\.\.\., as .*day=1/a.parquet is.*two data"
    ):
        Dataset([days / "day=1", days / "extra.parquet"])
    with pytest.raises(ArgumentError, match=r"extra.parquet is in no folder day="):
        Dataset(days)


def test_a_file_outside_the_folders_may_store_the_column(tmp_path):
    write(tmp_path / "day=1/a.parquet", 1, day=1)
    write(tmp_path / "extra.parquet", 2, day=7)
    given = [tmp_path / "day=1", tmp_path / "extra.parquet"]
    assert sorted(Dataset(given).to_polars().rows()) == [(1, 1), (2, 7)]


def test_csv_and_ipc_lists(tmp_path):
    for day in (1, 2):
        folder = tmp_path / f"day={day}"
        folder.mkdir()
        (folder / "a.csv").write_text(f"x\n{day * 10}\n")
        pl.DataFrame({"x": [day * 10]}).write_ipc(folder / "a.arrow")
    for ending in ("csv", "arrow"):
        listed = Dataset([tmp_path / f"day={day}/a.{ending}" for day in (1, 2)])
        assert listed.to_polars().rows() == [(10, 1), (20, 2)]


def test_the_schema_beside_a_table_describes_a_part_of_it(tmp_path):
    Dataset({"a": [1, 2], "day": [1, 2]}).to_parquet(tmp_path / "t", partition_on="day", labels=["a"])
    assert Dataset([tmp_path / "t/day=1", tmp_path / "t/day=2"]).schema["a"].tags == {"target"}
    files = [os.fspath(p) for p in (tmp_path / "t/day=2").glob("*.parquet")]
    assert Dataset(files).schema["a"].tags == {"target"}
