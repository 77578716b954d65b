"""A cache of Parquet files that were opened before: a footer is parsed once, not for every row group.

A file of 64 row groups took a fifth longer to read when it was parsed for each of them, and a larger one longer still.
Called by `parquet_source`, from any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from pyarrow.fs import LocalFileSystem

from rowmill._system.lock import Lock
from rowmill.sources.files.pins import Pins, tail
from rowmill.sources.parquet.footers import Leaf

if TYPE_CHECKING:
    from rowmill.sources.parquet.pages import PageTable

MOST_CELLS = 50_000  # row groups times columns whose metadata are kept: some 900 bytes each


@dataclass(frozen=True, slots=True)
class Scan:
    """A file as Polars reads it, and where its pages are."""

    frame: pl.LazyFrame
    pages: PageTable


class Scans:
    """Scans by number of the file, those used last."""

    def __init__(self, paths: Sequence[str], pins: Pins) -> None:
        self._paths, self._pins = paths, pins
        self._lock = Lock()
        self._cells = 0
        self._kept: dict[int, tuple[int, Scan]] = {}

    def of(self, unit: int, group_rows: Sequence[int], leaves: Sequence[Leaf]) -> Scan:
        """The scan of a file, whose footer must be the one that was pinned."""
        with self._lock:
            kept = self._kept.pop(unit, None)
            if kept is not None:
                self._kept[unit] = kept  # last again
                return kept[1]
        scan = self._new(unit, group_rows, leaves)
        with self._lock:
            if unit not in self._kept:
                self._kept[unit] = (len(group_rows) * len(leaves), scan)
                self._cells += self._kept[unit][0]
            while self._cells > MOST_CELLS and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._cells -= self._kept.pop(oldest)[0]
        return scan

    def _new(self, unit: int, group_rows: Sequence[int], leaves: Sequence[Leaf]) -> Scan:
        from rowmill.sources.parquet.pages import PageTable

        path = self._paths[unit]
        with LocalFileSystem().open_input_file(path) as file:
            footer, size = tail(file, "parquet"), file.size()
        self._pins.check_footer(unit, footer)
        pages = PageTable(footer, path, size, group_rows, leaves)  # before Polars parses the footer
        return Scan(pl.scan_parquet(path, glob=False, hive_partitioning=False, cache=False), pages)

    def __reduce__(self) -> tuple[type[Scans], tuple[Sequence[str], Pins]]:
        return Scans, (self._paths, self._pins)
