"""What a statistic is: something that is learnt from the rows of a table, piece by piece, in any order.

An engine folds frames into accumulators and merges these. Everything here is exact: merging is associative and
commutative to the bit, so that neither threads nor the order of fragments nor the engine shows in the result.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import polars as pl

A = TypeVar("A")
KEEP = 1 << 18  # values that are kept for `resume` alone, where a statistic's `keep` says nothing else; None: all


class Statistic(Protocol[A]):
    """Frozen, and equal to another of the same settings. `A` is what it accumulates into."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it looks at."""
        ...

    def start(self) -> A:
        """An accumulator that has seen no row."""
        ...

    def update(self, seen: A, frame: pl.DataFrame) -> A:
        """The accumulator after these rows; it may be the same object, changed."""
        ...

    def merge(self, left: A, right: A) -> A:
        """One accumulator that has seen what both have; either may be used up."""
        ...

    def finish(self, seen: A) -> Any:
        """The result."""
        ...

    def kept(self, result: Any) -> Any:
        """What `resume` needs of a result; None if that is too large to be kept by default (see `KEEP`)."""
        ...

    def resume(self, kept: Any) -> A:
        """An accumulator that has seen what was kept, to go on with more rows."""
        ...
