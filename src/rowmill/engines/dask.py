"""A Dask cluster: fragments are measured on the workers, accumulators merged there as a tree.

Accumulators that can be cut by hash (`split`) are merged shard by shard, each on one worker, so that a vocabulary is
never merged in one place. Large results are left in a file, and only its path comes back. What a dead worker had
measured is measured again by another, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rowmill._system.progress import progress_bar
from rowmill.engines.engine import Job, fold
from rowmill.errors import writing
from rowmill.sources.files.temporary_files import Keeper, temporary_folder
from rowmill.sources.source import Fragment
from rowmill.statistics.statistic import Statistic
from rowmill.statistics.table import StatisticTable

FAN_IN = 8  # accumulators merged by one task
PIECES = 4  # tasks for each thread of the cluster: enough to even out, few enough to merge
LARGE = 32 << 20  # bytes of a result from which on it stays in a file


@dataclass(frozen=True)
class DaskEngine:
    """`client`: a `dask.distributed.Client`. Workers on other machines have to see the folder for temporary files
    (`TMPDIR`), or large results come back as they are."""

    client: Any
    large: int = LARGE

    def run(self, job: Job, fragments: Sequence[Fragment], progress: bool | None) -> Sequence[Any]:
        from dask.distributed import as_completed

        workers = self.client.nthreads()
        pieces = _cut(fragments, PIECES * max(1, sum(workers.values())))
        shared = self.client.submit(_itself, job, pure=False)  # scattered, it would be lost with the worker that has it
        shards = max(1, len(workers))
        measured = [self.client.submit(_measure, shared, piece, shards, pure=False) for piece in pieces]
        earlier = [self.client.submit(_resume, shared, shards, pure=False)] if job.resumes else []
        sizes = {future.key: sum(f.rows for f in piece) for future, piece in zip(measured, pieces, strict=True)}
        keeper = Keeper()
        folder = temporary_folder(keeper)
        with progress_bar("fitting", sum(sizes.values()), progress) as advance:
            for future in as_completed(measured):
                if future.status == "error":
                    future.result()
                advance(sizes[future.key])
        finished = []
        for index, statistic in enumerate(job.statistics):
            count = shards if hasattr(statistic, "split") else 1
            parts = [self._merged(shared, index, shard, [*earlier, *measured]) for shard in range(count)]
            finished.append(self.client.submit(_finish, shared, index, parts, folder, self.large, pure=False))
        return [_kept(result, keeper) for result in self.client.gather(finished)]

    def _merged(self, job: Any, index: int, shard: int, measured: Sequence[Any]) -> Any:
        """One accumulator of all tasks, by a tree of merges on the workers."""
        level = [self.client.submit(_take, future, index, shard, pure=False) for future in measured]
        while len(level) > 1:
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [self.client.submit(_merge, job, index, group, pure=False) for group in groups]
        return level[0]


def _cut(fragments: Sequence[Fragment], pieces: int) -> list[Sequence[Fragment]]:
    """The fragments in order, divided into parts of about equal size."""
    pieces = max(1, min(pieces, len(fragments)))
    edges = [len(fragments) * i // pieces for i in range(pieces + 1)]
    return [fragments[edges[i] : edges[i + 1]] for i in range(pieces)]


def _itself(job: Job) -> Job:
    return job


def _measure(job: Job, fragments: Sequence[Fragment], shards: int) -> list[list[Any]]:
    """The accumulators of some fragments, each cut into shards where it can be."""
    return [_split(s, seen, shards) for s, seen in zip(job.statistics, fold(job, fragments), strict=True)]


def _resume(job: Job, shards: int) -> list[list[Any]]:
    """The accumulators that have seen what was kept of earlier rows, cut like those of `_measure`."""
    return [_split(s, seen, shards) for s, seen in zip(job.statistics, job.started(), strict=True)]


def _split(statistic: Statistic[Any], seen: Any, shards: int) -> list[Any]:
    split = getattr(statistic, "split", None)
    return [seen] if split is None else list(split(seen, shards))


def _take(measured: list[list[Any]], index: int, shard: int) -> Any:
    return measured[index][shard]


def _merge(job: Job, index: int, parts: Sequence[Any]) -> Any:
    statistic = job.statistics[index]
    merged = statistic.start()
    for part in parts:
        merged = statistic.merge(merged, part)
    return merged


def _finish(job: Job, index: int, parts: Sequence[Any], folder: Path, large: int) -> Any:
    """The result of a statistic from the shards of its accumulator, which hold different values."""
    statistic: Any = job.statistics[index]
    finished = [statistic.finish(part) for part in parts]
    result = finished[0] if len(finished) == 1 else statistic.join(finished)
    frame = getattr(result, "frame", None)
    if not isinstance(frame, pl.DataFrame) or frame.estimated_size() < large or not folder.is_dir():
        return result
    path = folder / f"{index}.parquet"
    with writing(path):
        frame.write_parquet(path)
    return replace(result, frame=path)


def _kept(result: Any, keeper: Keeper) -> Any:
    """A result whose frame is in a file, as a table that reads it when needed."""
    path = getattr(result, "frame", None)
    return replace(result, frame=StatisticTable(path, keeper)) if isinstance(path, Path) else result
