"""A process that is forked after a query has run gets an error where the next query would never end."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.conftest import make_table

PROGRAM = textwrap.dedent("""
    import os, sys
    import polars as pl
    import rowmill
    from rowmill import Workflow, ops
    from rowmill.loader.torch import Loader

    data = rowmill.Dataset(sys.argv[1])
    made = Workflow((["cat_a"] >> ops.Categorify()) + ["x1"])
    frame = pl.DataFrame({"cat_a": [1, 2], "x1": [0.5, 1.5]})
    works = {
        "fit": lambda: made.fit(data),
        "transform": lambda: made.transform(frame),
        "to_polars": lambda: data.to_polars(),
        "head": lambda: data.head(),
        "loader": lambda: next(iter(Loader(data, 10))),
        "to_parquet": lambda: data.to_parquet(sys.argv[1] + "-copy"),
    }
    if sys.argv[2] == "after":
        made.fit(data)
    else:
        works = {"fit": works["fit"], "to_polars": works["to_polars"]}
    for name, work in works.items():
        pid = os.fork()
        if pid == 0:
            try:
                work()
                print(name, "done", flush=True)
            except BaseException as error:
                print(name, type(error).__name__, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
""")


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are not listed here")
@pytest.mark.parametrize("when", ["after", "before"])
def test_a_forked_process(tmp_path, when):
    make_table(100).write_parquet(tmp_path / "a.parquet")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a.parquet"), when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    names = (
        ["fit", "transform", "to_polars", "head", "loader", "to_parquet"] if when == "after" else ["fit", "to_polars"]
    )
    wanted = "ForkedError" if when == "after" else "done"
    assert done.stdout.split("\n")[:-1] == [f"{name} {wanted}" for name in names], done.stderr[-2000:]
