"""An interrupt that a library swallows still leaves the public call that it came in."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import polars as pl
import pytest

from rowmill import Workflow, ops
from rowmill._system.interrupts import KeepInterrupts, interruptible
from rowmill._system.threads import run_apart
from rowmill.loader.torch import Loader
from tests.conftest import make_table
from tests.counts import thorough


class InterruptsWhenDropped:
    """Ctrl-C inside of a destructor, where Python prints what is raised and goes on."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def swallow(*_):
    InterruptsWhenDropped()
    return 1


def swallow_and_fail(*_):
    swallow()
    raise TypeError("'<unprintable str object>' is not a Polars data type")


@pytest.mark.parametrize("function", [swallow, swallow_and_fail])
def test_a_swallowed_interrupt_is_raised_and_nothing_is_printed(function, capfd):
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        interruptible(function)()
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_inside_of_nested_calls_is_raised_once():
    seen = []

    @interruptible
    def outer():
        try:
            interruptible(swallow)()
        except KeyboardInterrupt:
            seen.append("inner")
            raise

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert seen == ["inner"]
    interruptible(len)("")  # and it is over


def test_other_errors_and_results_pass():
    assert interruptible(lambda: 5)() == 5
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)()


def test_the_users_own_handler_is_called_and_may_decide_not_to_raise():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    try:
        assert interruptible(swallow)() == 1
        assert calls == [1]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_process_without_a_python_handler_is_left_alone(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        with KeepInterrupts():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_left_alone():
    before, found = signal.getsignal(signal.SIGINT), []

    @interruptible
    def look():
        found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before]


def test_public_calls_keep_interrupts():
    table = make_table(100)
    with pytest.raises(KeyboardInterrupt):
        Workflow(["x1"] >> ops.LambdaOp(lambda column: (swallow(), column)[1])).fit(table).transform(table)
    loader = Loader(table, 10).map(lambda *batch: (swallow(), batch)[1])
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))


def test_polars_does_not_replace_an_interrupt_that_is_pending():
    """The case that was met: Polars asks for the name of a dtype, Python runs the handler there, Polars drops the
    exception and says that the dtype is unknown. Whatever Polars does, the call ends with KeyboardInterrupt."""
    program = """
import polars as pl
from rowmill._system.interrupts import interruptible

wide = pl.Struct({str(number): pl.Int64 for number in range(3_000)})

@interruptible
def convert():
    print("begun", flush=True)
    while True:
        pl.col("x").cast(wide)

while True:
    try:
        convert()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        found = set()
        for _ in range(thorough(100, 1_000)):
            assert child.stdout.readline() in ("begun\n", ""), child.stderr.read()
            time.sleep(0.003)
            child.send_signal(signal.SIGINT)
            found.add(child.stdout.readline())
        child.kill()
        assert (found, child.stderr.read()) == ({"interrupted\n"}, "")


def test_a_warning_names_the_line_of_the_user():
    table = pl.DataFrame({"x": [1.0, -1.0]})
    with pytest.warns(UserWarning, match="LogOp|NaN|-inf") as found:
        Workflow(["x"] >> ops.LogOp()).fit(table).transform(table)
    assert found[0].filename == __file__


def test_a_context_whose_end_is_interrupted_keeps_nothing_alive():
    before = signal.getsignal(signal.SIGINT)

    class Held:
        pass

    def work():
        held = Held()
        seen.append(weakref.ref(held))
        signal.raise_signal(signal.SIGINT)

    seen = []
    context = KeepInterrupts()
    try:
        context.__enter__()  # as if its end had been interrupted: it stays the handler
        with pytest.raises(KeyboardInterrupt) as found:
            work()
        del found
        gc.collect()
        assert seen[0]() is None
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = sys.__unraisablehook__


def test_what_runs_apart_ends_before_an_interrupt_is_raised():
    """Two signals while a folder is being removed: the thread that removes it is not left behind."""
    done = []

    def slow() -> None:
        time.sleep(0.6)
        done.append(True)

    signals = [threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)) for seconds in (0.1, 0.3)]
    for timer in signals:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_apart(slow)
    assert done == [True]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rowmill-apart")]
    for timer in signals:
        timer.join()
