"""A loader for any table, for those who only want to see it load: a dataset in, a `Loader` out.

The commands `plan`, `bench` and `report` know no framework; the first that is installed makes the tensors. Nulls are
filled, and columns that no tensor holds are left out: nobody trains on these batches.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rowmill.dataset import Dataset
from rowmill.errors import ColumnError, MissingExtraError
from rowmill.feed.report.run_stats import MOMENTS, Moment, RunReport
from rowmill.schema import ColumnSchema, Schema

if TYPE_CHECKING:
    from rowmill.loader._base.loader import Streamed

FRAMEWORKS = ("torch", "jax", "tensorflow")  # the fastest to import first
_NUMBERS = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|bool")
_OTHERS = re.compile(r"string|binary|date|time|datetime.*|duration.*")


def framework() -> str:
    """The framework whose loader is used."""
    for name in FRAMEWORKS:
        if find_spec(name) is not None:
            return name
    raise MissingExtraError("no framework to load for is installed; wanted PyTorch; pip install 'rowmill[torch]'")


def open_loader(
    dataset: Dataset,
    batch_size: int = 65_536,
    *,
    columns: Sequence[str] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    memory: int | float | str = "auto",
    threads: int | None = None,
    ranks: int = 1,
) -> Streamed:
    """A loader of these columns, by default of all that a tensor can hold, for the first of `ranks` ranks."""
    chosen = [dataset.schema[name] for name in columns or loadable(dataset.schema)]
    made: Streamed = import_module(f"rowmill.loader.{framework()}").Loader(
        dataset,
        batch_size,
        columns=[c.name for c in chosen],
        targets=[],
        shuffle=shuffle,
        seed=seed,
        memory=memory,
        threads=threads,
        nulls={c.name: _fill(c) for c in chosen},
        global_size=ranks,
        global_rank=0,
    )
    return made


def load_for(loader: Streamed, seconds: float, passed: Callable[[int], None]) -> RunReport:
    """Load epoch after epoch until the time is over, telling `passed` of each tenth of a second."""
    runs, told, gone, start = [], 0, 0.0, time.perf_counter()
    while gone <= seconds:
        for _ in loader:
            gone = time.perf_counter() - start
            passed(int(10 * gone) - told)
            told = int(10 * gone)
            if gone > seconds:
                break
        runs.append(loader.stats())
        gone = time.perf_counter() - start
    return joined(runs)


def joined(runs: Sequence[RunReport]) -> RunReport:
    """Passes one after the other as one."""
    seconds, rows, waited = 0.0, 0, 0.0
    timeline: list[Moment] = []
    for run in runs:
        timeline.extend(
            Moment(seconds + m.seconds, rows + m.rows, waited + m.waited, m.ready_rows) for m in run.timeline
        )
        seconds, rows, waited = seconds + run.seconds, rows + run.rows, waited + run.waited
    step = -(-len(timeline) // MOMENTS) or 1
    return replace(
        runs[-1],
        seconds=seconds,
        rows=rows,
        waited=waited,
        batches=sum(run.batches for run in runs),
        padding_rows=sum(run.padding_rows for run in runs),
        rows_per_second=rows / seconds,
        bytes_per_second=sum(run.bytes_per_second * run.seconds for run in runs) / seconds,
        read_seconds=sum(run.read_seconds for run in runs),
        pack_seconds=sum(run.pack_seconds for run in runs),
        room_seconds=sum(run.room_seconds for run in runs),
        cpu_seconds=sum(run.cpu_seconds for run in runs),
        timeline=tuple(timeline[::-1][::step][::-1]),
    )


def loadable(schema: Schema) -> list[str]:
    """The columns that a tensor can hold, or an array of text."""
    found = [column.name for column in schema if _loads(column)]
    if not found:
        raise ColumnError(f"none of the {len(schema)} columns can be loaded; wanted numbers, times or text")
    return found


def _loads(column: ColumnSchema) -> bool:
    return bool(_NUMBERS.fullmatch(column.dtype) or (not column.is_list and _OTHERS.fullmatch(column.dtype)))


def _fill(column: ColumnSchema) -> Any:
    return 0 if _NUMBERS.fullmatch(column.dtype) else "mask"
