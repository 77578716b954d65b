"""Threads of this process. All fold into the same accumulators, one thread at a time into each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rowmill._system.progress import progress_bar
from rowmill._system.threads import Cancel, run_threads
from rowmill.engines.engine import Job
from rowmill.sources.source import Fragment


@dataclass(frozen=True)
class LocalEngine:
    """`threads` read and measure. Accumulators that take more than `memory` together go to disk, the largest first."""

    threads: int
    memory: int

    def run(self, job: Job, fragments: Sequence[Fragment], progress: bool | None) -> Sequence[Any]:
        statistics = job.statistics
        seen = job.started()
        locks = [threading.Lock() for _ in statistics]
        todo, turn = iter(fragments), threading.Lock()
        failed = Cancel()

        def take() -> Fragment | None:
            with turn:
                return None if failed.requested else next(todo, None)

        def work(advance: Any) -> None:
            try:
                while (fragment := take()) is not None:
                    for frames in job.frames(fragment):
                        for index in _free_first(locks):
                            try:
                                if failed.requested:  # an interrupt does not wait for the rest of the fragment
                                    return
                                seen[index] = statistics[index].update(seen[index], frames[index])
                            finally:
                                locks[index].release()
                        self._spill(statistics, seen, locks)
                    with turn:
                        advance(fragment.rows)
            except BaseException:
                failed.requested = True
                raise

        with progress_bar("fitting", sum(f.rows for f in fragments), progress) as advance:
            if min(self.threads, len(fragments)) <= 1:
                work(advance)  # an interrupt then reaches a function at once
            else:
                _run_threads(work, advance, self.threads, failed)
            return [statistic.finish(state) for statistic, state in zip(statistics, seen, strict=True)]

    def _spill(self, statistics: Sequence[Any], seen: list[Any], locks: Sequence[threading.Lock]) -> None:
        """Send the largest accumulators to disk until the rest fits."""
        sizes = {i: s.size(seen[i]) for i, s in enumerate(statistics) if hasattr(s, "spill")}
        while sum(sizes.values()) > self.memory:
            largest = max(sizes, key=lambda index: sizes[index])
            with locks[largest]:
                seen[largest] = statistics[largest].spill(seen[largest])
            sizes[largest] = 0


def _run_threads(work: Callable[[Any], None], advance: Any, count: int, failed: Cancel) -> None:
    """Run `work` on some threads. An interrupt ends them after the fragments that they are at; it waits half a second.

    Threads that are still in a user's function then are left alone: they end with it.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work(advance)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    run_threads(run, count, "rowmill-fit", failed, patience=0.5)
    if errors:
        raise errors[0]


def _free_first(locks: Sequence[threading.Lock]) -> Iterator[int]:
    """Every number once, with its lock held: those that no other thread is at first."""
    waiting = list(range(len(locks)))
    while waiting:
        index = next((i for i in waiting if locks[i].acquire(blocking=False)), None)
        if index is None:
            index = waiting[0]
            locks[index].acquire()
        waiting.remove(index)
        yield index
