"""Measuring: functions that deliver rows in, readings of wall and CPU time out. The one ruler."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One run: rows delivered, seconds on the wall, seconds of CPU of this process and its ended children."""

    rows: int
    seconds: float
    cpu_seconds: float


def read(run: Callable[[], int]) -> Reading:
    """Run once. `run` returns the rows it delivered, and ends any worker process that it starts."""
    gc.collect()
    cpu, start = _cpu_seconds(), time.perf_counter()
    rows = run()
    return Reading(rows, time.perf_counter() - start, _cpu_seconds() - cpu)


def rounds(runs: Mapping[str, Callable[[], int]], count: int) -> Iterator[tuple[int, str, Reading]]:
    """Read all of them in turn, `count` times: a slow minute of the machine is then everybody's slow minute.

    Each round starts with another one, so that none always comes after the same neighbour.
    """
    names = list(runs)
    for number in range(count):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            yield number, name, read(runs[name])


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
