"""Synthetic tables of any number of rows, streamed to Parquet: what demo, benchmarks and tests read.

    from rowmill.tools import synthetic
    paths = synthetic.criteo("data/train", 4_000_000, files=8)

The same arguments give the same rows; `files` and `row_group_rows` change only how they are cut, and a
smaller number of rows is the beginning of a larger one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rowmill.errors import ArgumentError
from rowmill.tools.recipes import CARDINALITIES, CATEGORICAL, CONTINUOUS, LABEL, Criteo, Wide
from rowmill.tools.row_group_writer import write_files

__all__ = ["CARDINALITIES", "CATEGORICAL", "CONTINUOUS", "LABEL", "criteo", "wide"]


def criteo(
    path: str | Path,
    rows: int,
    *,
    files: int = 1,
    row_group_rows: int = 250_000,
    form: Literal["prepared", "raw"] = "prepared",
    seed: int = 0,
    lists: int = 0,
    strings: int = 0,
    compression: str = "snappy",
) -> list[Path]:
    """Write a table shaped like the Criteo click logs: `label`, `I1` to `I13`, `C1` to `C26`.

    `path` is a folder, for files named `part_0.parquet` and so on, or the path of the one file, ending in
    `.parquet`. Returns the files in table order.

    `form="prepared"` is what a model takes: int64 ids below the column's cardinality, standardised float32,
    label float32, no nulls. `form="raw"` is what a log holds: int32 counts and hashed int32 ids with nulls,
    label int32. Both forms of one seed are the same clicks, row by row. Ids are skewed like a power law, and
    the label depends on a few columns: the best possible AUC is about 0.79.

    `lists` adds that many columns `L1`... of zero to 12 ids, with empty and null rows; `strings` adds `S1`...
    of words, with nulls in the raw form.
    """
    if form not in ("prepared", "raw"):
        raise ArgumentError(f"form={form!r}; wanted 'prepared' or 'raw'")
    recipe = Criteo(raw=form == "raw", seed=_checked(seed), lists=int(lists), strings=int(strings))
    return write_files(recipe, path, rows=rows, files=files, row_group_rows=row_group_rows, compression=compression)


def wide(
    path: str | Path,
    rows: int,
    columns: int,
    *,
    files: int = 1,
    row_group_rows: int = 250_000,
    seed: int = 0,
    compression: str = "snappy",
) -> list[Path]:
    """Write a table of `columns` columns: half int64 ids `C1`..., half float32, which are `label` and `I1`...

    For asking what a column costs: all ids are alike, all floats are alike. Returns the files in table order.
    """
    if columns < 2:
        raise ArgumentError(f"columns={columns}; wanted at least 2, a label and an id; ask for more")
    return write_files(
        Wide(columns, _checked(seed)),
        path,
        rows=rows,
        files=files,
        row_group_rows=row_group_rows,
        compression=compression,
    )


def _checked(seed: int) -> int:
    if not 0 <= seed < 1 << 64:
        raise ArgumentError(f"seed={seed}; wanted a number from 0 to 2**64 - 1; give another")
    return seed
