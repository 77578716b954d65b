"""The same rows in the same order, byte for byte, in every framework: from files, seed and epoch; resumed; by rank."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import make_table, write_files
from tests.loader.parity_worker import digests

ROOT = Path(__file__).parent.parent.parent
RUNS = {
    "tensorflow": ["tensorflow", "tensorflow-sequence", "keras", "keras-sequence"],
    "torch": ["keras", "keras-sequence"],
    "jax": ["keras", "keras-sequence", "jax"],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity") / "table"
    write_files(folder, make_table(5017), row_group=250)
    return folder


@pytest.fixture(scope="module")
def expected(table):
    found = digests("torch", table)
    assert found["epoch 0"][0] == 51 and found["epoch 0"] != found["epoch 1"]
    assert found["resumed"][0] == 34
    return found


@pytest.mark.parametrize("backend", RUNS)
def test_rows_are_those_of_torch(backend, table, expected):
    found = subprocess.run(
        [sys.executable, "-m", "tests.loader.parity_worker", ",".join(RUNS[backend]), str(table)],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert found.returncode == 0, found.stderr[-4000:]
    for name, each in json.loads(found.stdout.splitlines()[-1]).items():
        assert each == expected, f"{name} on {backend}"
