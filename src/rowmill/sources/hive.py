"""The columns that `key=value` folders add to a table: one value a file, typed by looking at all of them.

The file sources put stored and folder columns together with `with_hive`, after `check_columns` has let the
names pass.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping, Sequence

import polars as pl

from rowmill.errors import ColumnError, closest
from rowmill.sources.arrow_types import Unreadable, refusal
from rowmill.sources.names import columns as columns_of

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


def with_hive(frame: pl.DataFrame, hive: Mapping[str, pl.Series], unit: int, columns: Sequence[str]) -> pl.DataFrame:
    """The stored columns of a file together with the values of its folders, in the order asked for."""
    added = [pl.lit(hive[c][unit], dtype=hive[c].dtype).alias(c) for c in columns if c in hive]
    return frame.with_columns(added).select(columns_of(columns)) if added else frame


def check_columns(columns: Sequence[str], known: Collection[str], where: str) -> None:
    """Refuse a name that is no column, and say which one was probably meant; and a column that cannot be read."""
    for name in columns:
        if name not in known:
            raise ColumnError(f"no column {name!r} in {where}{closest(name, known)}")
        if isinstance(known, Mapping) and isinstance(known[name], Unreadable):
            raise refusal(name, known[name])
