"""Writes a recipe's rows to Parquet files: blocks in, paths out, a few row groups a thread in memory.

Called by `rowmill.tools.synthetic`. Files get their names only when all are whole, so a reader never
sees half a table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rowmill.errors import ArgumentError, writing
from rowmill.sources.files.paths import local_path
from rowmill.tools.recipes import BLOCK, Recipe


def write_files(
    recipe: Recipe, path: str | Path, *, rows: int, files: int, row_group_rows: int, compression: str
) -> list[Path]:
    """Write `rows` rows in `files` files of nearly equal size, in row groups of `row_group_rows`.

    Returns the paths in table order.
    """
    if rows < 0 or files < 1 or row_group_rows < 1:
        raise ArgumentError(
            f"rows={rows}, files={files}, row_group_rows={row_group_rows}; wanted rows of at least 0 and the "
            "others of at least 1; give positive numbers"
        )
    targets = _targets(local_path(path, "path"), files)
    targets[0].parent.mkdir(parents=True, exist_ok=True)
    parts = [target.with_name(f".{target.name}.{os.getpid()}.tmp") for target in targets]
    edges = [rows * i // files for i in range(files + 1)]

    def write(part: Path, span: tuple[int, int]) -> None:
        _write_file(recipe, part, span, row_group_rows, compression)

    try:
        # PyArrow encodes the columns of a file one after the other; several files go side by side.
        with ThreadPoolExecutor(min(files, _cores()), thread_name_prefix="rowmill-synthetic") as pool:
            list(pool.map(write, parts, pairwise(edges)))
        for part, target in zip(parts, targets, strict=True):
            part.replace(target)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    return targets


def _targets(path: Path, files: int) -> list[Path]:
    if path.suffix == ".parquet":
        if files != 1:
            raise ArgumentError(f"files={files} for the one file {path}; wanted a folder; leave the suffix away")
        return [path]
    targets = [path / f"part_{i}.parquet" for i in range(files)]
    strangers = sorted(set(path.glob("*.parquet")) - set(targets)) if path.is_dir() else []
    if strangers:
        raise ArgumentError(
            f"{path} already holds {strangers[0].name}, which would become part of the new table; wanted an "
            "empty folder; empty it or name another"
        )
    return targets


def _write_file(recipe: Recipe, path: Path, span: tuple[int, int], group_rows: int, compression: str) -> None:
    """The rows of the table from `span[0]` to `span[1]` as one file."""
    small = recipe.dictionary
    with (
        writing(path),
        pa.OSFile(str(path), "wb") as file,
        pq.ParquetWriter(file, recipe.schema, compression=compression, use_dictionary=small) as writer,
    ):
        for group in _ahead(_row_groups(recipe, *span, group_rows)):
            writer.write_table(group, row_group_size=group_rows)


def _row_groups(recipe: Recipe, start: int, stop: int, group_rows: int) -> Iterator[Any]:
    """Rows `start` to `stop`, a table for each row group. Each block is made once, in order."""
    held, at = -1, recipe.schema.empty_table()
    for first in range(start, stop, group_rows):
        last = min(first + group_rows, stop)
        pieces = []
        for index in range(first // BLOCK, (last - 1) // BLOCK + 1):
            if index != held:
                held, at = index, recipe.block(index)
            begin = max(first - index * BLOCK, 0)
            pieces.append(at.slice(begin, min(last - index * BLOCK, BLOCK) - begin))
        yield pa.concat_tables(pieces)


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Pass items on, the next one made by another thread while this one is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="rowmill-synthetic-rows") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
