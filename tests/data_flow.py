"""Traces one batch and one fit, and lists the files that their rows pass through.

A file is on the path if a function in it is given rows, holds rows or gives rows: a frame, columns, a chunk, a batch
or tensors.
Checks, counters, plans and calls of the operating system are not: no row passes through them.

    python -m tests.data_flow torch|store|keras|fit     prints the files, sorted by folder
    python -m tests.data_flow --write                   rewrites the lists in docs/design.md
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import rowmill
from rowmill.feed.memory.block import Batch
from rowmill.feed.run.chunk_buffer import ChunkBuffer

SOURCE = str(Path(rowmill.__file__).parent) + "/"
PAGE = Path(__file__).parent.parent / "docs" / "design.md"
BEGIN, END = "<!-- flow:begin -->", "<!-- flow:end -->"
TITLES = {
    "torch": "A batch of `TorchAsyncItr`, decoded from Parquet",
    "store": "A batch of `TorchAsyncItr`, from a store",
    "keras": "A batch of `fit` with Keras on PyTorch",
    "fit": "`Workflow.fit` with Categorify and Normalize",
}
MOST_FILES = {"torch": 16, "store": 16, "keras": 20, "fit": 28}


class Trace:
    """The files that rows pass through, and which of them call which."""

    def __init__(self) -> None:
        self.active = False
        self.files: dict[str, None] = {}
        self.calls: set[tuple[str, str]] = set()

    def profile(self, frame: Any, event: str, value: Any) -> None:
        if not self.active or event not in ("call", "return"):
            return
        name = frame.f_code.co_filename
        if not name.startswith(SOURCE):
            return
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        if event == "call" and caller.startswith(SOURCE):
            self.calls.add((caller[len(SOURCE) :], name[len(SOURCE) :]))
        if event == "return":
            rows = [value, *frame.f_locals.values()]
        else:
            rows = [frame.f_locals.get(each) for each in frame.f_code.co_varnames[: frame.f_code.co_argcount]]
        if any(map(holds_rows, rows)):
            self.files.setdefault(name[len(SOURCE) :])

    @contextmanager
    def running(self) -> Iterator[None]:
        self.active = True
        yield
        self.active = False

    def back_and_forth(self) -> list[tuple[str, str]]:
        """Pairs of files on the path that call each other."""
        return sorted((a, b) for a, b in self.calls if a < b and (b, a) in self.calls and {a, b} <= self.files.keys())


def holds_rows(value: Any) -> bool:
    """Whether an object is made of rows of the table."""
    if isinstance(value, (tuple, list)):
        return any(map(holds_rows, value[:4]))
    if isinstance(value, dict):
        return any(holds_rows(each) for each in list(value.values())[:4])
    if isinstance(value, (pl.DataFrame, pl.Series, pl.LazyFrame, Batch, ChunkBuffer)) or hasattr(value, "copy_rows"):
        return True
    return type(value).__module__.split(".")[0] in ("torch", "tensorflow", "jax", "jaxlib") and hasattr(value, "shape")


def table(folder: Path) -> Path:
    """24 row groups of 5,000 rows."""
    for number in range(6):
        ids = np.arange(20_000) + 20_000 * number
        columns = {"id": ids, "kind": ids % 7, "x": ids * 0.5, "label": (ids % 2).astype(np.float32)}
        pl.DataFrame(columns).write_parquet(folder / f"{number}.parquet", row_group_size=5_000)
    return folder


def _torch(folder: Path, trace: Trace, **options: Any) -> None:
    from rowmill.loader.torch import TorchAsyncItr

    loader = TorchAsyncItr(
        rowmill.Dataset(folder), ["kind"], ["x"], ["label"], 1_000, shuffle=True, memory="2MB", **options
    )
    for _ in loader:  # page headers are checked once, and a store is filled
        pass
    batches = iter(loader)
    for _ in range(30):
        next(batches)
    with trace.running():
        for _ in range(60):
            next(batches)
    for _ in batches:
        pass


def _store(folder: Path, trace: Trace) -> None:
    _torch(folder, trace, cache=folder / "cache")


def _keras(folder: Path, trace: Trace) -> None:
    import keras

    from rowmill.loader.keras import Loader

    loader = Loader(rowmill.Dataset(folder), 1_000, True, columns=["x", "label"], targets="label", memory="2MB")
    features = {"x": keras.Input(shape=(), name="x")}
    model = keras.Model(features, keras.layers.Dense(1)(keras.ops.expand_dims(features["x"], 1)))
    model.compile(loss="mse", run_eagerly=True)
    model.fit(loader, epochs=1, verbose=0)
    with trace.running():
        model.fit(loader, epochs=1, verbose=0)


def _fit(folder: Path, trace: Trace) -> None:
    from rowmill import Workflow, ops

    def workflow() -> Workflow:
        return Workflow((["kind"] >> ops.Categorify()) + (["x"] >> ops.Normalize()) + ["label"])

    data = rowmill.Dataset(folder)
    workflow().fit(data)
    with trace.running():
        workflow().fit(data)


PROGRAMS: dict[str, Callable[[Path, Trace], None]] = {"torch": _torch, "store": _store, "keras": _keras, "fit": _fit}


def traced(what: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The files of a path, and the pairs that call each other, found in a process of its own."""
    command = [sys.executable, "-m", "tests.data_flow", "--json", what]
    environ = {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250, env=environ)
    assert done.returncode == 0, done.stderr[-3000:]
    files, pairs = json.loads(done.stdout.splitlines()[-1])
    return files, [tuple(pair) for pair in pairs]


def listed(paths: dict[str, list[str]]) -> str:
    """The lists of docs/design.md."""
    return "\n\n".join(
        f"{title} ({len(paths[what])} files):\n" + ", ".join(f"`{name}`" for name in paths[what]) + "."
        for what, title in TITLES.items()
    )


def write_page() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    made = listed({what: traced(what)[0] for what in TITLES})
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")


def main() -> None:
    if sys.argv[1:] == ["--write"]:
        write_page()
        return
    what, trace = sys.argv[-1], Trace()
    threading.setprofile(trace.profile)
    sys.setprofile(trace.profile)
    with tempfile.TemporaryDirectory() as folder:
        PROGRAMS[what](table(Path(folder)), trace)
    sys.setprofile(None)
    files, pairs = sorted(trace.files), trace.back_and_forth()
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps([files, pairs]) + "\n")
    else:
        sys.stdout.write("\n".join([f"{len(files)} files", *files, *map(str, pairs)]) + "\n")


if __name__ == "__main__":
    main()
