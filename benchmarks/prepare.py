"""What does it cost to fit a workflow and to write its result? Questions `prepare` and `prepare_rows`.

13 nullable counts: FillMissing, Clip, LogOp, Normalize; 26 nullable ids: Categorify. Against a plain Polars program.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import polars as pl

import by_hand
import tables
from clock import read, rounds
from journal import Journal
from rowmill import Dataset, Workflow, ops


def ask(journal: Journal, *, quick: bool) -> None:
    """Fit, then transform to Parquet: ours and the plain program, in turn."""
    table = tables.raw_criteo(200_000 if quick else 2_000_000)
    folder = tables.cache() / "prepared"
    shutil.rmtree(folder, ignore_errors=True)
    ours, theirs = _workflow(table).fit(Dataset(list(table.paths))), by_hand.fit(table.paths, table.cats, table.conts)
    runs = {
        "fit": lambda: _fit(table),
        "fit by hand": lambda: _fit_by_hand(table),
        "transform": lambda: _transform(table, ours, folder / "ours"),
        "transform by hand": lambda: _by_hand(table, theirs, folder / "by_hand"),
    }
    for run in runs.values():
        read(run)
    _check_same(folder)
    for number, name, reading in rounds(runs, 2 if quick else 3):
        journal.add("prepare", name, number, reading)
    shutil.rmtree(folder)
    _ask_rows(journal, quick=quick)


def _ask_rows(journal: Journal, *, quick: bool) -> None:
    """The same values once and eight times: as many rows more, and not one value more."""
    table = tables.raw_criteo(200_000 if quick else 2_000_000)
    many = _repeated(table, 8)
    folder = tables.cache() / "prepared"
    workflow = _workflow(table).fit(Dataset(list(table.paths)))
    runs = {
        f"fit {table.rows}": lambda: sum(_fit(table) for _ in range(8)),
        f"fit {many.rows}": lambda: _fit(many),
        f"transform {table.rows}": lambda: sum(_transform(table, workflow, folder) for _ in range(8)),
        f"transform {many.rows}": lambda: _transform(many, workflow, folder),
    }
    for number, name, reading in rounds(runs, 1 if quick else 2):
        contestant, rows = name.split()
        journal.add("prepare_rows", contestant, number, reading, varied=int(rows))
    shutil.rmtree(folder)


def _workflow(table: tables.Table) -> Workflow:
    counts = list(table.conts) >> ops.FillMissing() >> ops.Clip(min_value=0) >> ops.LogOp() >> ops.Normalize()
    return Workflow(counts + (list(table.cats) >> ops.Categorify()) + [table.label])


def _fit(table: tables.Table) -> int:
    _workflow(table).fit(Dataset(list(table.paths)))
    return table.rows


def _fit_by_hand(table: tables.Table) -> int:
    by_hand.fit(table.paths, table.cats, table.conts)
    return table.rows


def _transform(table: tables.Table, workflow: Workflow, target: Path) -> int:
    workflow.transform(Dataset(list(table.paths))).to_parquet(target, preserve_files=True)
    return table.rows


def _by_hand(table: tables.Table, learnt: by_hand.Learnt, target: Path) -> int:
    target.mkdir(parents=True, exist_ok=True)
    return sum(by_hand.transform(path, learnt, target / path.name, table.label) for path in table.paths)


def _check_same(folder: Path) -> None:
    """Both have done the same work."""
    for path in sorted((folder / "by_hand").iterdir()):
        one, two = pl.read_parquet(folder / "ours" / path.name), pl.read_parquet(path)
        ids = [name for name in two.columns if name.startswith("C")]
        assert one.select(ids).equals(two.select(ids)), path
        for name in (name for name in two.columns if name.startswith("I")):
            assert (one[name] - two[name]).abs().max() < 1e-5, (path, name)


def _repeated(table: tables.Table, times: int) -> tables.Table:
    """The same files several times, under other names."""
    folder = table.paths[0].parent.with_name(table.paths[0].parent.name + f"-x{times}")
    folder.mkdir(exist_ok=True)
    paths = []
    for number in range(times):
        for path in table.paths:
            paths.append(folder / f"{number}_{path.name}")
            if not paths[-1].exists():
                os.link(path, paths[-1])
    return tables.Table(tuple(paths), table.rows * times, table.row_group_rows, table.cats, table.conts)
