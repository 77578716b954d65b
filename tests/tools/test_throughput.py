import polars as pl

import rowmill
from rowmill.tools import throughput
from tests.conftest import write_files


def test_rows_are_counted_as_they_come(folder):
    data, told = rowmill.Dataset(folder), []
    found = throughput.decode(data, ["id"], seconds=0.3, passed=told.append)
    assert found.rows > 1003 and found.seconds >= 0.3 and found.rows_per_second == found.rows / found.seconds
    assert sum(told) == int(10 * found.seconds) or sum(told) == 3
    assert throughput.rowmill(data, ["id", "x1"], 100, seconds=0.0, passed=told.append).rows == 100
    assert throughput.stock(data, ["id", "x1"], 100, seconds=0.0, passed=told.append).rows == 100


def test_the_stock_loader_takes_numbers_only(tmp_path):
    write_files(tmp_path, pl.DataFrame({"s": ["a", None], "n": [True, None], "x": [None, 0.5]}), files=1)
    data = rowmill.Dataset(tmp_path)
    assert throughput.stock(data, ["s"], 2, seconds=0.0, passed=lambda tenths: None) is None
    assert throughput.stock(data, ["s", "n", "x"], 2, seconds=0.0, passed=lambda tenths: None).rows == 2
