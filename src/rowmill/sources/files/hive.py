"""The columns that `key=value` folders add to a table: one value a file, typed by looking at all of them.

The file sources put stored and folder columns together with `with_hive`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.sources.files.hive_paths import INTEGER
from rowmill.sources.files.paths import Files
from rowmill.sources.names import columns as columns_of


def hive_columns(files: Files, stored: Container[str]) -> dict[str, pl.Series]:
    """A series per key with one value per file; keys that the files store themselves are left to the files.

    A key whose values are all integers is int64; any other is a string, so `day=01` keeps its zero.
    """
    columns = {}
    for key in dict.fromkeys(key for values in files.hive for key in values):
        if key in stored:
            continue
        values = [_value(files, unit, key) for unit in range(len(files.paths))]
        whole = all(v is None or INTEGER.fullmatch(v) for v in values) and any(v is not None for v in values)
        whole = whole and key not in files.hive_text
        typed = [None if v is None else int(v) for v in values] if whole else values
        columns[key] = pl.Series(key, typed, dtype=pl.Int64() if whole else pl.String())
    return columns


def _value(files: Files, unit: int, key: str) -> str | None:
    if key in files.hive[unit]:
        return files.hive[unit][key]
    has = next(i for i, values in enumerate(files.hive) if key in values)
    raise ArgumentError(
        f"{files.name(unit)} is in no folder {key}=..., as {files.name(has)} is; wanted the same keys for all files; "
        f"move the file into such a folder, or open the files as two datasets"
    )


def with_hive(frame: pl.DataFrame, hive: Mapping[str, pl.Series], unit: int, columns: Sequence[str]) -> pl.DataFrame:
    """The stored columns of a file together with the values of its folders, in the order asked for."""
    added = [pl.lit(hive[c][unit], dtype=hive[c].dtype).alias(c) for c in columns if c in hive]
    return frame.with_columns(added).select(columns_of(columns)) if added else frame
