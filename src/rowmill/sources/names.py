"""Columns by their exact names: Polars reads some names, such as `^a.*$`, as patterns.

`pl.col("^a.*$")` selects every column that matches, and `pl.col("*")` selects all of them. `column(name)` selects the
one column of that name. The same holds wherever Polars takes a name as a string: `select`, `group_by`, `sort`, `drop`,
`cast`, `join`. Pass `columns(names)` there instead of the names. Many methods of a Series are such queries too, by the
name of the Series: give it a `safe` name before. `frame_of` puts columns together under their exact names.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from polars import selectors


def is_pattern(name: str) -> bool:
    """Whether Polars reads this name as a pattern: the wildcard `*`, or a regular expression from `^` to `$`."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def column(name: str) -> pl.Expr:
    """The column of exactly this name. (`meta.root_names()` of the result is empty where the name is a pattern.)"""
    return selectors.by_name(name).as_expr() if is_pattern(name) else pl.col(name)


def columns(names: Iterable[str]) -> list[pl.Expr]:
    """The columns of exactly these names, in this order."""
    return [column(name) for name in names]


def safe(name: str) -> str:
    """A name that Polars never reads as a pattern, for frames of our own: the same name where it is none."""
    return f"__column__{name}" if is_pattern(name) or name.startswith(("__", "\0")) else name


def frame_of(series: Iterable[pl.Series]) -> pl.DataFrame:
    """A frame of these columns under their own names; `pl.DataFrame([...])` gives a column without a name another."""
    return pl.DataFrame({each.name: each for each in series})
