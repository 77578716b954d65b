"""What is not installed is named, with the extra that brings it."""

import subprocess
import sys

import pytest

import rowmill
from rowmill.errors import MissingExtraError

WANTED = "needs tensordict; pip install 'rowmill[tensordict]'"
USES = {
    "the module": "import rowmill.loader.tensordict",
    "batch_format": "from rowmill.loader.torch import Loader\n"
    "next(iter(Loader({'a': [1, 2]}, 2, batch_format='tensordict')))",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_without_tensordict_the_extra_is_named(use):
    code = f"import sys; sys.modules['tensordict'] = None\n{use}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("ImportError: rowmill.loader.tensordict")
    assert WANTED in done.stderr


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(MissingExtraError, match=r"to_ddf needs Dask.*pip install 'rowmill\[dask\]'"):
        rowmill.Dataset({"a": [1, 2]}).to_ddf()
