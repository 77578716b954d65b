import pytest

from rowmill.cli.bench import CEILING, OURS, limit
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
    assert limit(paces(ours, busy)).startswith(told)
