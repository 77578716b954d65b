"""Reads the rows of a table as columns ready for packing: fragment and rows in, `Columns` out.

The rows come from the source as they are, or as they were drawn by weight. Called by `run.stream`, in reading threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from rowmill._system.forked import check_fork
from rowmill.feed.order.plan import Span
from rowmill.feed.order.weighted_sampling import Draw
from rowmill.feed.pack.pack_columns import Columns, Decode
from rowmill.feed.pack.selection import Selection
from rowmill.sources.files.added_files import loader_files
from rowmill.sources.locate import stored_table
from rowmill.sources.source import Fragment, Source, read_slices
from rowmill.sources.summary import version_text


@dataclass(frozen=True)
class TableReader:
    """A table, the columns that are wanted of it, and how much is decoded at once."""

    source: Source
    selection: Selection
    fragments: Sequence[Fragment]
    draw: Draw | None
    slice_bytes: int
    threads: int

    def decoder(self, epoch: int, seed: int) -> Decode:
        """A function that reads rows of a fragment, decoded and prepared, in slices that fit in memory."""
        return partial(self._read, epoch, seed)

    def _read(self, epoch: int, seed: int, fragment: int, start: int, rows: int) -> Iterator[Columns]:
        for frame in self._frames(epoch, seed, fragment, start, rows):
            prepared = self.selection.prepare(frame, self.describe(epoch, seed, fragment, start, rows))
            del frame  # or there would be two slices in memory while the next is read
            yield Columns(prepared, self.selection.layout)

    def _frames(self, epoch: int, seed: int, fragment: int, start: int, rows: int) -> Iterator[pl.DataFrame]:
        check_fork()
        if self.draw is not None:
            return iter([self._drawn(epoch, seed, fragment, start, rows, self.selection.columns)])
        found = self.fragments[fragment].slice(start, rows)
        return read_slices(self.source, found, self.selection.columns, self.slice_bytes)

    def _drawn(
        self, epoch: int, seed: int, fragment: int, start: int, rows: int, columns: Sequence[str]
    ) -> pl.DataFrame:
        assert self.draw is not None
        drawn = self.draw.drawn(self.fragments, seed, epoch, self.threads)[fragment]
        return self.draw.read(drawn, columns)[start : start + rows]

    def column(self, span: Span, name: str, epoch: int, seed: int) -> pl.Series:
        """One column of the rows of a span."""
        if self.draw is None:
            frame = self.source.read(self.fragments[span.fragment].slice(span.start, span.rows), [name])
        else:
            frame = self._drawn(epoch, seed, span.fragment, span.start, span.rows, [name])
        return frame.get_column(name)

    def describe(self, epoch: int, seed: int, fragment: int, start: int, rows: int) -> str:
        """Where these rows stand: file and row group, for errors."""
        if self.draw is None:
            return self.source.describe(self.fragments[fragment].slice(start, rows))
        return self.source.describe(self.draw.drawn(self.fragments, seed, epoch, self.threads)[fragment].fragment)

    @property
    def drawn_by(self) -> str | None:
        """What rows are drawn by, or None if each row is read once."""
        return None if self.draw is None else self.draw.name

    def table_facts(self) -> dict[str, Any]:
        """What a saved position says of the table, for programs that have no loader of it: see `batch_rows`."""
        return {
            "table": stored_table(self.source).fingerprint(),
            "version": version_text(self.source),
            "files": loader_files(self.source),
            "drawn_by": self.drawn_by,
        }

    def fingerprints(self) -> dict[str, str]:
        """What is read, in 16 letters each: the source's own fingerprint, and the columns and what is made of them."""
        layout = self.selection.layout
        made = [(m.dtype.name, m.columns, m.widths) for m in layout.matrices]
        columns = repr((self.selection.columns, made, layout.variable, self.drawn_by))
        return {"data": self.source.fingerprint(), "columns": hashlib.sha256(columns.encode()).hexdigest()[:16]}
