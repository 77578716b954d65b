"""Many threads transform at once, interrupts come at any moment, functions fail: no deadlock, and the error itself.

Everything that could hang runs in a child process with a time limit.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time

import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import RowmillError, TransformError
from tests.counts import hostile

ROOT = os.getcwd()
PRELUDE = f"""
import sys, threading, time, faulthandler
sys.path.insert(0, {ROOT!r})
faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
import numpy as np, pandas as pd, polars as pl, pyarrow as pa
from rowmill import Dataset, Workflow, ops
from tests.ops.samples import SAMPLES, table
"""


def child(code, timeout=60):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(timeout - 5)],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


MANY_THREADS = """
    def shout(column):
        return column.str.upper()

    def join(column, frame):
        return column + frame["s"]

    strings = (["s"] >> ops.LambdaOp(shout)) + (["t"] >> ops.LambdaOp(join, dependency=["s"]))
    others = (["s"] >> ops.Categorify() >> ops.Rename(postfix="_c")) + (["x"] >> ops.Normalize())
    others = others + (["s"] >> ops.Expr(n=pl.col("s").str.len_chars()))
    others = others + (["s"] >> ops.HashBucket(10) >> ops.Rename(postfix="_h"))
    def rows(n):
        return pl.DataFrame({"s": [f"word {i % 97}" for i in range(n)], "t": ["t"] * n, "x": np.arange(n) / 3})
    workflow = Workflow(strings + others).fit(rows(1000))
    for size in SIZES:
        frame = rows(size)
        given = [frame, frame.to_pandas(), frame.to_arrow(), frame.to_dict(as_series=False)]
        if size <= 10_000:
            given.append(frame.to_dicts())
        wanted = workflow.transform(frame)
        failed = []
        def work(number):
            for turn in range(ROUNDS):
                data = given[(number + turn) % len(given)]
                made = workflow.transform(data)
                made = pl.from_pandas(made) if isinstance(made, pd.DataFrame) else pl.DataFrame(made)
                if made.height != size or made["x"].cast(pl.Float32).to_list() != wanted["x"].to_list():
                    failed.append((number, turn))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not failed, failed
    print("done")
"""


def test_transform_from_many_threads():
    sizes, rounds = hostile(1, 2), hostile(3, 20)
    settings = f"SIZES = {[10, 10_000, 100_000][: sizes + 1]}; ROUNDS = {rounds}\n"
    assert child(settings + textwrap.dedent(MANY_THREADS), timeout=600) == "done\n"


def test_daskss_threaded_scheduler():
    code = """
        def shout(column):
            return column.str.upper()
        frame = pl.DataFrame({"s": [f"word {i % 97}" for i in range(40_000)], "x": np.arange(40_000) / 3})
        workflow = Workflow((["s"] >> ops.LambdaOp(shout)) + (["x"] >> ops.Normalize())).fit(frame)
        for _ in range(ROUNDS):
            made = workflow.transform(Dataset(frame, npartitions=8)).to_ddf().compute(scheduler="threads")
            assert made["s"].tolist() == [f"WORD {i % 97}" for i in range(40_000)]
        print("done")
    """
    assert child(f"ROUNDS = {hostile(3, 15)}\n" + textwrap.dedent(code), timeout=600) == "done\n"


def test_every_operator_from_many_threads():
    code = """
        from concurrent.futures import ThreadPoolExecutor
        frame = table(2000)
        for name in NAMES:
            workflow = Workflow(SAMPLES[name]).fit(frame)
            wanted = workflow.transform(frame)
            with ThreadPoolExecutor(6) as pool:
                for made in pool.map(lambda _: workflow.transform(frame), range(ROUNDS)):
                    assert made.equals(wanted), name
        print("done")
    """
    from tests.ops.samples import SAMPLES

    names = [name for place, name in enumerate(SAMPLES) if place % hostile(3, 1) == 0]
    assert child(f"NAMES = {names!r}; ROUNDS = {hostile(6, 30)}\n" + textwrap.dedent(code), timeout=600) == "done\n"


def interrupted(code, *, after=1.0, within=2.0):
    """A child that is sent SIGINT a while after it says that it is ready: what it printed, and how long it took."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), "55"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    time.sleep(after)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err[-3000:]
    assert time.monotonic() - start < within + 1.0, err[-2000:]  # the rest is the child's own end
    return out


SLOW = {
    "a loop": "end = time.monotonic() + 30\n        while time.monotonic() < end: sum(range(1000))",
    "sleeps": "[time.sleep(0.05) for _ in range(600)]",
    "a long sleep": "time.sleep(30)",
}


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("what", ["transform", "fit", "fit with threads"])
def test_an_interrupt_comes_through(kind, what):
    body = f"""
    def slow(column):
        if not len(column): return column
        if READY:
            print("ready", flush=True); READY.clear()
        {SLOW[kind]}
        return column
    """
    run = {
        "transform": "Workflow(['x'] >> ops.LambdaOp(slow)).transform(frame)",
        "fit": "Workflow(['x'] >> ops.LambdaOp(slow) >> ops.Normalize()).fit(frame, threads=1)",
        "fit with threads": "Workflow(['x'] >> ops.LambdaOp(slow) >> ops.Normalize()).fit("
        "Dataset(frame, npartitions=4), threads=2)",
    }[what]
    code = textwrap.dedent(body) + textwrap.dedent(f"""
    READY = {{1}}
    frame = pl.DataFrame({{"x": np.arange(1000) / 7}})
    try:
        {run}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        import os
        os._exit(0)
    """)
    assert interrupted(code, after=0.5) == "interrupted\n"


class UnusualError(Exception):
    """An error with several arguments, as libraries have them."""


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), UnusualError(1, "two"), ValueError("mine"), KeyError("k")]
)
@pytest.mark.parametrize("rows", [3, 5_000])
def test_an_error_of_a_function_comes_out_as_it_is(error, rows):
    def fails(column):
        if len(column):
            raise error
        return column

    frame = pl.DataFrame({"x": range(rows), "s": ["a"] * rows})
    for node in (["x", "s"] >> ops.LambdaOp(fails), ["x"] >> ops.Filter(fails)):
        with pytest.raises(type(error)) as found:
            Workflow(node).transform(frame)
        assert found.value is error
    with pytest.raises(type(error)) as found:
        Workflow(["x"] >> ops.LambdaOp(fails) >> ops.Normalize()).fit(Dataset(frame, npartitions=3), threads=3)
    assert found.value is error


def test_a_panic_of_polars_is_an_error_of_ours():
    def panics(column):
        raise pl.exceptions.PanicException("as Polars does")

    frame = pl.DataFrame({"x": [1, 2]})
    workflow = Workflow(["x"] >> ops.LambdaOp(panics, dtype="int64"))
    with pytest.raises(TransformError, match="as Polars does"):
        workflow.transform(frame)
    with pytest.raises(RowmillError):
        Workflow(["x"] >> ops.Expr(pl.col("x").cast(pl.String).str.to_integer(base=pl.lit(99)).alias("y"))).transform(
            frame
        )


def test_functions_run_on_the_calling_thread():
    import threading

    seen = set()

    def look(column):
        seen.add(threading.get_ident())
        return column

    frame = pl.DataFrame({name: range(50_000) for name in "abcdef"})
    Workflow(list("abcdef") >> ops.LambdaOp(look)).transform(frame)
    assert seen == {threading.get_ident()}
