"""The columns that `key=value` folders add to a table: one value a file, typed by looking at all of them."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence

import polars as pl

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


def hive_columns(hive: Sequence[Mapping[str, str | None]], stored: Container[str]) -> dict[str, pl.Series]:
    """A series per key with one value per file; keys that the files store themselves are left to the files.

    A key whose values are all integers is int64; any other is a string, so `day=01` keeps its zero.
    """
    if not hive:
        return {}
    columns = {}
    for key in hive[0]:
        if key in stored:
            continue
        values = [h[key] for h in hive]
        whole = all(v is None or _INTEGER.fullmatch(v) for v in values) and any(v is not None for v in values)
        typed = [None if v is None else int(v) for v in values] if whole else values
        columns[key] = pl.Series(key, typed, dtype=pl.Int64() if whole else pl.String())
    return columns
