"""Whatever is written to Parquet comes out bit for bit, beside nulls too, or is refused by name."""

import datetime
import decimal
import math

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rowmill
from rowmill.errors import DtypeError
from rowmill.loader.torch import Loader

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]


@st.composite
def columns(draw):
    """A few columns of numbers, extremes and nulls among them, and how they are cut into files and batches."""
    rows = draw(st.integers(1, 40))
    made = {}
    for number in range(draw(st.integers(1, 6))):
        dtype = draw(st.sampled_from(INTEGERS + FLOATS + ["bool"]))
        if dtype in INTEGERS:
            info = np.iinfo(dtype)
            edge = st.sampled_from([info.min, info.max, 0, min(2**53 + 1, info.max), min(2**24 + 1, info.max)])
            value = st.integers(int(info.min), int(info.max)) | edge
        elif dtype == "bool":
            value = st.booleans()
        else:
            value = st.floats(width=int(dtype[-2:]))
        values = draw(st.lists(st.none() | value, min_size=rows, max_size=rows))
        made[f"c{number}"] = (dtype, values)
    return made, draw(st.integers(1, 20)), draw(st.integers(1, 15)), draw(st.booleans())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns())
def test_values_survive_bit_for_bit(tmp_path_factory, drawn):
    made, row_group, batch, shuffle = drawn
    path = tmp_path_factory.mktemp("values") / "t.parquet"
    table = pa.table(
        {
            name: pa.array(values, getattr(pa, dtype.replace("bool", "bool_"))())
            for name, (dtype, values) in made.items()
        }
    )
    rows = table.num_rows
    pq.write_table(table.append_column("row", pa.array(range(rows))), path, row_group_size=row_group)
    seen = []
    for features, _ in Loader(rowmill.Dataset(path), batch, shuffle=shuffle, nulls="mask", memory="1MB"):
        for i, row in enumerate(features["row"].tolist()):
            seen.append(row)
            for name, (dtype, values) in made.items():
                expected, found = values[row], features[name][i]
                assert str(found.dtype) == f"torch.{dtype}"
                assert features[name + "__null"][i].item() == (expected is None)
                if expected is None:
                    continue
                if dtype in FLOATS:
                    same = np.array(expected, dtype).tobytes() == found.numpy().tobytes()
                    assert same or (math.isnan(expected) and math.isnan(found.item()))
                else:
                    assert found.item() == expected
    assert sorted(seen) == list(range(rows))


NOW = datetime.datetime(2026, 11, 15, 1, 2, 3)
EXACT = {
    "int8": (pa.int8(), -5, -5),
    "uint64": (pa.uint64(), 2**64 - 1, 2**64 - 1),
    "float16": (pa.float16(), np.float16(0.5), 0.5),
    "float64": (pa.float64(), 0.1, 0.1),
    "bool": (pa.bool_(), True, True),
    "date32": (pa.date32(), NOW.date(), 20_772),
    "timestamp s": (pa.timestamp("s"), NOW, None),
    "timestamp ms": (pa.timestamp("ms"), NOW, None),
    "timestamp us": (pa.timestamp("us"), NOW, None),
    "timestamp ns": (pa.timestamp("ns"), NOW, None),
    "timestamp tz": (pa.timestamp("us", "UTC"), NOW.replace(tzinfo=datetime.UTC), None),
    "time32": (pa.time32("s"), datetime.time(0, 0, 2), 2 * 10**9),
    "time64": (pa.time64("us"), datetime.time(0, 0, 2), 2 * 10**9),
    "duration": (pa.duration("us"), datetime.timedelta(seconds=3), 3 * 10**6),
    "dictionary of ints": (pa.dictionary(pa.int8(), pa.int64()), 2**40, 2**40),
    "string": (pa.string(), "x", "x"),
    "large_string": (pa.large_string(), "x", "x"),
    "string_view": (pa.string_view(), "x", "x"),
    "dictionary of strings": (pa.dictionary(pa.int32(), pa.string()), "x", "x"),
    "binary": (pa.binary(), b"x", b"x"),
    "fixed binary": (pa.binary(2), b"xy", b"xy"),
    "list": (pa.list_(pa.int16()), [1, 2], [1, 2]),
    "large_list": (pa.large_list(pa.float32()), [1.5, 2.5], [1.5, 2.5]),
    "fixed list": (pa.list_(pa.int32(), 2), [3, 4], [3, 4]),
    "list of bools": (pa.list_(pa.bool_()), [True, False], [1, 0]),
}
REFUSED = {
    "decimal128": (pa.decimal128(10, 2), decimal.Decimal("1.25")),
    "decimal256": (pa.decimal256(40, 2), decimal.Decimal("1.25")),
    "struct": (pa.struct([("a", pa.int64())]), {"a": 1}),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    "list of lists": (pa.list_(pa.list_(pa.int64())), [[1], [2]]),
    "list of strings": (pa.list_(pa.string()), ["a"]),
    "null": (pa.null(), None),
}


def dataset(tmp_path, kind, value):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": pa.array([value] * 3, kind), "x": pa.array([1, 2, 3])}), path)
    return rowmill.Dataset(path)


@pytest.mark.parametrize("name", EXACT)
def test_arrow_types_that_come_out_exact(tmp_path, name):
    kind, value, expected = EXACT[name]
    if expected is None:
        units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
        moment = value.replace(tzinfo=datetime.UTC).timestamp()
        unit = "ms" if kind.unit == "s" else kind.unit  # Parquet has no seconds
        expected = int(moment) * units[unit]
    features, _ = next(iter(Loader(dataset(tmp_path, kind, value), 3)))
    if "c__values" in features:
        assert features["c__values"].tolist() == expected * 3 and features["c__offsets"].tolist() == [0, 2, 4, 6]
    else:
        assert features["c"].tolist() == [expected] * 3


@pytest.mark.parametrize("name", REFUSED)
def test_arrow_types_that_are_refused_by_name(tmp_path, name):
    kind, value = REFUSED[name]
    data = dataset(tmp_path, kind, value)
    with pytest.raises(DtypeError, match=r"column 'c' is .*no tensor holds exactly"):
        Loader(data, 3)
    assert next(iter(Loader(data, 3, columns=["x"])))[0]["x"].tolist() == [1, 2, 3]
    if name != "decimal256":  # more digits than Polars has room for
        assert data.to_polars().height == 3


def test_a_frame_of_every_numeric_polars_type():
    frame = pl.DataFrame(
        {str(t): pl.Series([0, 1], dtype=t) for t in (pl.Int8, pl.UInt16, pl.UInt32, pl.Float16, pl.Float64)}
    )
    features, _ = next(iter(Loader(rowmill.Dataset(frame), 2)))
    assert all(column.tolist() == [0, 1] for column in features.values())
