"""Write-through: decoded rows go to their store and to their batches in one pass.

Comes in: a decoded fragment and the store that lacks some of its rows. Goes out: nothing; blocks are filled, and pieces
written. Same type as `feed.pack.Columns`. A strip of rows is packed once into memory that stays in the cache; from
there it is dealt to the batches, summed, and written (`kernels.hand_on`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import DtypeError
from rowmill.feed.block import Array, Blocks
from rowmill.feed.pack import Columns, Way, strip_rows
from rowmill.feed.ragged import values_and_offsets
from rowmill.store.checksum import LANES
from rowmill.store.kernels import UNFIT, hand_on
from rowmill.store.pieces import Piece
from rowmill.store.read import summed
from rowmill.store.store import Store
from rowmill.store.windows import Windows

SUMMED_ROWS = 4 * LANES  # of any size give each lane of a checksum as many words
NO_ORDERS = np.empty((0, 6), np.uint64)


def keep(store: Store, fragments: Iterable[WriteThrough]) -> None:
    """Write rows that follow each other to the store, and to nowhere else. They are claimed by the caller."""
    windows, packed = Windows(store), list[Piece]()
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
        self.rows, self.loose = columns.rows, columns.loose
        self._store, self._first, self._columns, self._failed = store, first, columns, failed
        self._stored = columns.into(store.shape.layout)

    def deal(self, start: int, places: NDArray[np.uint32], blocks: Blocks) -> None:
        """Write rows `start` and on to their places in the blocks, and to the store."""
        done, left = start, start + len(places)
        try:
            with self._store.claim(self._first + start, len(places)) as gaps:
                pieces, way = list[Piece](), _Way(self._store, blocks)
                for first, rows in self._cut(gaps):
                    if done < first:
                        self._columns.deal(done, places[done - start : first - start], blocks)
                        done = first
                    to = places[first - start : first - start + rows]
                    checksum = way.hand_on(self._stored, first, to, self._first + first)
                    done = first + rows
                    pieces.append(self._piece(first, rows, checksum))
                self._store.record(pieces)
        except (OSError, DtypeError) as error:
            self._failed(error)
        self._columns.deal(done, places[done - start : left - start], blocks)

    def keep(self, windows: Windows) -> Iterator[Piece]:
        """Pack all rows for the store, and for nothing else. They are claimed by the caller, who writes and records."""
        for first, rows in self._cut([(self._first, self.rows)]):
            packed = windows.block(self._first + first, rows)
            self._stored.stack(first, packed)
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

    def _piece(self, first: int, rows: int, checksum: int) -> Piece:
        return self._store.piece(self._first + first, rows, checksum, self._lists(first, rows))

    def _lists(self, first: int, rows: int) -> list[tuple[Array, Array]]:
        """Values and lengths of the list columns of these rows."""
        if self.loose is None:
            return []
        found = []
        for name in self._store.shape.layout.ragged:
            values, offsets = values_and_offsets(_sliced(self.loose, name, first, rows))
            own = np.ascontiguousarray(values[offsets[0] : offsets[-1]])
            found.append((own, np.diff(offsets).astype(np.int64)))
        return found


class _Way(Way):
    """The same, and on to the files of a store."""

    def __init__(self, store: Store, blocks: Blocks) -> None:
        strip = strip_rows(store.shape.layout, store.shape.piece_rows, SUMMED_ROWS)
        super().__init__(store.shape.layout, blocks, strip, store.room())
        self._files = np.array(store.handles, np.int32)

    def hand_on(self, columns: Columns, first: int, places: NDArray[np.uint32], start: int) -> int:
        """Pack rows `first` and on of the columns, and write them to places, and to the store as rows `start` and on.
        Returns their checksum."""
        if not columns.layout.matrices:
            return 0
        orders, checksum, error = columns.orders(first, len(places)), 0, UNFIT
        if orders is not None:
            _, packed = self.packed(self.strip)
            checksum, error = hand_on(*orders, self.strip, *packed, places, *self.to, self._files, start)
        if error == UNFIT:
            block, packed = self.packed(len(places))
            columns.stack(first, block)
            checksum, error = hand_on(NO_ORDERS, 0, len(places), *packed, places, *self.to, self._files, start)
        if error:
            raise OSError(int(error), os.strerror(error))
        return int(checksum)


def _sliced(frame: pl.DataFrame, name: str, first: int, rows: int) -> pl.Series:
    return frame.get_column(name).slice(first, rows)
