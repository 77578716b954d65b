import json

import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill.report import measure_table
from rowmill.report.advice import good_rows
from rowmill.schema import Tags
from tests.conftest import make_table, write_files


def facts_of(frame, **options):
    facts = measure_table(rowmill.Dataset(frame), **options)
    json.dumps(facts.to_dict(), allow_nan=False)
    return facts, {column.name: column for column in facts.columns}


def test_a_small_table_is_counted_exactly(folder):
    facts = measure_table(rowmill.Dataset(folder), "here")
    table = make_table(1003)
    assert (facts.rows, facts.files, facts.sampled_rows, facts.exact) == (1003, 3, 1003, True)
    assert sum(facts.fragment_rows) == 1003 and max(facts.fragment_rows) == 100
    assert facts.file_bytes == sum(path.stat().st_size for path in folder.iterdir())
    for column in facts.columns:
        series = table[column.name]
        assert column.distinct == series.n_unique() and column.nulls == 0
        assert column.mean == pytest.approx(series.mean(), rel=1e-6)
        assert sum(column.shape) <= 1003


def test_nulls_shares_and_lists():
    frame = pl.DataFrame(
        {
            "s": ["a", "a", None, "b", None],
            "l": [[1, 2], [], None, [1], [1, None]],
            "none": pl.Series([None] * 5, dtype=pl.Int64),
            "odd": [float("nan"), float("inf"), 1.0, 2.0, None],
            "b": [True, False, True, True, True],
            "raw": [b"\xff", b"\x00", None, b"", b"\xff"],
        }
    )
    _, found = facts_of(frame)
    assert found["s"].nulls == 0.4 and found["s"].distinct == 2
    assert found["s"].top_value == "a" and found["s"].top_share == pytest.approx(2 / 3)
    assert found["l"].is_list and found["l"].length == 1.25 and found["l"].nulls == 0.2 and found["l"].top_value == "1"
    assert found["none"].nulls == 1 and found["none"].distinct == 0 and found["none"].kind == "none"
    assert found["odd"].mean == 1.5
    assert found["b"].top_share == 0.8 and found["raw"].distinct == 3


def test_a_sample_is_taken_from_the_whole_table(tmp_path):
    write_files(tmp_path, pl.DataFrame({"id": np.arange(50_000)}), files=5, row_group=1_000)
    facts = measure_table(rowmill.Dataset(tmp_path), sample=5_000)
    column = facts.columns[0]
    assert 4_000 <= facts.sampled_rows <= 5_000 and not facts.exact
    assert column.distinct == facts.sampled_rows, "a row was read twice"
    assert column.mean == pytest.approx(25_000, rel=0.05) and int(column.maximum) > 49_000


def test_a_sample_of_one_large_fragment(tmp_path):
    write_files(tmp_path, pl.DataFrame({"id": np.arange(3_000)}), files=1, row_group=3_000)
    column = measure_table(rowmill.Dataset(tmp_path), sample=640).columns[0]
    assert column.distinct == 640 and column.mean == pytest.approx(1_500, rel=0.05)


def test_a_long_tail_and_ids_have_shapes_of_their_own():
    tail = np.exp(np.linspace(0, 12, 5_000))
    frame = pl.DataFrame({"tail": tail, "flat": np.linspace(-1, 1, 5_000), "id": np.arange(5_000) % 700})
    data = rowmill.Dataset(frame).with_tags({"id": Tags.CATEGORICAL})
    found = {c.name: c for c in measure_table(data).columns}
    assert (found["tail"].kind, found["flat"].kind, found["id"].kind) == ("logarithms", "numbers", "values")
    assert max(found["tail"].shape) < 2_500 and max(found["flat"].shape) < 300
    assert sum(found["tail"].shape) == sum(found["flat"].shape) == 5_000
    assert found["tail"].skewness > 2 > 0.1 > abs(found["flat"].skewness)


def test_no_rows():
    facts, found = facts_of(pl.DataFrame({"a": []}, schema={"a": pl.Int64}))
    assert facts.rows == 0 and found["a"].kind == "none" and "no rows" in facts.advice[0].found


def advice_on(path):
    return " | ".join(
        f"{a.found}: {a.do}" for a in measure_table(rowmill.Dataset(path), str(path), sample=1_000).advice
    )


def test_advice_names_what_is_wrong_and_a_command_that_mends_it(tmp_path):
    rows = np.arange(400_000)
    wide = pl.DataFrame({f"x{i}": rows % 2 * 1.0 for i in range(30)})
    write_files(tmp_path / "large", wide, files=1, row_group=400_000)
    told = advice_on(tmp_path / "large")
    assert "1 of 1 row group is too large" in told and "rowmill convert" in told and "one row group" in told
    write_files(tmp_path / "small", wide.head(40_000), files=20, row_group=2_000)
    told = advice_on(tmp_path / "small")
    assert "20 of 20 files are too small" in told and f"--row-group-size {good_rows(240)} --files 1" in told
    write_files(tmp_path / "good", wide, files=2, row_group=100_000)
    assert advice_on(tmp_path / "good") == ""


def test_advice_on_columns(tmp_path):
    frame = pl.DataFrame({"t": ["a", "b"], "n": [1, None], "c": [5, 5], "id": [1, 2]})
    data = rowmill.Dataset(frame).with_tags({"id": Tags.CATEGORICAL})
    told = [a.found for a in measure_table(data).advice]
    assert [text.rpartition(" ")[2] for text in told] == ["(t)", "(n)", "(c)", "(id)"]


def test_nulls_written_as_text():
    frame = pl.DataFrame(
        {
            "x": ["1", "2.5", "NA", "-3"],
            "y": ["1", "?", "-", " null "],
            "only": ["NA", "NA", None, "NA"],
            "flag": ["true", "false", "NaN", "True"],
            "words": ["ann", "N/A", "unknown", "none"],
            "fine": ["ann", "bob", "1", "-1"],
            "numbers": ["1", "2", "3", "4"],
            "empty": ["1", "", "2", "3"],
        }
    )
    facts = measure_table(rowmill.Dataset(frame).with_tags({"x": Tags.TARGET}), "t.parquet")
    found = {c.name: (c.null_texts, c.numeric_text) for c in facts.columns}
    assert found == {
        "x": (("NA",), True),
        "y": ((" null ", "-", "?"), True),
        "only": (("NA",), True),
        "flag": (("NaN",), True),
        "words": (("N/A",), False),
        "fine": ((), False),
        "numbers": ((), False),
        "empty": ((), False),
    }
    told = {a.found: a.do for a in facts.advice}
    numbers, words, strings = list(told)[:3]
    assert numbers == (
        "text that looks like null (' null ', '-', '?', 'NA') beside numbers, which are text because of it, in "
        "4 columns (x, y, only, flag)"
    )
    assert words == "text that looks like null ('N/A') beside other text in 1 column (words)"
    assert told[words] == (
        "if it means null in all columns, write the table again from CSV files read with null_values=['N/A']: "
        "rowmill convert CSV OUT --null-values=N/A"
    )
    assert strings == "text, which no tensor holds, in 4 columns (words, fine, numbers, empty)"
    assert "--cats words,fine,numbers,empty" in told[strings]
    assert not any("--cats" in do and name in do for do in told.values() for name in ("x,", "only", "flag"))


def test_a_target_of_text_is_not_to_be_encoded():
    data = rowmill.Dataset({"label": ["yes", "no"], "s": ["a", "b"]}).with_tags({"label": Tags.TARGET})
    told = {a.found: a.do for a in measure_table(data).advice}
    assert told["text, which no tensor holds, in 1 column (label) tagged as target"].startswith("turn targets into")
    assert "--cats s -o" in told["text, which no tensor holds, in 1 column (s)"]
