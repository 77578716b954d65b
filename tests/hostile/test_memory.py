"""The memory setting bounds the resident memory, whatever the table looks like; measured in child processes.

Tables of some megabytes that take gigabytes once decoded: see `memory.py`. The full run takes two hours.
"""

import itertools
import json
import subprocess
import sys

import pytest

from tests.counts import HOSTILE
from tests.hostile.memory import TABLES

SMALL = [
    ("skewed texts", "fit", 200),
    ("skewed texts", "map", 200),
    ("lists of 100,000", "shuffled", 200),
    ("long lists last", "store", 200),
    ("wide", "ordered", 200),
]
WITH_LISTS = {
    "skewed lists",
    "skewed lists in one group",
    "long lists last",
    "lists of 100,000",
    "short lists",
    "run-length lists",
    "lists and texts",
}
WITH_TEXTS = {"skewed texts", "skewed texts of Polars", "large texts", "lists and texts", "blobs"}


def cases():
    if not HOSTILE:
        return SMALL
    every = itertools.product(TABLES, ("shuffled", "ordered", "fit", "store", "map"), (200, 400, 1_000))
    refused = {"store": WITH_TEXTS, "map": WITH_LISTS}  # a store holds no strings, a row of tensors no lists
    return [case for case in every if case[0] not in refused.get(case[1], ())]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("table", "consumer", "megabytes"), cases())
def test_resident_memory(tmp_path_factory, tried, table, consumer, megabytes):
    folder = tmp_path_factory.getbasetemp() / "memory"
    folder.mkdir(exist_ok=True)
    scale = "1.0" if HOSTILE else "0.25"
    command = [
        sys.executable,
        "-m",
        "tests.hostile.memory",
        str(folder),
        table,
        consumer,
        str(megabytes * 10**6),
        scale,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{table}, {consumer}, {megabytes} MB: {found['over'] / 1e6:.0f} MB over the baseline")
    tried("tables read with their memory measured")
    if consumer != "map":  # which looks at 200 rows
        assert found["rows"] == found["wanted"]
    assert found["over"] <= 1.25e6 * megabytes, f"{found['over'] / 1e6:.0f} MB over the baseline"
