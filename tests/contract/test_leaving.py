"""Promise 3: leave in any way and nothing is left behind: no thread, no open file, no message."""

import gc
import os
import random
import subprocess
import sys
import textwrap
import time

import pytest

import rowmill
from rowmill.loader.torch import TorchAsyncItr
from tests.conftest import feed_threads, make_table, write_files
from tests.counts import THOROUGH, thorough

TIMES = thorough(60, 400)


@pytest.fixture
def table(tmp_path):
    write_files(tmp_path, make_table(20_000), files=4, row_group=500)
    return tmp_path


def itr(folder):
    return TorchAsyncItr(
        rowmill.Dataset(folder), ["id"], ["x1"], ["label"], batch_size=100, shuffle=True, memory="200KB", threads=3
    )


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_breaks_at_random_moments(table, tried):
    loader, rng = itr(table), random.Random(0)
    list(loader)
    before = open_files()
    for _ in range(TIMES):
        stop = rng.randrange(200)
        for number, _ in enumerate(loader):
            if number == stop:
                break
        assert not feed_threads()
    assert open_files() <= before
    tried("breaks out of a loop", TIMES)


def test_errors_in_the_loop_body(table, tried):
    loader, rng = itr(table), random.Random(1)
    for _ in range(TIMES):
        stop = rng.randrange(200)
        with pytest.raises(ZeroDivisionError):
            for number, _ in enumerate(loader):
                if number == stop:
                    _ = 1 / 0
        assert not feed_threads()
    tried("errors in the body of a loop", TIMES)


def test_forgotten_iterators_are_collected(table):
    loader = itr(table)
    for _ in range(thorough(5, 40)):
        batches = iter(loader)
        next(batches)
        cycle = [batches]
        cycle.append(cycle)
        del batches, cycle
        gc.collect()
        deadline = time.monotonic() + 2
        while feed_threads() and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not feed_threads()


def test_an_iterator_never_started_starts_no_thread(table):
    batches = iter(itr(table))
    assert not feed_threads()
    del batches


@pytest.mark.alone
def test_closing_is_quick_while_a_slow_consumer_holds_everything_up(table):
    batches = iter(itr(table))
    next(batches)
    time.sleep(0.2)  # the window is full, all threads wait for room
    started = time.perf_counter()
    batches.close()
    assert time.perf_counter() - started < 0.5
    assert not feed_threads()


SCRIPT = textwrap.dedent("""
    import sys, time, threading
    import rowmill
    from rowmill.loader.torch import TorchAsyncItr
    data = rowmill.Dataset(sys.argv[1])
    loader = TorchAsyncItr(data, ["id"], ["x1"], ["label"], batch_size=100, shuffle=True, memory="200KB")
    next(iter(loader))
    print("ready", flush=True)
    held = []
    while True:
        batches = iter(loader)
        held = [batches]
        for number, batch in enumerate(batches):
            if sys.argv[2] == "exit" and number == int(sys.argv[3]):
                sys.exit(0)
            if sys.argv[2] == "interrupt":
                time.sleep(0.001)
""")


def run(table, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(table), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [0, 3, 50, 120, 199] if THOROUGH else [0, 120])
def test_the_interpreter_exits_quietly_with_an_iterator_in_hand(table, number):
    child = run(table, "exit", str(number))
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, "ready\n", "")


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.11, 0.23] if THOROUGH else [0.0, 0.11])
def test_control_c(table, delay):
    import signal

    child = run(table, "interrupt")
    assert child.stdout.readline() == "ready\n"
    time.sleep(delay)
    child.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, err = child.communicate(timeout=60)
    assert time.monotonic() - started < 10
    assert child.returncode != 0
    assert err.strip().endswith("KeyboardInterrupt")
    assert err.count("Traceback") == 1, err


def test_a_full_queue_costs_no_cpu(table):
    batches = iter(itr(table))
    next(batches)
    time.sleep(0.3)
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before < 0.05
    batches.close()
