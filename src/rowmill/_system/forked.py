"""Tells a process that was forked after Polars had started its threads: a fork copies the locks and not the threads, so
the next query would wait for ever. Called before queries of public calls run.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from rowmill.errors import ForkedError

_THREAD = re.compile(rb"polars-\d")  # a thread that runs queries; another one is there from the import on


class _State:
    started = False  # whether Polars had threads when the latest fork began
    lost = False  # whether this process is the copy of one in which it had


def _has_threads() -> bool:
    """Whether this process has threads of Polars; False where the system does not list threads."""
    for name in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # a thread that has just ended
            if _THREAD.match(name.read_bytes()):
                return True
    return False


def _before() -> None:
    _State.started = _State.lost or _has_threads()


def _in_child() -> None:
    _State.lost = _State.started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)


def check_fork() -> None:
    """Raise `ForkedError` where a query would never end."""
    if _State.lost:
        raise ForkedError(
            "this process was forked after Polars had started its threads, which a fork does not copy, so this would "
            "never end; start processes with 'spawn' or 'forkserver', or call fit, transform and Dataset methods in "
            "the new process only (a server: load the workflow in each worker)"
        )
