"""How long does a program wait before its first batch? Question `start`, each reading in a process of its own.

A small table of 200,000 rows, as in a notebook. Times are counted once PyTorch is imported: importing Rowmill, the
first batch, fitting a workflow; and, in the same process afterwards, decoding the table with Polars, and a
plain Polars program that counts and averages what the workflow does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import tables
from clock import Reading
from journal import Journal

ROWS = 200_000

_PROGRAM = textwrap.dedent("""
    import json, sys, time
    import torch

    found, started = {}, time.perf_counter()

    def lap(name):
        global started
        found[name] = time.perf_counter() - started
        started = time.perf_counter()

    what, folder, raw = sys.argv[1:]
    if what == "import":
        import polars, pyarrow.parquet
        lap("import polars, pyarrow.parquet")
    import rowmill
    lap("import rowmill")
    from rowmill import Dataset, Workflow, ops
    if what == "batch":
        from rowmill.loader.torch import Loader
        lap("import Dataset and Loader")
        next(iter(Loader(Dataset(folder), 65_536, shuffle=True, targets="label")))
        lap("first batch")
        import polars as pl
        for _ in range(2):
            pl.scan_parquet(folder + "/*.parquet").collect()
            lap("decode with Polars")
    if what == "fit":
        numbers, ids = [f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)]
        for name in ("first fit", "later fit"):
            made = numbers >> ops.FillMissing() >> ops.Clip(min_value=0) >> ops.LogOp() >> ops.Normalize()
            Workflow(made + (ids >> ops.Categorify())).fit(Dataset(raw))
            lap(name)
        import polars as pl
        for _ in range(2):
            frame = pl.read_parquet(raw + "/*.parquet")
            [frame[name].value_counts(sort=True) for name in ids]
            logs = [pl.col(name).fill_null(0).clip(0).log1p() for name in numbers]
            frame.select([log.mean() for log in logs])
            frame.select([log.std() for log in logs])
            lap("fit by hand with Polars")
    print(json.dumps(found))
""")


def ask(journal: Journal, *, quick: bool) -> None:
    """Some processes of each kind, in turn."""
    prepared, logged = tables.criteo(ROWS, row_group_rows=50_000), tables.raw_criteo(ROWS, row_group_rows=50_000)
    folder, raw = str(prepared.paths[0].parent), str(logged.paths[0].parent)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for number in range(-1, 3 if quick else 9):  # the first round leaves compiled modules behind, as installing does
        for what in ("import", "batch", "fit"):
            command = [sys.executable, "-c", _PROGRAM, what, folder, raw]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            for name, seconds in json.loads(done.stdout).items():
                if number >= 0:
                    journal.add("start", name, number, Reading(ROWS, seconds, seconds))
