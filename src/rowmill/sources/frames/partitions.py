"""The partitions of a table one after another, as pandas or Polars frames: what `Dataset.to_iter` gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from rowmill._system.forked import check_fork
from rowmill.sources.frames.pandas_frames import check_backend, pandas_frame
from rowmill.sources.source import Fragment, Source

if TYPE_CHECKING:
    import pandas as pd


class Partitions:
    """Partitions to be read one after another; its length is their number of rows."""

    def __init__(
        self, source: Source, fragments: Sequence[Fragment], columns: Sequence[str], dtype_backend: str | None = None
    ) -> None:
        check_backend(dtype_backend)
        self._dtype_backend = dtype_backend
        self.fragments = fragments
        self._source = source
        self._columns = columns

    def __len__(self) -> int:
        return sum(f.rows for f in self.fragments)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return (pandas_frame(frame, self._dtype_backend) for frame in self.polars())

    def polars(self) -> Iterator[pl.DataFrame]:
        """The partitions as Polars frames."""
        check_fork()
        return (self._source.read(fragment, self._columns) for fragment in self.fragments)
