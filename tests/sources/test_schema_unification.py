"""Files of one dataset that differ: what is accepted and unified, and what is refused at open."""

import decimal
import itertools

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset
from rowmill.errors import SchemaDriftError
from rowmill.sources.schema_unification import widest

INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UINTS = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
F32, F64 = pa.float32(), pa.float64()
D = decimal.Decimal

ACCEPTED = [
    *[(a, b, b, [1, 2]) for i, a in enumerate(INTS) for b in INTS[i + 1 :]],
    *[(a, b, b, [1, 2]) for i, a in enumerate(UINTS) for b in UINTS[i + 1 :]],
    (pa.uint8(), pa.int8(), pa.int16(), [1, 2]),
    (pa.uint32(), pa.int32(), pa.int64(), [1, 2]),
    (pa.uint16(), pa.int64(), pa.int64(), [1, 2]),
    (F32, F64, F64, [1.5, 2.5]),
    (pa.int16(), F32, F32, [1, 2]),
    (pa.int32(), F32, F64, [1, 2]),
    (pa.uint32(), F64, F64, [1, 2]),
    (pa.string(), pa.large_string(), pa.string(), ["x", None]),
    (pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.string(), ["x", "y"]),
    (pa.int64(), pa.dictionary(pa.int32(), pa.int64()), pa.int64(), [5, 6]),
    (pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64()), [[1], []]),
    (pa.list_(pa.int16()), pa.list_(pa.int64()), pa.list_(pa.int64()), [[1], []]),
    (pa.null(), pa.int64(), pa.int64(), [None, None]),
    (pa.null(), pa.string(), pa.string(), [None, None]),
]
REFUSED = [
    (pa.int64(), F64, [1, 2]),
    (pa.int64(), F32, [1, 2]),
    (pa.uint64(), pa.int64(), [1, 2]),
    (pa.int64(), pa.string(), None),
    (pa.int64(), pa.bool_(), None),
    (pa.timestamp("us"), pa.timestamp("us", "UTC"), [0, 1]),
    (pa.timestamp("us"), pa.timestamp("ns"), [0, 1]),
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), [0, 1]),
    (pa.date32(), pa.timestamp("us"), [0, 1]),
    (pa.decimal128(10, 2), pa.decimal128(10, 3), [D("1.5"), D("2.5")]),
    (pa.decimal128(10, 2), F64, None),
    (pa.struct([("x", pa.int64())]), pa.struct([("y", pa.int64())]), None),
    (pa.list_(pa.int64()), pa.int64(), None),
    (pa.list_(pa.int64(), 2), pa.list_(pa.int64(), 3), None),
]


def fill(type_, values):
    return pa.array(values, type_) if values is not None else pa.nulls(2, type_)


def write(tmp_path, columns):
    for i, column in enumerate(columns):
        table = column if isinstance(column, pa.Table) else pa.table({"a": column, "z": pa.array([i, i])})
        pq.write_table(table, tmp_path / f"{i}.parquet")


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("narrow", "wide", "result", "values"), ACCEPTED, ids=lambda v: str(v)[:24])
def test_accepted(tmp_path, narrow, wide, result, values, place):
    types = [wide, wide, wide]
    types[place] = narrow
    write(tmp_path, [fill(t, values) for t in types])
    dataset = Dataset(tmp_path)
    expected = pl.from_arrow(pa.table({"a": pa.array(values * 3, result)}))
    got = dataset.to_polars(["a"])
    assert got.equals(expected)
    assert got.schema == expected.schema
    for fragment in dataset.source.fragments:
        assert dataset.source.read(fragment, ["z", "a"]).schema["a"] == expected.schema["a"]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("one", "other", "values"), REFUSED, ids=lambda v: str(v)[:24])
def test_refused(tmp_path, one, other, values, place):
    types = [one, one, one]
    types[place] = other
    write(tmp_path, [fill(t, values if t == one else None) for t in types])
    with pytest.raises(SchemaDriftError, match="column 'a'") as caught:
        Dataset(tmp_path)
    culprit = "1.parquet" if place == 0 else f"{place}.parquet"
    assert culprit in str(caught.value).split(";")[0]
    assert "expected" in str(caught.value)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["missing", "extra", "renamed"])
def test_other_columns_are_refused(tmp_path, kind, place):
    usual = pa.table({"price": [1], "b": [2]})
    odd = {
        "missing": pa.table({"b": [2]}),
        "extra": pa.table({"price": [1], "b": [2], "c": [3]}),
        "renamed": pa.table({"prize": [1], "b": [2]}),
    }[kind]
    write(tmp_path, [odd if i == place else usual for i in range(3)])
    with pytest.raises(SchemaDriftError) as caught:
        Dataset(tmp_path)
    assert ("1.parquet" if place == 0 else f"{place}.parquet") in str(caught.value)
    assert {"missing": "'price'", "extra": "'c'", "renamed": "did you mean"}[kind] in str(caught.value)


def test_order_of_columns_and_nullability(tmp_path):
    schema = pa.schema([pa.field("b", pa.int64(), nullable=False), pa.field("a", pa.int64(), nullable=False)])
    write(tmp_path, [pa.table({"a": [1], "b": [2]}), pa.table({"b": [20], "a": [10]}, schema=schema)])
    assert Dataset(tmp_path).to_polars().rows() == [(1, 2), (10, 20)]


def test_files_that_store_no_arrow_schema(tmp_path):
    for i, values in enumerate((pa.array([1, 2], pa.int64()), pa.array(["x", "y"]))):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{i}.parquet", store_schema=False)
    with pytest.raises(SchemaDriftError, match=r"'a' is string in .*1\.parquet"):
        Dataset(tmp_path)


def test_zero_row_files_take_part_in_the_check(tmp_path):
    write(tmp_path, [pa.table({"a": [1]}), pa.table({"a": pa.array([], pa.string())})])
    with pytest.raises(SchemaDriftError, match=r"1\.parquet"):
        Dataset(tmp_path)


def test_differing_pandas_metadata_is_no_drift(tmp_path):
    for i in range(3):
        table = pa.table({"a": [i]}).replace_schema_metadata({"pandas": f'{{"stop": {i}}}'})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    assert Dataset(tmp_path).num_rows == 3


def test_the_result_does_not_depend_on_the_order(tmp_path):
    kinds = [pa.uint32(), pa.int32(), pa.float64()]
    for n, order in enumerate(itertools.permutations(kinds)):
        (tmp_path / str(n)).mkdir()
        write(tmp_path / str(n), [pa.array([1, 2], t) for t in order])
        assert Dataset(tmp_path / str(n)).schema["a"].dtype == "float64"


def test_widest_never_loses_a_value():
    """Every accepted pair holds the extremes of both types exactly."""
    ints = [pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64()]
    for a, b in itertools.product([*ints, pl.Float32(), pl.Float64()], ints):
        wide = widest(a, b)
        assert wide == widest(b, a)
        if wide is not None:
            low, high = (pl.select(edge).item() for edge in (b.min(), b.max()))
            for value in (low, high, high - 1):
                cast = pl.Series([value], dtype=b).cast(wide)
                assert int(cast[0]) == value
