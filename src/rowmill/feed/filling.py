"""A chunk on its way from empty to full: spans of rows come in, in any order and from several threads; batches go out.

Called by `feed`, which says when a chunk gets blocks to be filled and when its batches are handed out.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from rowmill.feed import ragged
from rowmill.feed.block import Array, Batch, Block, Blocks, Layout, Memory
from rowmill.feed.pack import Dealer
from rowmill.feed.plan import Chunk, Span


class Places:
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


class Filling:
    """A chunk on its way from empty to full."""

    def __init__(
        self, chunk: Chunk, blocks: list[Block], layout: Layout | None = None, places: Places | None = None
    ) -> None:
        self.chunk = chunk
        self._blocks = Blocks(blocks)
        self._layout = layout or Layout(())
        self._lock = threading.Lock()
        self._places: Places | None = places or Places(chunk)
        self._missing = {span.at for span in chunk.spans}
        self._loose: dict[str, dict[int, ragged.Piece]] = {name: {} for name in self._layout.loose}
        self._ragged: dict[str, ragged.Ragged] = {}
        self._objects: dict[str, Array] = {}
        self.full = not chunk.spans
        self._pad()

    def fill(self, span: Span, columns: Dealer, start: int) -> bool:
        """Put the rows of a span, which begin at row `start` of these columns, in their places. True if now full."""
        assert self._places is not None
        places = self._places.get()[span.at : span.at + span.rows]
        columns.deal(start, places, self._blocks)
        if columns.loose is not None:
            rows = columns.loose.slice(start, span.rows)
            for name, pieces in self._loose.items():
                pieces[span.at] = (rows.get_column(name), places)
        with self._lock:
            self._missing.discard(span.at)
            last = not self._missing
        if last:
            self._finish()
        return last

    def _finish(self) -> None:
        for name in self._layout.ragged:
            self._ragged[name] = ragged.lists(self._in_order(name), self.chunk.rows + self.chunk.padding)
        for name in self._layout.objects:
            self._objects[name] = ragged.objects(self._in_order(name), self.chunk.rows + self.chunk.padding)
        self._loose.clear()
        self._places = None
        self.full = True

    def _in_order(self, name: str) -> list[ragged.Piece]:
        pieces = self._loose[name]
        return [pieces[span.at] for span in self.chunk.spans]

    def full_before(self, at: int) -> bool:
        return not any(missing < at for missing in self._missing)

    def batch(self, index: int) -> Batch:
        """Batch `index` of this chunk: views of its block."""
        chunk = self.chunk
        first = index * chunk.batch_rows
        last = min(first + chunk.batch_rows, chunk.rows + chunk.padding)
        block = self._blocks[first // self._blocks[0].rows]
        return Batch(
            rows=last - first,
            matrices=block.view(first % block.rows, last - first),
            ragged={name: ragged.slice_rows(column, first, last) for name, column in self._ragged.items()},
            objects={name: column[first:last] for name, column in self._objects.items()},
            turned=block.turned,
            joined=block.joined(first % block.rows, last - first),
            padding=max(0, last - max(first, chunk.rows)),
        )

    def _pad(self) -> None:
        """Zeros where the last batch has rows that stand for nothing."""
        if self.chunk.padding and self._blocks:
            block = self._blocks[self.chunk.rows // self._blocks[0].rows]
            for matrix in block.view(self.chunk.rows % block.rows, self.chunk.padding):
                matrix[...] = 0
            if not self.chunk.spans:
                self._finish()
