"""Counts that do not fit in memory: written to a temporary folder in shards by hash, added up one shard at a time."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import finalize

import numpy as np
import polars as pl

from rowmill.errors import writing
from rowmill.sources.names import columns
from rowmill.statistics.values import hashes

SHARDS = 64


@dataclass
class Spilled:
    """Folders of Parquet files named by their shard. The folders go when the last who knows of them goes."""

    folders: tuple[Path, ...]

    @classmethod
    def new(cls) -> Spilled:
        made = cls((Path(tempfile.mkdtemp(prefix="rowmill-counts-")),))
        finalize(made, _remove, made.folders)
        return made

    def __add__(self, other: Spilled) -> Spilled:
        both = Spilled((*self.folders, *other.folders))
        both._parts = (self, other)  # type: ignore[attr-defined]  # they remove their folders when they go
        return both

    def write(self, counted: pl.DataFrame | None, keys: Sequence[str]) -> None:
        for number, part in enumerate(shards(counted, keys, SHARDS) if counted is not None else ()):
            if part.height:
                path = self.folders[0] / f"{number:02}.{uuid.uuid4().hex}.parquet"
                with writing(path):
                    part.write_parquet(path, compression="lz4")

    def total(self, held: pl.DataFrame | None, keys: Sequence[str], count: str) -> pl.DataFrame:
        """All values, each once, with the sum of its counts."""
        self.write(held, keys)
        summed = []
        for number in range(SHARDS):
            files = sorted(path for folder in self.folders for path in folder.glob(f"{number:02}.*.parquet"))
            if files:
                parts = pl.concat([pl.read_parquet(path) for path in files], how="vertical_relaxed")
                summed.append(parts.group_by(columns(keys)).agg(pl.col(count).sum()))
        return pl.concat(summed, how="vertical_relaxed")


def _remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def shards(counted: pl.DataFrame, keys: Sequence[str], count: int) -> Iterator[pl.DataFrame]:
    """The values in `count` parts by hash: a value is in the same part wherever it was counted."""
    part = pl.Series("part", hashes([counted.get_column(key) for key in keys]) % np.uint64(count))
    for number in range(count):
        yield counted.filter(part == number)
