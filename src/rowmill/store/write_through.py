"""Write-through: decoded rows go to their store and to their batches in one pass.

Comes in: a decoded fragment and the store that lacks some of its rows. Goes out: nothing; blocks are filled, and pieces
written. Same type as `feed.pack.Columns`. A piece of rows is packed once; from there it is copied to the batches, a
tile at a time, and then written and summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import DtypeError
from rowmill.feed.memory.block import Array, Block, Blocks
from rowmill.feed.pack.pack_columns import Columns
from rowmill.feed.pack.ragged import values_and_offsets
from rowmill.store.huge_page_writer import HugePageWriter
from rowmill.store.mapped_rows import summed
from rowmill.store.segments import Segment
from rowmill.store.store import Store


def keep(store: Store, fragments: Iterable[WriteThrough]) -> None:
    """Write rows that follow each other to the store, and to nowhere else. They are claimed by the caller."""
    windows, packed = HugePageWriter(store), list[Segment]()
    for rows in fragments:
        packed += rows.keep(windows)
        written = [piece for piece in packed if piece.stop <= windows.written]
        store.record(written)
        del packed[: len(written)]
    windows.flush()
    store.record(packed)


class WriteThrough:
    """Decoded rows `first` and on of the table, which are written to the store where it lacks them.

    `failed` is told why the store cannot take them: what the system says, or which value it has no room for.
    """

    def __init__(
        self, store: Store, first: int, columns: Columns, failed: Callable[[OSError | DtypeError], None]
    ) -> None:
        self.rows, self.variable = columns.rows, columns.variable
        self._store, self._first, self._columns, self._failed = store, first, columns, failed
        self._stored = columns.into(store.shape.layout)

    def copy_rows(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on to their places in the blocks, and to the store."""
        done, left = start, start + len(places)
        try:
            with self._store.claim(self._first + start, len(places)) as gaps:
                pieces = list[Segment]()
                for first, rows in self._cut(gaps):
                    if done < first:
                        self._columns.copy_rows(done, places[done - start : first - start], blocks)
                        done = first
                    to = places[first - start : first - start + rows]
                    checksum = self._deal_and_write(first, to, blocks)
                    done = first + rows
                    pieces.append(self._piece(first, rows, checksum))
                self._store.record(pieces)
        except (OSError, DtypeError) as error:
            self._failed(error)
        self._columns.copy_rows(done, places[done - start : left - start], blocks)

    def _deal_and_write(self, first: int, places: NDArray[np.uint32], blocks: Blocks) -> int:
        """Write rows `first` and on, at most a piece, to their places and to the store. Returns their checksum."""
        if not self._stored.layout.matrices:
            return 0
        packed = Block.within(self._stored.layout, len(places), self._store.room())
        self._stored.deal_and_keep(first, places, blocks, packed)
        return self._store.write(self._first + first, packed.matrices)

    def keep(self, windows: HugePageWriter) -> Iterator[Segment]:
        """Pack all rows for the store, and for nothing else. They are claimed by the caller, who writes and records."""
        for first, rows in self._cut([(self._first, self.rows)]):
            packed = windows.block(self._first + first, rows)
            self._stored.pack(first, packed)
            yield self._piece(first, rows, summed(packed.matrices))

    def _cut(self, gaps: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """These rows of the table, numbered within the fragment, in runs that end where pieces end."""
        each = self._store.shape.piece_rows
        for gap, count in gaps:
            first, stop = gap, gap + count
            while first < stop:
                end = min(stop, (first // each + 1) * each)
                yield first - self._first, end - first
                first = end

    def _piece(self, first: int, rows: int, checksum: int) -> Segment:
        return self._store.piece(self._first + first, rows, checksum, self._lists(first, rows))

    def _lists(self, first: int, rows: int) -> list[tuple[Array, Array]]:
        """Values and lengths of the list columns of these rows."""
        if self.variable is None:
            return []
        found = []
        for name in self._store.shape.layout.ragged:
            values, offsets = values_and_offsets(_sliced(self.variable, name, first, rows))
            own = np.ascontiguousarray(values[offsets[0] : offsets[-1]])
            found.append((own, np.diff(offsets).astype(np.int64)))
        return found


def _sliced(frame: pl.DataFrame, name: str, first: int, rows: int) -> pl.Series:
    return frame.get_column(name).slice(first, rows)
