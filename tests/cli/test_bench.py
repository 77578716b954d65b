import polars as pl
import pytest

from rowmill.cli.bench import CEILING, OURS, costly, limit
from rowmill.dataset import Dataset
from rowmill.sizes import cores
from rowmill.tools.pace import Pace


def paces(ours, busy):
    """Decoding at 100 rows a second, with this share of the cores, and Rowmill at `ours`."""
    return {CEILING: Pace(100, 1.0, busy * cores()), OURS: Pace(ours, 1.0, 0.9 * cores())}


@pytest.mark.parametrize(
    ("ours", "busy", "told"),
    [
        (90, 0.9, "Decoding limits, by the processor: Rowmill reaches 90%"),
        (90, 0.2, "Decoding limits, by storage: Rowmill reaches 90%"),
        (30, 0.9, "Shuffling and packing limit: Rowmill reaches 30%"),
    ],
)
def test_it_says_what_limits(ours, busy, told):
    assert limit(paces(ours, busy), costly=True).startswith(told)


def test_text_and_lists_are_named_only_where_they_are():
    assert "Text and lists cost most" in limit(paces(30, 0.9), costly=True)
    assert "Text" not in limit(paces(30, 0.9), costly=False) and "--columns" in limit(paces(30, 0.9), costly=False)


def test_costly_columns_are_text_and_lists():
    assert not costly(Dataset({"a": [1], "b": [1.5]}).schema, ["a", "b"])
    schema = Dataset(pl.DataFrame({"a": [1], "s": ["x"], "l": [[1]]})).schema
    assert costly(schema, ["a", "s"]) and costly(schema, ["l"]) and not costly(schema, ["a"])
