"""The memory setting bounds the resident memory, whatever the table looks like; measured in child processes.

Tables of some megabytes that take gigabytes once decoded: see `memory.py`. The full run takes an hour.
"""

import itertools
import json
import subprocess
import sys

import pytest

from tests.hostile.counts import FULL
from tests.hostile.memory import TABLES

SMALL = [("skewed texts", "shuffled", 200), ("lists of 100,000", "shuffled", 200), ("wide", "ordered", 400)]


def cases():
    if not FULL:
        return SMALL
    with_texts = {"skewed texts", "skewed texts of Polars", "large texts", "lists and texts", "blobs"}
    every = itertools.product(TABLES, ("shuffled", "ordered", "fit", "store"), (200, 400, 1_000))
    return [case for case in every if not (case[1] == "store" and case[0] in with_texts)]  # no strings in a store


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("table", "consumer", "megabytes"), cases())
def test_resident_memory(tmp_path_factory, table, consumer, megabytes):
    folder = tmp_path_factory.getbasetemp() / "memory"
    folder.mkdir(exist_ok=True)
    scale = "1.0" if FULL else "0.4"
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
    if done.returncode and "MemoryLimitError" in done.stderr:
        return  # what cannot be bounded is an error that says so
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == found["wanted"]
    assert found["over"] <= 1.25e6 * megabytes, f"{found['over'] / 1e6:.0f} MB over the baseline"
