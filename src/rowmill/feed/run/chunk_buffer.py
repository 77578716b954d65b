"""A chunk on its way from empty to full: slices of rows come in, in any order and from several threads; batches go out.

Matrices have room for all rows of the chunk. Lists and strings have sizes that are known only once they are decoded; if
those of the open chunks take more than their share of the memory setting, a chunk keeps the rows of its first batches
only, and the rows of later batches are read again when those are handed out (`refill`). Called by `pipeline`, which
says when a chunk gets blocks to be filled and when its batches are handed out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill._system.heap import trim_heap
from rowmill.errors import MemoryLimitError
from rowmill.feed.memory.block import Array, Batch, Block, Blocks, Layout, Memory
from rowmill.feed.order.plan import Chunk
from rowmill.feed.pack import ragged
from rowmill.feed.pack.pack_columns import RowSource
from rowmill.feed.report.text_table import bytes_text

_TRIMMED_BYTES = 4 << 20  # of Python objects in a chunk, from which on their memory is returned at once

Read = Callable[[int, int, int], Iterator[RowSource]]  # fragment, first row, rows: the rows in slices, in order


class RowPlacement:
    """Where the rows of a chunk go: worked out once, by the thread that asks first, while others wait."""

    def __init__(self, chunk: Chunk, scratch: Memory | None = None) -> None:
        self._chunk = chunk
        self._empty = np.empty if scratch is None else scratch.empty
        self._lock = threading.Lock()
        self._found: NDArray[np.uint32] | None = None

    def get(self) -> NDArray[np.uint32]:
        with self._lock:
            if self._found is None:
                self._found = self._chunk.places(self._empty)
            return self._found


class VariableBytes:
    """The bytes that lists and strings of all open chunks take, and the most they may take."""

    def __init__(self, limit: float = float("inf")) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._taken = 0.0

    def add(self, nbytes: float) -> None:
        with self._lock:
            self._taken += nbytes

    @property
    def exceeded(self) -> bool:
        return self._taken > self.limit


class ChunkBuffer:
    """A chunk on its way from empty to full."""

    def __init__(
        self,
        chunk: Chunk,
        blocks: list[Block],
        layout: Layout | None = None,
        places: RowPlacement | None = None,
        variable_bytes: VariableBytes | None = None,
    ) -> None:
        self.chunk = chunk
        self._blocks = Blocks(blocks)
        self._layout = layout or Layout(())
        self._lock = threading.Lock()
        self._places: RowPlacement | None = places or RowPlacement(chunk)
        self._missing = {span.at: span.at + span.rows for span in chunk.spans}
        self._variable_bytes = variable_bytes or VariableBytes()
        self._first, self._last = 0, chunk.batches  # batches whose lists and strings are kept
        self._pieces: dict[str, dict[int, ragged.Piece]] = {name: {} for name in self._layout.variable}
        self._counted = 0.0  # what `_variable_bytes` has been told of this chunk
        self._ragged: dict[str, ragged.Ragged] = {}
        self._objects: dict[str, Array] = {}
        self._refilling = False
        self.full = not chunk.spans
        self._pad()

    def fill(self, at: int, columns: RowSource, start: int, rows: int) -> bool:
        """Put rows `start` and on of these columns, which are rows `at` and on of the chunk, in their places. True if
        the chunk is now full. The rows of a span come in order."""
        assert self._places is not None
        places = self._places.get()[at : at + rows]
        columns.copy_rows(start, places, self._blocks)
        with self._lock:
            if columns.variable is not None:
                self._keep(at, columns.variable.slice(start, rows), places)
            end = self._missing.pop(at)
            if at + rows < end:
                self._missing[at + rows] = end
            if self._missing:
                return False
            self._finish()
            if self._last == self.chunk.batches:  # else they are needed again
                self._places = None
            self.full = True
        return True

    def _keep(self, at: int, variable: pl.DataFrame, places: NDArray[np.uint32]) -> None:
        """Remember the rows of the batches that are kept."""
        low, high = self._first * self.chunk.batch_rows, self._last * self.chunk.batch_rows
        if low > 0 or high < self.chunk.rows:
            wanted = (places >= low) & (places < high)
            variable, places = variable.filter(pl.Series(wanted)), places[wanted]
        if len(places):
            for name, pieces in self._pieces.items():
                pieces[at] = (variable.get_column(name), places)
                self._count(2 * ragged.nbytes(pieces[at][0]))  # and once more when they are put in order

    def _count(self, nbytes: float) -> None:
        self._counted += nbytes
        self._variable_bytes.add(nbytes)

    def shrink(self) -> bool:
        """Keep half as many batches, or none of the last one. False if there was nothing to give up."""
        with self._lock:
            if self.full or self._refilling or self._counted == 0:
                return False
            self._keep_before(self._first + (self._last - self._first) // 2)
            return True

    def _keep_before(self, last: int) -> None:
        """Forget the lists and strings of batches from `last` on."""
        self._last = last
        high = last * self.chunk.batch_rows
        self._count(-self._counted)
        for pieces in self._pieces.values():
            for at, (series, places) in list(pieces.items()):
                wanted = places < high
                pieces[at] = (series.filter(pl.Series(wanted)), places[wanted])
                self._count(2 * ragged.nbytes(pieces[at][0]))

    def has(self, index: int) -> bool:
        """Whether all columns of this batch are in memory."""
        return not self._layout.variable or self._first <= index < self._last

    def finish(self, batches: int) -> None:
        """Make batches of what has arrived before a failure: this many of them are complete."""
        with self._lock:
            if not self.full:
                self._keep_before(min(self._last, batches))
                self._finish()
                self.full = True

    def refill(self, index: int, last: int, read: Read, relieve: Callable[[], None]) -> None:
        """Read the rows of batch `index`, and as many batches after it as there is memory for, but none from `last`."""
        self._first, self._last = index, last
        self._ragged.clear()
        self._objects.clear()
        self._count(-self._counted)
        self._refilling = True
        assert self._places is not None
        places = self._places.get()
        low = index * self.chunk.batch_rows
        for span in self.chunk.spans:
            if self.chunk.in_order and (span.at + span.rows <= low or span.at >= self._last * self.chunk.batch_rows):
                continue
            at = span.at
            for columns in read(span.fragment, span.start, span.rows):
                assert columns.variable is not None
                self._keep(at, columns.variable, places[at : at + columns.rows])
                at += columns.rows
                self._fit_alone()
            relieve()
        self._finish()

    def _fit_alone(self) -> None:
        """Keep as many batches as half of the limit allows, whatever other chunks take."""
        limit = self._variable_bytes.limit
        while self._counted > limit / 2 and self._last > self._first + 1:
            self._keep_before(self._first + (self._last - self._first) // 2)
        if self._counted > 2 * limit:
            raise MemoryLimitError(
                f"the lists and strings of batch {self.chunk.first_batch + self._first} take more than "
                f"{bytes_text(limit)}, their share of the memory setting; pass a larger memory= or a smaller batch_size"
            )

    def _finish(self) -> None:
        low = self._first * self.chunk.batch_rows
        rows = min(self._last * self.chunk.batch_rows, self.chunk.rows + self.chunk.padding) - low
        for name, pieces in self._pieces.items():
            ordered = [(series, places - np.uint32(low)) for _, (series, places) in sorted(pieces.items())]
            if name in self._layout.objects:
                self._objects[name] = ragged.objects(ordered, max(0, rows))
            else:
                self._ragged[name] = ragged.lists(ordered, max(0, rows))
            pieces.clear()
        self._count(-self._counted / 2)

    def full_before(self, at: int) -> bool:
        return not any(missing < at for missing in list(self._missing))

    def release(self) -> None:
        """Let go of the lists and strings, and of what was counted for them."""
        freed = self._counted
        self._count(-self._counted)
        self._ragged.clear()
        self._objects.clear()
        if self._layout.objects and freed > _TRIMMED_BYTES:
            trim_heap()

    def batch(self, index: int) -> Batch:
        """Batch `index` of this chunk: views of its block."""
        chunk = self.chunk
        first = index * chunk.batch_rows
        last = min(first + chunk.batch_rows, chunk.rows + chunk.padding)
        block, low = self._blocks[first // self._blocks[0].rows], self._first * chunk.batch_rows
        return Batch(
            rows=last - first,
            matrices=block.view(first % block.rows, last - first),
            ragged={name: ragged.slice_rows(column, first - low, last - low) for name, column in self._ragged.items()},
            objects={name: column[first - low : last - low] for name, column in self._objects.items()},
            column_major=block.is_column_major,
            joined=block.joined(first % block.rows, last - first),
            padding=max(0, last - max(first, chunk.rows)),
        )

    def _pad(self) -> None:
        """Zeros in the padding rows of the last batch."""
        if self.chunk.padding and self._blocks:
            block = self._blocks[self.chunk.rows // self._blocks[0].rows]
            for matrix in block.view(self.chunk.rows % block.rows, self.chunk.padding):
                matrix[...] = 0
            if not self.chunk.spans:
                self._finish()
