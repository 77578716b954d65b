"""A table that has been learnt: a frame in memory, or a Parquet file that is read when its rows are first needed."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl


class StatisticTable:
    """Rows that may be on disk. `keeper` is what keeps the file there."""

    def __init__(self, source: pl.DataFrame | Path, keeper: Any = None) -> None:
        self.source = source
        self._keeper = keeper

    @cached_property
    def frame(self) -> pl.DataFrame:
        return self.source if isinstance(self.source, pl.DataFrame) else pl.read_parquet(self.source)

    @cached_property
    def height(self) -> int:
        if isinstance(self.source, pl.DataFrame):
            return self.source.height
        return int(pl.scan_parquet(self.source).select(pl.len()).collect().item())

    def __getstate__(self) -> tuple[pl.DataFrame | Path, Any]:
        return self.source, self._keeper

    def __setstate__(self, state: tuple[pl.DataFrame | Path, Any]) -> None:
        self.source, self._keeper = state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StatisticTable) and self.frame.equals(other.frame)

    __hash__ = None  # type: ignore[assignment]
