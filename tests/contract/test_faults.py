"""Faults at random moments, hundreds of each kind."""

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import rowmill
from rowmill.errors import ForkedError
from rowmill.loader.torch import Loader, TorchAsyncItr
from tests.conftest import feed_threads, make_table, write_files
from tests.counts import thorough

TIMES = thorough(60, 400)
pytestmark = pytest.mark.timeout(thorough(300, 1800))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    write_files(folder, make_table(6000), files=3, row_group=250)
    return folder


def itr(folder, **settings):
    settings = {"batch_size": 50, "shuffle": True, "memory": "100KB", "threads": 3, **settings}
    return TorchAsyncItr(rowmill.Dataset(folder), ["id"], ["x1"], ["label"], **settings)


def gone(seconds: float = 1.0) -> bool:
    deadline = time.monotonic() + seconds
    while feed_threads() and time.monotonic() < deadline:
        time.sleep(0.0005)
    return not feed_threads()


STAGES = ["read", "prepare", "places", "copy", "tensors"]
KINDS = [ValueError, OSError, MemoryError, SystemExit, KeyboardInterrupt, GeneratorExit]


@pytest.mark.alone
def test_any_error_at_any_stage_reaches_the_loop_within_a_second(table, monkeypatch, tried):
    """The real pipeline, with one call of one stage replaced by a failure, at a random moment."""
    from rowmill.feed.order import plan
    from rowmill.feed.pack import pack_columns, selection
    from rowmill.feed.run import pipeline
    from rowmill.sources.parquet.parquet_source import ParquetSource

    targets = {
        "read": (ParquetSource, "read"),
        "prepare": (selection.Selection, "prepare"),
        "places": (plan.Chunk, "places"),
        "copy": (pack_columns.Columns, "copy_rows"),
        "tensors": (pipeline.ChunkBuffer, "batch"),
    }
    rng, count, slowest = random.Random(0), 0, 0.0
    for number in range(TIMES + 40):
        stage, kind = rng.choice(STAGES), rng.choice(KINDS)
        owner, name = targets[stage]
        original, calls = getattr(owner, name), iter(range(10**6))
        when, error = rng.randrange({"places": 2, "tensors": 100}.get(stage, 20)), kind("deliberate")
        failed_at = []

        def broken(*args, original=original, calls=calls, when=when, error=error, failed_at=failed_at, **kwargs):
            if next(calls) == when:
                failed_at.append(time.perf_counter())
                raise error
            return original(*args, **kwargs)

        loader = itr(table, shuffle=number % 2 == 0)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            with pytest.raises(kind) as raised:
                for _ in loader:
                    pass
        slowest = max(slowest, time.perf_counter() - failed_at[0])
        assert raised.value is error
        if stage != "tensors":
            assert any(".parquet, row group" in note for note in error.__notes__)
        assert gone()
        count += 1
    assert slowest < 1.0
    print(f"{count} errors, the slowest raised after {slowest:.3f} s")
    tried("errors at random stages of a feed", count)


def test_garbage_collection(table, tried):
    loader, rng = itr(table), random.Random(2)
    gc.disable()
    try:
        for _ in range(TIMES):
            batches = iter(loader)
            for _ in range(rng.randrange(60)):
                next(batches)
            cycle = [batches]
            cycle.append(cycle)
            del batches, cycle
            gc.collect(1)
            assert gone()
    finally:
        gc.enable()
    tried("iterators collected as garbage", TIMES)


def test_signals(table, tried):
    """Real signals: a timer interrupts the loop at a random moment."""
    loader, rng = itr(table), random.Random(3)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    files = len(os.listdir("/proc/self/fd"))
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(TIMES):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.08))
                while True:
                    for _ in loader:
                        pass
            assert gone()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(os.listdir("/proc/self/fd")) <= files + 1
    tried("signals in a loop", TIMES)


def test_no_code_runs_where_an_interrupt_would_be_lost(table):
    """An exception in a callback of a weak reference is printed and forgotten, Ctrl-C as well."""
    loader, found = itr(table), []

    def called(frame, event, argument):
        if event == "call" and "weakref" in frame.f_code.co_filename and frame.f_code.co_name == "_remove":
            found.append(frame.f_back.f_code.co_name)

    sys.setprofile(called)
    try:
        for _ in range(3):
            for _ in loader:
                pass
    finally:
        sys.setprofile(None)
    assert not found


def test_forks(table, tried):
    """A child that uses the iterator it inherited is told so; a child that just ends does so; the parent goes on."""
    rng, forks = random.Random(4), 0
    expected = [batch[0].flatten().tolist() for batch in itr(table)]
    while forks < TIMES:
        loader = itr(table)
        found = []
        batches = iter(loader)
        for batch in batches:
            found.append(batch[0].flatten().tolist())
            if rng.random() < 0.3 and forks < TIMES:
                forks += 1
                child = os.fork()
                if child == 0:
                    code = 1
                    try:
                        next(batches)
                    except ForkedError:
                        code = 0
                    finally:
                        os._exit(code)
                deadline = time.monotonic() + 10
                while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
                    assert time.monotonic() < deadline, "the child hangs"
                    time.sleep(0.0005)
                assert os.waitstatus_to_exitcode(ended[1]) == 0
        assert found == expected
    tried("forks in a loop", forks)


EXIT = textwrap.dedent("""
    import os, sys
    import pyarrow.parquet
    import rowmill
    import rowmill.sources.parquet.parquet_source
    from rowmill.feed.pack.selection import Selector
    from rowmill.feed.run.stream import Stream

    def leave_in_the_middle(batches):
        data = rowmill.Dataset(sys.argv[1])
        selector = Selector(data.schema)
        selector.native(["id", "x1"])
        stream = Stream(data, selector.selection(), batch_size=50, shuffle=True, memory="200KB", threads=3)
        iterator = stream.batches()
        for _ in range(batches):
            next(iterator)
        return iterator

    running = {}

    def one_has_ended():
        child, status = os.wait()
        assert status == 0, f"a child that stopped at batch {running[child]} failed"
        del running[child]

    for batches in map(int, sys.argv[2:]):  # the parent uses no decoder; every child is an interpreter that ends
        child = os.fork()
        if child == 0:
            held = leave_in_the_middle(batches)
            break
        running[child] = batches
        if len(running) == 3:
            one_has_ended()
    else:
        while running:
            one_has_ended()
""")


def test_interpreter_exit(table, tried):
    """The feed alone, without a framework whose import would take seconds."""
    rng = random.Random(5)
    moments = [str(rng.randrange(1, 120)) for _ in range(TIMES // 2)]
    found = subprocess.run(
        [sys.executable, "-c", EXIT, str(table), *moments], capture_output=True, text=True, timeout=thorough(280, 1700)
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    tried("interpreters that end in a loop", len(moments))


def test_a_hundred_epochs_grow_nothing(tmp_path):
    write_files(tmp_path, make_table(600), files=3, row_group=100)
    loader = Loader(rowmill.Dataset(tmp_path), 50, shuffle=True, memory="100KB")

    def measure():
        status = open("/proc/self/status").read()
        maps = sum(1 for _ in open("/proc/self/maps"))
        return int(status.split("VmRSS:")[1].split()[0]) / 1024, len(os.listdir("/proc/self/fd")), maps

    for _ in range(10):
        list(loader)
    gc.collect()
    rss, files, _ = measure()
    for _ in range(100):
        for _ in loader:
            pass
    gc.collect()
    rss_after, files_after, _ = measure()
    assert rss_after - rss < 5, f"{rss_after - rss:.1f} MB more"
    assert files_after <= files and not feed_threads()
