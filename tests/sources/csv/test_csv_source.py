"""CSV files as a source: quotes, options of pandas and Polars, types, hex, blank lines, pieces."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowmill import Dataset
from rowmill.errors import ArgumentError, ColumnError, DataFileError, SchemaDriftError
from rowmill.sources.lines import row_index
from rowmill.sources.source import Fragment


@pytest.fixture
def small_pieces(monkeypatch):
    """Blocks and pieces so small that every border case happens."""
    monkeypatch.setattr(row_index, "_BLOCK", 64)
    monkeypatch.setattr(row_index, "_ROWS", 5)


def make(tmp_path, text, name="a.csv"):
    (tmp_path / name).write_bytes(text.encode())
    return tmp_path / name


def test_quotes_with_separators_and_line_ends(tmp_path, small_pieces):
    frame = pl.DataFrame(
        {"a": range(200), "t": ['say "x",\nthen\r\n""', "plain", "", "\n"] * 50, "f": np.arange(200) / 3}
    )
    frame.write_csv(tmp_path / "a.csv")
    dataset = Dataset(tmp_path)
    assert dataset.num_rows == 200
    assert dataset.npartitions > 30
    assert dataset.to_polars().equals(frame)
    assert dataset.to_polars(["t", "a"])["a"].to_list() == list(range(200))


def test_any_slice(tmp_path, small_pieces):
    pl.DataFrame({"a": range(100)}).with_columns(b=pl.col("a") * 2).write_csv(tmp_path / "a.csv")
    source = Dataset(tmp_path).source
    for start, rows in [(0, 1), (3, 30), (99, 1), (0, 100), (50, 0)]:
        assert source.read(Fragment(0, start, rows), ["b"])["b"].to_list() == [
            2 * i for i in range(start, start + rows)
        ]


cells = st.text(alphabet='ab,"\n\r x', max_size=6)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(-99, 99), cells), min_size=1, max_size=40), end=st.booleans())
def test_counts_and_rows_agree_with_polars(tmp_path_factory, rows, end):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    frame = pl.DataFrame(rows, schema={"n": pl.Int64, "t": pl.String}, orient="row")
    text = frame.write_csv(quote_style="always")
    path.write_bytes((text if end else text.rstrip("\n")).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_index, "_BLOCK", 16)
        patch.setattr(row_index, "_ROWS", 3)
        dataset = Dataset(path, dtypes={"t": "string", "n": "int64"})
        assert dataset.num_rows == len(rows)
        assert dataset.to_polars()["n"].to_list() == [n for n, _ in rows]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_blank_lines_are_no_rows(tmp_path, small_pieces, ending):
    lines = ["a,b", "1,2", "", "", "3,4", *["", "5,6"] * 20, "", ""]
    path = make(tmp_path, ending.join(lines))
    dataset = Dataset(path)
    assert dataset.num_rows == 22
    assert dataset.to_polars()["a"].to_list() == [1, 3, *[5] * 20]


def test_blank_lines_of_a_single_column_are_nulls(tmp_path):
    assert Dataset(make(tmp_path, "a\n1\n\n3\n")).to_polars()["a"].to_list() == [1, None, 3]


def test_no_line_end_at_the_end_and_byte_order_mark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\n1,2\n3,4")
    assert Dataset(path).to_polars().to_dicts() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("x;y\n1;2\n", {"sep": ";"}, [{"x": 1, "y": 2}]),
        ("x|y\n1|2\n", {"delimiter": "|"}, [{"x": 1, "y": 2}]),
        ("x\ty\n1\t2\n", {"separator": "\t"}, [{"x": 1, "y": 2}]),
        ("1,2\n", {"names": ["p", "q"]}, [{"p": 1, "q": 2}]),
        ("1,2\n", {"names": ["p", "q"], "header": None}, [{"p": 1, "q": 2}]),
        ("x,y\n1,2\n", {"names": ["p", "q"], "header": 0}, [{"p": 1, "q": 2}]),
        ("x,y\n1,2\n", {"new_columns": ["p", "q"]}, [{"p": 1, "q": 2}]),
        ("1,2\n", {"has_header": False}, [{"column_0": 1, "column_1": 2}]),
        ("1,2\n", {"header": None}, [{"column_0": 1, "column_1": 2}]),
        ("x,y\nNA,2\n", {"null_values": "NA"}, [{"x": None, "y": 2}]),
        ("x,y\n-,2\n", {"na_values": ["-"], "dtypes": {"x": "int32"}}, [{"x": None, "y": 2}]),
        ("x,y\nNA,?\n-1,2\n", {"null_values": ["NA", "?", -1]}, [{"x": None, "y": None}, {"x": None, "y": 2}]),
        ("x,y\nNA,NA\n1,2\n", {"na_values": {"x": "NA"}}, [{"x": None, "y": "NA"}, {"x": 1, "y": "2"}]),
        ("x,y\nNA,?\n1,2\n", {"null_values": {"NA", "?"}}, [{"x": None, "y": None}, {"x": 1, "y": 2}]),
        ('x,y\n5",2\n', {"quote_char": None, "blocksize": 7}, [{"x": '5"', "y": 2}]),
    ],
)
def test_options(tmp_path, text, options, rows):
    assert Dataset(make(tmp_path, text), engine="csv", **options).to_polars().to_dicts() == rows


def test_tsv_by_its_name(tmp_path):
    assert Dataset(make(tmp_path, "a\tb\n1\t2\n", "a.tsv")).to_polars().rows() == [(1, 2)]


@pytest.mark.parametrize(
    "options",
    [
        {"sepp": ","},
        {"sep": "::"},
        {"header": 3},
        {"names": ["a", "a"]},
        {"null_values": [None]},
        {"null_values": {"a": ["NA", "?"]}},
        {"null_values": {"aa": "NA"}},
    ],
)
def test_bad_options(tmp_path, options):
    with pytest.raises((ArgumentError, ColumnError)):
        Dataset(make(tmp_path, "a,b\n1,2\n"), **options)


def test_files_of_other_tables_are_named(tmp_path):
    make(tmp_path, "a,b\n1,2\n", "0.csv")
    make(tmp_path, "a,c\n1,2\n", "1.csv")
    with pytest.raises(SchemaDriftError) as caught:
        Dataset(tmp_path)
    assert str(caught.value) == (
        f"no column 'b' in {tmp_path}/1.csv; expected one as in {tmp_path}/0.csv; found 'c' instead; "
        f"rewrite that file, leave it out, or open it as a dataset of its own"
    )
    make(tmp_path, "a,b,c\n1,2,3\n", "1.csv")
    with pytest.raises(SchemaDriftError, match=r"^column 'c' in .*1\.csv; expected no such column, as in .*own$"):
        Dataset(tmp_path)


def test_a_null_written_as_text_names_the_cure(tmp_path):
    late = make(tmp_path, "x\n" + "1\n" * 600_000 + "NA\n", "late.csv")
    cure = r"null_values=\['NA'\] \(rowmill convert: --null-values=NA\) if that means null"
    with pytest.raises(DataFileError, match=cure):
        Dataset(late).to_polars()
    assert Dataset(late, null_values=["NA"]).to_polars()["x"].to_list()[-2:] == [1, None]
    for names in (("0.csv", "1.csv"), ("1.csv", "0.csv")):
        folder = tmp_path / names[0][0]
        folder.mkdir()
        make(folder, "x\n1\n", names[0])
        make(folder, "x\n2\nNA\n", names[1])
        with pytest.raises(SchemaDriftError, match=cure):
            Dataset(folder)
        assert Dataset(folder, null_values="NA").to_polars()["x"].drop_nulls().sort().to_list() == [1, 2]


def test_dtypes_and_hex(tmp_path):
    path = make(tmp_path, "a,h,g,d,z\n1,ff,80000000,1.25,007\n2,,7fffffff,2.50,008\n")
    dtypes = {"a": np.float32, "h": "hex", "g": "hex32", "d": "decimal[10,2]", "z": str}
    dataset = Dataset(path, dtypes=dtypes)
    assert [c.dtype for c in dataset.schema] == ["float32", "int64", "int32", "decimal[10,2]", "string"]
    frame = dataset.to_polars()
    assert frame["h"].to_list() == [255, None]
    assert frame["g"].to_list() == [-(2**31), 2**31 - 1]
    assert frame["z"].to_list() == ["007", "008"]
    assert [str(d) for d in frame["d"]] == ["1.25", "2.50"]
    with pytest.raises(ColumnError, match="'b'"):
        Dataset(path, dtypes={"b": "int8"})


def test_a_value_that_does_not_fit_names_the_cure(tmp_path):
    path = make(tmp_path, "a,b\n" + "1,2\n" * 300_000 + "x,2\n")
    dataset = Dataset(path)
    assert dataset.schema["a"].dtype == "int64"
    with pytest.raises(DataFileError, match=r"a\.csv.*dtypes="):
        dataset.to_polars()
    assert Dataset(path, dtypes={"a": "string"}).to_polars()["a"][-1] == "x"


def test_several_files(tmp_path):
    make(tmp_path, "a,b\n1,2\n", "0.csv")
    make(tmp_path, "b,a\n20,10.5\n", "1.csv")  # another order; floats where the first file has integers
    make(tmp_path, "a,b\n", "2.csv")
    assert Dataset(tmp_path).to_polars().rows() == [(1.0, 2), (10.5, 20)]
    make(tmp_path, "a,c\n1,2\n", "3.csv")
    with pytest.raises(SchemaDriftError, match=r"3\.csv"):
        Dataset(tmp_path)
    make(tmp_path, "a,b\nx,2\n", "3.csv")
    with pytest.raises(SchemaDriftError, match=r"'a'.*3\.csv.*dtypes="):
        Dataset(tmp_path)
    assert Dataset(tmp_path, dtypes={"a": "string"}).num_rows == 3


def test_a_header_longer_than_the_first_look(tmp_path):
    names = [f"a_rather_long_name_of_a_column_{i}" for i in range(3000)]
    for i in range(10):  # from the ninth file on only the names are read
        make(tmp_path, ",".join(names) + "\n" + ",".join("1" * 3000) + "\n", f"{i}.csv")
    assert Dataset(tmp_path).to_polars(names[-1:]).height == 10


def test_matches_pandas(tmp_path):
    table = pd.DataFrame({"i": [1, 2], "s": ["a", 'b "c"'], "f": [0.5, None]})
    table.to_csv(tmp_path / "a.csv", index=False)
    assert Dataset(tmp_path).to_polars().rows() == [(1, "a", 0.5), (2, 'b "c"', None)]


def test_a_compressed_file_says_so(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("x,y\n1,2\n")
    with pytest.raises(DataFileError, match=r"is compressed \(gzip\).*unpack it first"):
        Dataset(tmp_path / "a.csv.gz", engine="csv")
