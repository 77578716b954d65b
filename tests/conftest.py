"""What many tests share: small real Parquet folders, a watch for threads left behind, and the summary of a run."""

import collections
import fcntl
import gc
import itertools
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from rowmill.feed.run.pipeline import THREAD_NAME
from tests.counts import mode


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that run alone come last, so that the other processes wait for few of them."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


def pytest_collection_finish() -> None:
    """What was imported until now is left out of garbage collections, which took half a second each."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    """With several processes: a test that is marked `alone` runs while the others wait. Waiting is not part of its
    time limit."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    shared = item.config._tmp_path_factory.getbasetemp().parent
    alone = item.get_closest_marker("alone") is not None
    with (shared / "turn.lock").open("w") as turn, (shared / "room.lock").open("w") as room:
        fcntl.flock(turn, fcntl.LOCK_EX)  # who waits to be alone is overtaken by nobody
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        return (yield)


@pytest.fixture
def tried(record_property):
    """Call it with what was tried, and how often: the summary of the run adds it up."""

    def add(what: str, times: int = 1) -> None:
        record_property("tried", [what, times])

    return add


def pytest_terminal_summary(terminalreporter) -> None:
    """What the run covered."""
    calls = [r for of in terminalreporter.stats.values() for r in of if getattr(r, "when", None) == "call"]
    if not calls:
        return
    times: collections.Counter[str] = collections.Counter()
    for report in calls:
        for name, value in report.user_properties:
            if name == "tried":
                times[value[0]] += value[1]
    terminalreporter.section("what was covered")
    terminalreporter.line(f"{len(calls):,} tests ran. Counts: {mode()}.")
    if times:
        terminalreporter.line("Tried: " + ", ".join(f"{what} {times[what]:,}" for what in sorted(times)) + ".")


def feed_threads() -> list[threading.Thread]:
    """The threads of feeds that run. A signal in the middle of `Thread.start` can leave one in Python's list for good
    that never ran, and never will."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME) and thread.is_alive()]


@pytest.fixture(autouse=True)
def no_thread_left_behind():
    before = feed_threads()  # a test that failed is kept with all it holds: not the fault of those after it
    yield
    left = [thread for thread in feed_threads() if thread not in before]
    frames = sys._current_frames()
    where = [f"{thread.name}:\n{''.join(traceback.format_stack(frames.get(thread.ident)))}" for thread in left]
    assert not left, "threads still alive after the test: " + "\n".join(where)


def make_table(rows: int, seed: int = 0) -> pl.DataFrame:
    """A table whose every column can be computed from `id`, so that a torn row shows."""
    rng = np.random.Generator(np.random.Philox(seed))
    ids = np.arange(rows, dtype=np.int64)
    return pl.DataFrame(
        {
            "id": ids,
            "cat_b": (ids * 7 + 3) % 1000,
            "cat_a": ((ids * 13 + 5) % 77).astype(np.int32),
            "x2": (ids * 0.5).astype(np.float32),
            "x1": rng.random(rows).astype(np.float64),
            "label": (ids % 2).astype(np.float32),
        }
    )


def write_files(folder: Path, frame: pl.DataFrame, files: int = 3, row_group: int = 100) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    edges = [frame.height * i // files for i in range(files + 1)]
    paths = []
    for number, (a, b) in enumerate(itertools.pairwise(edges)):
        path = folder / f"part_{number}.parquet"
        pq.write_table(frame.slice(a, b - a).to_arrow(), path, row_group_size=row_group)
        paths.append(path)
    return paths


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """1,003 rows in 3 files of row groups of 100."""
    write_files(tmp_path / "table", make_table(1003))
    return tmp_path / "table"
