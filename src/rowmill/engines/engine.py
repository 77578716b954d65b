"""What an engine is: something that runs a `Job` over the pieces of a table and gives the results of its statistics.

An engine knows statistics and fragments, never an operator or a graph. Whatever it does in parallel and in whatever
order, the results are the same to the bit, because statistics merge exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import polars as pl

from rowmill.sources.source import Fragment
from rowmill.statistics.statistic import Statistic


class Job(Protocol):
    """Statistics, and the frames that each of them looks at. Can be sent to another process."""

    @property
    def statistics(self) -> Sequence[Statistic[Any]]: ...

    @property
    def resumes(self) -> bool:
        """Whether the statistics have seen rows before."""
        ...

    def started(self) -> list[Any]:
        """Accumulators that have seen these rows; used once for all fragments of the job."""
        ...

    def frames(self, fragment: Fragment) -> Iterator[Sequence[pl.DataFrame]]:
        """What each statistic looks at, of this fragment's rows: a slice of them at a time."""
        ...


class Engine(Protocol):
    """Runs jobs somewhere: threads here, processes elsewhere."""

    def run(self, job: Job, fragments: Sequence[Fragment], progress: bool | None) -> Sequence[Any]:
        """The result of each statistic over all fragments."""
        ...


def fold(job: Job, fragments: Sequence[Fragment]) -> list[Any]:
    """Accumulators that have seen these fragments."""
    seen = [statistic.start() for statistic in job.statistics]
    for fragment in fragments:
        for frames in job.frames(fragment):
            seen = [s.update(a, frame) for s, a, frame in zip(job.statistics, seen, frames, strict=True)]
    return seen
