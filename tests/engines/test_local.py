"""Threads of this process: progress, errors, and threads that are gone afterwards."""

import os
import pty
import subprocess
import sys
import threading

import numpy as np
import pytest

from rowmill import Dataset, Workflow, ops


def data(pieces=20):
    return Dataset({"x": np.arange(20_000) % 77, "y": np.arange(20_000) / 3}, npartitions=pieces)


PROGRAM = """
import numpy as np
from rowmill import Dataset, Workflow, ops
data = Dataset({"x": np.arange(20_000)}, npartitions=20)
Workflow(["x"] >> ops.Normalize()).fit(data, progress=%s)
"""


def on_a_terminal(program):
    """What a program writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert child.wait(60) == 0
    return seen.decode()


def test_a_bar_on_a_terminal_only(capfd):
    assert "fitting" in on_a_terminal(PROGRAM % "None")
    assert on_a_terminal(PROGRAM % "False") == ""
    Workflow(["x"] >> ops.Normalize()).fit(data())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_as_it_is_and_ends_all_threads(threads):
    def fails(column):
        if (column > 70).any():
            raise LookupError("no such luck")
        return column

    workflow = Workflow(["x"] >> ops.LambdaOp(fails, dtype="int64") >> ops.Normalize())
    with pytest.raises(LookupError, match="no such luck"):
        workflow.fit(data(), threads=threads)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rowmill-fit")]
    assert not workflow.fitted


def test_fitting_again_forgets_the_first_time():
    normalize = ops.Normalize()
    workflow = Workflow(["x"] >> normalize).fit({"x": [1.0, 3.0]})
    assert normalize.means == {"x": 2.0}
    workflow.fit({"x": [10.0, 30.0]})
    assert normalize.means == {"x": 20.0}
    assert workflow.transform({"x": 20.0}) == {"x": 0.0}


def test_one_pass_for_each_phase():
    """However many statistics there are, the data are read once for each phase."""

    class Counted:
        def __init__(self, source):
            self.source, self.reads = source, 0

        def __getattr__(self, name):
            return getattr(self.source, name)

        def read(self, fragment, columns):
            self.reads += 1
            return self.source.read(fragment, columns)

    table = data(pieces=10)
    table.source = Counted(table.source)
    node = (
        (["x"] >> ops.Categorify())
        + (["x", "y"] >> ops.FillMedian() >> ops.Normalize())
        + (["y"] >> ops.NormalizeMinMax())
    )
    Workflow(node).fit(table, memory="1GB", threads=1)
    assert table.source.reads <= 2 * len(table.source.fragments) + 2  # and a look at the widths
