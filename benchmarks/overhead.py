"""What does a loader add to a batch? Question `overhead`: batches of 1,024 rows and 39 columns, for every framework.

The epoch of a loader less the epoch of the bare batches it makes tensors of, all reading threads at work; each
framework in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import tables
from clock import Reading, read, rounds
from journal import Journal

BATCH = 1_024
KINDS = ("torch", "tensorflow", "jax", "keras-tensorflow", "keras-torch", "keras-jax")


def ask(journal: Journal, *, quick: bool) -> None:
    """Once for each kind of loader, streaming, and once from a store."""
    rows, count = (200_000, 2) if quick else (4_000_000, 5)
    for kind in KINDS:
        for stored in (False, True):
            command = [sys.executable, __file__, kind, str(rows), str(count), "stored" if stored else ""]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            for line in ran.stdout.splitlines():
                number, name, reading = json.loads(line)
                full = f"{kind}, {'stored' if stored else 'streamed'}, {name}"
                journal.add("overhead", full, number, Reading(**reading), batches=-(-rows // BATCH))


def _loader(kind: str, table: tables.Table, **settings: Any) -> Any:
    names = {"cat_names": list(table.cats), "cont_names": list(table.conts), "label_names": [table.label]}
    paths = [str(path) for path in table.paths]
    if kind == "tensorflow":
        from rowmill.loader.tensorflow import KerasSequenceLoader

        return KerasSequenceLoader(paths, BATCH, **names, **settings)
    if kind.startswith("keras-"):
        from rowmill.loader import keras

        return keras.KerasSequenceLoader(paths, BATCH, **names, **settings)
    import rowmill

    if kind == "jax":
        from rowmill.loader.jax import Loader
    else:
        from rowmill.loader.torch import Loader
    columns = [*table.cats, *table.conts]
    return Loader(rowmill.Dataset(paths), BATCH, columns=columns, targets=table.label, **settings)


def _measured(kind: str, rows: int, count: int, stored: bool) -> Iterator[tuple[int, str, Reading]]:
    folder = tables.cache() / "overhead-store"
    cached = {"cache": folder} if stored else {}
    loader = _loader(kind, tables.criteo(rows), shuffle=True, **cached)
    if stored:
        loader.build_cache()
    runs = {
        "bare": lambda: sum(batch.rows for batch in loader._stream.batches()),
        "loader": lambda: sum(BATCH for _ in loader),
    }
    for run in runs.values():
        read(run)
    yield from rounds(runs, count)


if __name__ == "__main__":
    if sys.argv[1].startswith("keras-"):
        os.environ["KERAS_BACKEND"] = sys.argv[1].removeprefix("keras-")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for round_, name_, reading_ in _measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bool(sys.argv[4])):
        print(json.dumps([round_, name_, asdict(reading_)]), flush=True)
