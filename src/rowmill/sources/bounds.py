"""Between which values the columns of fragments lie, as far as that is known without reading them.

Filters leave out fragments by it, and `latest_values` finds the greatest value of a column. Called by
`rowmill._dataset`; sources that wrap others pass on what those know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import polars as pl

from rowmill.sources.names import column as exactly
from rowmill.sources.source import Fragment, Source, read_slices

Bounds = dict[str, tuple[pl.Series, pl.Series]]
_SLICE_BYTES = 16 << 20


@runtime_checkable
class BoundedSource(Protocol):
    """A source that knows between which values some columns of its fragments lie."""

    def bounds(self, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
        """For each column of which something is known the least and the greatest value of each fragment (null: not
        known). All values but nulls, and NaN of floats, lie between them."""
        ...


def bounds_of(source: Any, fragments: Sequence[Fragment], columns: Sequence[str]) -> Bounds:
    """What a source knows of the values of its fragments; nothing if it knows nothing."""
    return dict(source.bounds(fragments, columns)) if isinstance(source, BoundedSource) else {}


def bounds_of_parts(source: Any, parts: Iterable[Sequence[Fragment]], columns: Sequence[str]) -> Bounds:
    """What a source knows of rows that are given as several of its fragments each."""
    held = list(map(list, parts))
    known = bounds_of(source, [fragment for part in held for fragment in part], columns)
    edges = np.cumsum([0, *map(len, held)]).tolist()
    found: Bounds = {}
    for name, (low, high) in known.items():
        joined: list[tuple[Any, Any]] = []
        for first, last in pairwise(edges):
            least, greatest = low[first:last], high[first:last]
            whole = first < last and not (least.null_count() or greatest.null_count())
            joined.append((least.min(), greatest.max()) if whole else (None, None))
        found[name] = (
            pl.Series(name, [one for one, _ in joined], low.dtype),
            pl.Series(name, [one for _, one in joined], high.dtype),
        )
    return found


def greatest_value(source: Source, column: str) -> Any:
    """The greatest value of a column; None if it has none. Only fragments that may hold it are read."""
    fragments = list(source.fragments)
    known = bounds_of(source, fragments, [column]).get(column)
    highest = [None] * len(fragments) if known is None else known[1].to_list()
    first_unknown = sorted(range(len(fragments)), key=lambda n: (highest[n] is not None, _Reversed(highest[n])))
    found: Any = None
    for number in first_unknown:
        if found is not None and highest[number] is not None and highest[number] <= found:
            break
        for frame in read_slices(source, fragments[number], [column], _SLICE_BYTES):
            value = frame.select(exactly(column).max()).item()
            found = value if found is None or (value is not None and value > found) else found
    return found


class _Reversed:
    """Orders values downwards; nothing is compared with None."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return self.value is not None and other.value is not None and bool(self.value > other.value)
