"""The synthetic tables: what is in them, how they are cut, and that they are the same every time."""

import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from rowmill.errors import ArgumentError
from rowmill.tools import recipes, row_group_writer, synthetic
from rowmill.tools.random_columns import hashed

ROWS = 60_000  # not a multiple of a block


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    path = tmp_path_factory.mktemp("prepared")
    synthetic.criteo(path, ROWS, files=2, lists=2, strings=True)
    return pl.read_parquet(path / "*.parquet")


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    path = tmp_path_factory.mktemp("raw") / "clicks.parquet"
    assert synthetic.criteo(path, ROWS, form="raw", lists=True, strings=1) == [path]
    return pl.read_parquet(path)


def test_cardinalities_are_those_of_the_criteo_notebook():
    # The notebook prints them in the order C1, C10, C11, ... C19, C2, C20, ...
    printed = [10000000, 10000000, 707291, 218510, 11, 2209, 9798, 72, 4, 954, 15, 29612, 10000000, 4553157]
    printed += [10000000, 291641, 10904, 91, 35, 15050, 7190, 19547, 4, 6492, 1317, 63]
    assert [synthetic.CARDINALITIES[name] for name in sorted(synthetic.CATEGORICAL)] == printed


def test_prepared_schema(prepared):
    assert prepared.columns == [
        "label",
        *(f"I{i}" for i in range(1, 14)),
        *(f"C{i}" for i in range(1, 27)),
        *("L1", "L2", "S1"),
    ]
    assert prepared.height == ROWS
    assert set(prepared.select(synthetic.LABEL, *synthetic.CONTINUOUS).dtypes) == {pl.Float32}
    assert set(prepared.select(synthetic.CATEGORICAL).dtypes) == {pl.Int64}
    assert prepared["L1"].dtype == pl.List(pl.Int64)
    assert prepared["S1"].dtype == pl.String


def test_raw_schema(raw):
    flat = raw.select(synthetic.LABEL, *synthetic.CONTINUOUS, *synthetic.CATEGORICAL)
    assert set(flat.dtypes) == {pl.Int32}
    assert raw["L1"].dtype == pl.List(pl.Int32)


def test_prepared_has_no_nulls_outside_lists_and_finite_standardised_floats(prepared):
    flat = prepared.drop("L1", "L2")
    assert sum(flat.null_count().row(0)) == 0
    for name in synthetic.CONTINUOUS:
        assert np.isfinite(prepared[name].to_numpy()).all()
        assert abs(prepared[name].mean()) < 0.05
        assert abs(prepared[name].std() - 1) < 0.05


def test_raw_has_about_the_nulls_of_the_logs(raw):
    for name in (*synthetic.CONTINUOUS, *synthetic.CATEGORICAL):
        assert raw[name].null_count() / ROWS == pytest.approx(recipes.MISSING.get(name, 0), abs=0.02), name
    assert raw["label"].null_count() == 0
    assert raw["S1"].null_count() > 0
    assert raw["I2"].min() < 0 <= raw["I3"].min()


def test_ids_stay_below_their_cardinality_and_are_skewed(prepared):
    for name, cardinality in synthetic.CARDINALITIES.items():
        ids = prepared[name]
        assert ids.min() == 0
        assert ids.max() < cardinality
        top = ids.value_counts(sort=True).head(max(1, cardinality // 100))["count"].sum() / ROWS
        # A hundredth of the ids makes up (1/100) ** (1/4) = 32% of the rows, where it can be told.
        assert top > 0.28, name
    assert prepared["C9"].n_unique() == 63
    assert prepared["C1"].n_unique() > ROWS // 2


def test_hashing_keeps_ids_apart():
    ids = np.arange(1_000_000)
    codes = hashed(ids, 3)
    assert len(np.unique(codes)) == len(ids)
    assert codes.min() < 0 < codes.max()
    assert not np.array_equal(codes, hashed(ids, 4))


def test_both_forms_are_the_same_clicks(prepared, raw):
    assert prepared["label"].cast(pl.Int32).equals(raw["label"])
    pairs = pl.DataFrame({"id": prepared["C14"], "code": raw["C14"]}).unique()
    assert pairs["id"].n_unique() == pairs["code"].n_unique() == pairs.height


def test_lists_vary_with_empty_and_null_rows(prepared):
    lengths = prepared["L1"].list.len()
    assert lengths.null_count() > 0
    assert lengths.min() == 0
    assert lengths.max() == 12
    assert prepared["L1"].list.explode().max() < recipes.LIST_IDS
    assert not prepared["L1"].equals(prepared["L2"])


def test_label_can_be_learnt(prepared):
    assert 0.2 < prepared["label"].mean() < 0.3
    by_id = prepared.group_by("C17").agg(pl.col("label").mean())["label"]
    assert by_id.max() - by_id.min() > 0.05
    assert abs(np.corrcoef(prepared["I1"], prepared["label"])[0, 1]) > 0.1


@pytest.mark.parametrize("files, row_group_rows", [(1, 7_000), (3, 250_000), (7, 20_001)])
def test_the_same_rows_however_they_are_cut(tmp_path, prepared, files, row_group_rows):
    synthetic.criteo(tmp_path, ROWS, files=files, row_group_rows=row_group_rows, lists=2, strings=True)
    cut_otherwise = pl.concat(pl.read_parquet(tmp_path / f"part_{i}.parquet") for i in range(files))
    assert cut_otherwise.equals(prepared)


def test_fewer_rows_are_the_beginning_of_more(tmp_path, prepared):
    (path,) = synthetic.criteo(tmp_path, 20_000)
    assert pl.read_parquet(path).equals(prepared.head(20_000).drop("L1", "L2", "S1"))


def test_another_seed_gives_other_rows_and_the_global_generator_is_left_alone(tmp_path, prepared):
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    (path,) = synthetic.criteo(tmp_path, 10_000, seed=1)
    other = pl.read_parquet(path)
    for name in other.columns:
        assert not other[name].equals(prepared[name].head(10_000)), name
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_layout(tmp_path):
    paths = synthetic.criteo(tmp_path / "new" / "folder", 100_000, files=3, row_group_rows=10_000)
    assert [path.name for path in paths] == ["part_0.parquet", "part_1.parquet", "part_2.parquet"]
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "new", tmp_path / "new" / "folder", *paths])
    footers = [pq.ParquetFile(path).metadata for path in paths]
    assert [footer.num_rows for footer in footers] == [33_333, 33_333, 33_334]
    for footer in footers:
        groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        assert [group.num_rows for group in groups[:-1]] == [10_000] * 3
        assert groups[0].column(0).compression == "SNAPPY"
        assert groups[0].column(14).statistics.has_min_max


def test_no_rows_and_fewer_rows_than_files(tmp_path):
    (empty,) = synthetic.criteo(tmp_path / "empty", 0)
    assert pq.ParquetFile(empty).metadata.num_rows == 0
    paths = synthetic.criteo(tmp_path / "few", 3, files=5, compression="zstd")
    assert [pq.ParquetFile(path).metadata.num_rows for path in paths] == [0, 1, 0, 1, 1]


def test_wide(tmp_path):
    (path,) = synthetic.wide(tmp_path, 30_000, 11, row_group_rows=8_000)
    frame = pl.read_parquet(path)
    assert frame.columns == ["label", "I1", "I2", "I3", "I4", "I5", "C1", "C2", "C3", "C4", "C5"]
    assert frame.dtypes == [pl.Float32] * 6 + [pl.Int64] * 5
    assert set(frame["label"].unique()) == {0.0, 1.0}
    assert frame["C1"].max() < 1_000
    assert not frame["C1"].equals(frame["C2"])


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    synthetic.criteo(tmp_path, 100, files=2)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    whole = recipes.Criteo.block

    def fail_late(self, index):
        if index == 2:
            raise OSError("disk full")
        return whole(self, index)

    monkeypatch.setattr(recipes.Criteo, "block", fail_late)
    with pytest.raises(OSError, match="disk full"):
        synthetic.criteo(tmp_path, 2 * row_group_writer.BLOCK + 5, files=2, seed=9)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"form": "cooked"}, "'prepared' or 'raw'"),
        ({"files": 0}, "at least 1"),
        ({"row_group_rows": 0}, "at least 1"),
        ({"seed": -1}, "2\\*\\*64"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        synthetic.criteo(tmp_path, 10, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_folder_with_other_tables_and_a_file_name_for_many(tmp_path):
    synthetic.criteo(tmp_path, 10, files=3)
    with pytest.raises(ArgumentError, match=r"already holds part_2\.parquet"):
        synthetic.criteo(tmp_path, 10, files=2)
    with pytest.raises(ArgumentError, match="wanted a folder"):
        synthetic.criteo(tmp_path / "x.parquet", 10, files=2)
    with pytest.raises(ArgumentError, match="at least 2"):
        synthetic.wide(tmp_path / "y", 10, 1)


_PEAK = """
import re, sys
from pathlib import Path
from rowmill.tools import synthetic
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
synthetic.criteo(sys.argv[1] + "/warm", 40_000, row_group_rows=20_000)
before = peak()
synthetic.criteo(sys.argv[1] + "/large", 800_000, row_group_rows=20_000)
print(peak() - before)
"""


def test_rows_are_streamed_to_disk(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("reads the peak from /proc")
    out = subprocess.run([sys.executable, "-c", _PEAK, str(tmp_path)], capture_output=True, text=True, check=True)
    # 800,000 rows are 211 MB; a row group is 5 MB.
    assert float(out.stdout) < 70


def test_the_rows_of_a_seed_stay_what_they_are(tmp_path):
    (path,) = synthetic.criteo(tmp_path, 20_000, seed=7)
    frame = pl.read_parquet(path)
    assert frame["C1"].sum() == 40_071_491_598
    assert frame["C14"].sum() == 8_728_848
    assert frame["C2"].head(4).to_list() == [4512, 7687, 0, 26160]
    assert frame["label"].sum() == pytest.approx(5143, abs=3)  # the last bit of an exponential may differ
    (path,) = synthetic.criteo(tmp_path, 20_000, seed=7, form="raw")
    frame = pl.read_parquet(path)
    assert frame["C2"].head(3).to_list() == [-159533378, 5404619, -1431514818]
    assert frame["C3"].null_count() == 580
