"""The tables that are read: made once, kept in a cache folder outside the repository.

The folder is `$ROWMILL_BENCH_CACHE` or `~/.cache/rowmill-bench`; `benchmarks/run.py --clean` removes it.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from rowmill.tools import random_columns, recipes, row_group_writer, synthetic


@dataclass(frozen=True)
class Table:
    """Parquet files and the columns a model takes from them."""

    paths: tuple[Path, ...]
    rows: int
    row_group_rows: int
    cats: tuple[str, ...]
    conts: tuple[str, ...]
    label: str = synthetic.LABEL

    @property
    def columns(self) -> list[str]:
        return [*self.cats, *self.conts, self.label]

    @property
    def row_groups(self) -> list[tuple[Path, int, int]]:
        """File, first row and number of rows of every row group."""
        found = []
        for path in self.paths:
            footer, start = pq.ParquetFile(path).metadata, 0
            for index in range(footer.num_row_groups):
                rows = footer.row_group(index).num_rows
                found.append((path, start, rows))
                start += rows
        return found


def criteo(rows: int, *, files: int = 4, row_group_rows: int = 250_000) -> Table:
    """26 int64 ids, 13 float32 and a float32 label."""
    paths = _kept(
        f"criteo-{rows}-{files}-{row_group_rows}",
        rows,
        files,
        lambda folder: synthetic.criteo(folder, rows, files=files, row_group_rows=row_group_rows),
    )
    return Table(paths, rows, row_group_rows, synthetic.CATEGORICAL, synthetic.CONTINUOUS)


def raw_criteo(rows: int, *, files: int = 4, row_group_rows: int = 250_000) -> Table:
    """The same clicks as they were logged: 13 nullable counts, 26 nullable hashed ids, a label."""
    paths = _kept(
        f"raw-{rows}-{files}-{row_group_rows}",
        rows,
        files,
        lambda folder: synthetic.criteo(folder, rows, files=files, row_group_rows=row_group_rows, form="raw"),
    )
    return Table(paths, rows, row_group_rows, synthetic.CATEGORICAL, synthetic.CONTINUOUS)


def wide(rows: int, columns: int, *, row_group_rows: int) -> Table:
    """`columns` columns: half int64 ids, half float32, the label among them."""
    paths = _kept(
        f"wide-{rows}-{columns}-{row_group_rows}",
        rows,
        4,
        lambda folder: synthetic.wide(folder, rows, columns, files=4, row_group_rows=row_group_rows),
    )
    names = pq.read_schema(paths[0]).names
    groups = {letter: tuple(name for name in names if name.startswith(letter)) for letter in "CI"}
    return Table(paths, rows, row_group_rows, groups["C"], groups["I"])


def cache() -> Path:
    """The cache folder; made if it is not there."""
    folder = Path(os.environ.get("ROWMILL_BENCH_CACHE") or Path.home() / ".cache" / "rowmill-bench")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _kept(name: str, rows: int, files: int, make: Callable[[Path], list[Path]]) -> tuple[Path, ...]:
    """The files of a table that is in the cache, or is made now. A table made by older code is removed."""
    code = b"".join(Path(module.__file__ or "").read_bytes() for module in (recipes, random_columns, row_group_writer))
    folder = cache() / f"{name}-{zlib.crc32(code):08x}"
    for old in set(cache().glob(f"{name}-????????")) - {folder}:
        shutil.rmtree(old)
    paths = [folder / f"part_{i}.parquet" for i in range(files)]
    if not all(path.exists() for path in paths) or rows != sum(pq.read_metadata(p).num_rows for p in paths):
        shutil.rmtree(folder, ignore_errors=True)
        print(f"making {folder}", flush=True)
        paths = make(folder)
    return tuple(paths)
