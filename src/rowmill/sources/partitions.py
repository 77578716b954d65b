"""The partitions of a table one after another, as pandas or Polars frames: what `Dataset.to_iter` gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from rowmill.sources.frames import as_pandas
from rowmill.sources.source import Fragment, Source

if TYPE_CHECKING:
    import pandas as pd


class Partitions:
    """Partitions to be read one after another; its length is their number of rows."""

    def __init__(self, source: Source, fragments: Sequence[Fragment], columns: Sequence[str]) -> None:
        self.fragments = fragments
        self._source = source
        self._columns = columns

    def __len__(self) -> int:
        return sum(f.rows for f in self.fragments)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return map(as_pandas, self.polars())

    def polars(self) -> Iterator[pl.DataFrame]:
        """The partitions as Polars frames."""
        return (self._source.read(fragment, self._columns) for fragment in self.fragments)
