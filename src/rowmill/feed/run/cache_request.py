"""Describes a stream's table for a cache: everything that decides the bytes of a packed row."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import polars as pl

from rowmill.errors import UncomparableError
from rowmill.feed.pack.selection import Selection
from rowmill.feed.run.cache_protocol import Request
from rowmill.sources.source import Fragment, Source


def request(
    source: Source,
    fragments: Sequence[Fragment],
    selection: Selection,
    data: str,
    drawn: str | None,
    row_bytes: float,
    memory: int,
) -> Request:
    """What is to be kept. `data` is the fingerprint of a saved position; `drawn` says by what rows are drawn, if so."""
    layout, lists = selection.layout, ()
    problem = f"column {layout.objects[0]!r}, which holds strings" if layout.objects else ""
    if drawn is not None:
        problem = f"{drawn}, which draws other rows in every epoch"
    if layout.ragged and not problem:
        empty = selection.prepare(source.read(Fragment(0, 0, 0), selection.columns), "an empty table")
        inner = (cast("pl.List", empty.schema[name]).inner for name in layout.ragged)
        lists = tuple(pl.Series([], dtype=cast("Any", dtype)).to_numpy().dtype for dtype in inner)
    try:
        where, state = source.stamp()
    except UncomparableError as error:
        where, state, problem = "", "", str(error)
    made = [expression.meta.serialize() for expression in selection.expressions]
    form = repr((selection.columns, layout, made, pl.__version__))
    rows = sum(fragment.rows for fragment in fragments)
    return Request(
        key=_letters(where, state, form, data),
        place=_letters(where, form),
        source=source.describe(fragments[0]) if fragments else "",
        layout=layout,
        lists=lists,
        rows=rows,
        nbytes=int(rows * row_bytes),
        memory=memory,
        problem=problem,
    )


def _letters(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()
