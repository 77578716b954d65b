"""Writes packed rows to the files of a store in whole huge pages.

Comes in: piece after piece, packed into memory that is lent here. Goes out: writes of whole huge pages, as far as rows
follow each other. What is written as a whole of 2 MB the page cache keeps in one huge page, and reading rows in random
order then takes half to two thirds of the time. But on a virtual machine that returns free memory to its host
(`page_reporting`), getting huge pages back takes longer than decoding what is stored in them: 3 seconds a GB on ours.
So they are for those who build a store and wait for it; an epoch writes less at a time. Called by `write`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rowmill.feed.memory.block import Block, carved, carved_bytes
from rowmill.store.store import Store

HUGE = 2 << 20


class HugePageWriter:
    """Room for packed rows that follow each other, for each file of a store. `flush` writes the last of them."""

    def __init__(self, store: Store) -> None:
        self._store, shape = store, store.shape
        sizes = [
            min(HUGE + shape.piece_rows * matrix.row_bytes, size)
            for matrix, (_, size) in zip(shape.layout.matrices, shape.files, strict=True)
        ]
        memory = carved(store.scratch.take(carved_bytes(sizes)), sizes)
        self._rooms = [_Room(store, number, given) for number, given in enumerate(memory)]

    def block(self, start: int, rows: int) -> Block:
        """Room for rows `start` and on, at most a piece of them; gone with the next call."""
        return Block(self._store.shape.layout, rows, [room.after(start, rows) for room in self._rooms])

    @property
    def written(self) -> int:
        """All rows before this one have been written, of those that were packed here."""
        return min((room.written for room in self._rooms), default=0)

    def flush(self) -> None:
        """Write what has not been written yet."""
        for room in self._rooms:
            room.flush()


class _Room:
    """Bytes for one file that stand one after another in it, as many as a window and a piece."""

    def __init__(self, store: Store, number: int, memory: NDArray[np.uint8]) -> None:
        self._store, self._number, self._memory = store, number, memory
        self._row_bytes = store.shape.layout.matrices[number].row_bytes
        self._begin = self._end = 0  # the bytes of the file that are held

    def after(self, start: int, rows: int) -> NDArray[np.uint8]:
        """Room for these rows. Windows that are whole by now are written, and so is all that they do not follow."""
        begin, size = start * self._row_bytes, rows * self._row_bytes
        self._write(self._end if begin != self._end else self._end // HUGE * HUGE)
        if begin != self._end:
            self._begin = begin
        self._end = begin + size
        return self._memory[begin - self._begin : self._end - self._begin]

    @property
    def written(self) -> int:
        return self._begin // self._row_bytes

    def flush(self) -> None:
        self._write(self._end)

    def _write(self, end: int) -> None:
        """Write what is held up to this byte of the file, and move the rest to the front."""
        if end <= self._begin:
            return
        done, held = end - self._begin, self._end - self._begin
        self._store.write_bytes(self._number, self._memory[:done], self._begin, HUGE)
        self._memory[: held - done] = self._memory[done:held]
        self._begin = end
