"""Rows dealt into files: frames in, a few files on disk out, each small enough to be in memory alone.

Shuffling a table larger than memory deals rows at random and then permutes each file; that is a uniform
permutation of the whole. Grouping by key deals rows by the hash of the key.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
from numpy.random import Generator
from numpy.typing import NDArray

from rowmill.errors import reading, writing
from rowmill.sources.files.temporary_files import Keeper, temporary_folder
from rowmill.sources.source import Fragment, Source

_BUCKET_BYTES = 64 << 20
_GATHER_ROWS = 131_072
_MOST = 256  # files open at once; most systems allow 1024 to a process


class Buckets:
    """`count` Arrow files being written side by side; used as a context, then read one by one."""

    def __init__(self, folder: Path, count: int) -> None:
        self.paths = [folder / f"{i}.arrow" for i in range(count)]
        self._writers: list[Any] = [None] * count

    def __enter__(self) -> Buckets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers:
            if writer is not None:
                with writing("temporary files") if error is None else contextlib.suppress(Exception):
                    writer.close()

    def add(self, frame: pl.DataFrame, ids: NDArray[Any]) -> None:
        """Append each row to the file with its number."""
        order = np.argsort(ids, kind="stable")
        edges = np.searchsorted(ids[order], np.arange(len(self.paths) + 1))
        dealt = frame[order].to_arrow()
        for i, path in enumerate(self.paths):
            if edges[i + 1] > edges[i]:
                with writing(path):
                    if self._writers[i] is None:
                        self._writers[i] = pa.ipc.new_file(str(path), dealt.schema)
                    self._writers[i].write_table(dealt.slice(edges[i], edges[i + 1] - edges[i]))

    def written(self) -> list[Path]:
        """The files that got any row."""
        return [path for path, writer in zip(self.paths, self._writers, strict=True) if writer is not None]


def shuffled(
    source: Source, fragments: Sequence[Fragment], columns: Sequence[str], generator: Generator
) -> Iterator[pl.DataFrame]:
    """All rows of the fragments in an order drawn uniformly at random, in frames of bounded size."""
    size = sum(f.rows for f in fragments) * source.row_bytes(columns)
    count = min(_MOST, math.ceil(size / _BUCKET_BYTES))
    if count <= 1:
        frames = [source.read(f, columns) for f in fragments]
        if frames:
            yield from _permuted(pl.concat(frames, rechunk=True), generator)
        return
    keeper = Keeper()
    with Buckets(temporary_folder(keeper), count) as buckets:
        for fragment in fragments:
            frame = source.read(fragment, columns)
            buckets.add(frame, generator.integers(0, count, frame.height, dtype=np.uint16))
    for path in buckets.written():
        with reading(path):
            frame = pl.read_ipc(path).rechunk()
        yield from _permuted(frame, generator)
        path.unlink()


def _permuted(frame: pl.DataFrame, generator: Generator) -> Iterator[pl.DataFrame]:
    """The rows in random order, gathered a few at a time: a second copy of the whole is never there."""
    order = generator.permutation(frame.height)
    for start in range(0, frame.height, _GATHER_ROWS):
        yield frame[order[start : start + _GATHER_ROWS]]
