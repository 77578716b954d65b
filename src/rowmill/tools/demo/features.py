"""What comes before and after the first epoch: features from raw clicks by a workflow, and epochs from a store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowmill.dataset import Dataset
from rowmill.loader.torch import TorchAsyncItr
from rowmill.ops import Categorify, Clip, FillMissing, LogOp, Normalize
from rowmill.tools.demo.race import BATCH, CATS, CONTS, Lap
from rowmill.tools.synthetic import CATEGORICAL, CONTINUOUS, LABEL, criteo
from rowmill.workflow import Workflow

EPOCHS = 3  # the first is streamed, the others are mapped


@dataclass(frozen=True)
class Prepared:
    """Raw rows made ready for a model, and what that took."""

    rows: int
    fit_seconds: float
    transform_seconds: float
    ids: int  # different values that got a code of their own


def prepare(folder: Path, rows: int) -> Prepared:
    """Fit a workflow on raw clicks, write what it makes of them, and save it."""
    raw = folder / f"raw-{rows}"
    if not raw.exists():
        criteo(raw, rows, files=2, form="raw")
    counts = list(CONTINUOUS) >> FillMissing() >> Clip(min_value=0) >> LogOp() >> Normalize()
    workflow = Workflow(counts + (list(CATEGORICAL) >> Categorify()) + [LABEL])
    data = Dataset(raw)
    workflow.fit(Dataset(data.head(10_000)), progress=False)  # compiles what is compiled at first use
    start = time.perf_counter()
    workflow.fit(data)
    fitted = time.perf_counter()
    workflow.transform(data).to_parquet(folder / "prepared", preserve_files=True)
    done = time.perf_counter()
    workflow.save(folder / "workflow")
    sizes = [
        c.properties["embedding_sizes"]["cardinality"] - 3 for c in workflow.output_schema if c.name in CATEGORICAL
    ]
    return Prepared(data.num_rows, fitted - start, done - fitted, sum(sizes))


def epochs(paths: Sequence[Path], folder: Path, passed: Callable[[int], Callable[[int], None]]) -> list[Lap]:
    """Epochs of the same table with a cache that is empty at first; `passed(number)` is told of each one's rows."""
    shutil.rmtree(folder, ignore_errors=True)
    loader = TorchAsyncItr(
        Dataset([str(path) for path in paths]), CATS, CONTS, [LABEL], batch_size=BATCH, shuffle=True, cache=folder
    )
    laps = []
    for number in range(EPOCHS):
        tell, rows, start, cpu = passed(number), 0, time.perf_counter(), time.process_time()
        for _, _, label in loader:
            rows += len(label)
            tell(len(label))
        laps.append(Lap(rows, time.perf_counter() - start, time.process_time() - cpu))
    shutil.rmtree(folder, ignore_errors=True)
    return laps
