"""List columns of a store: appended piece by piece while it is built, in table order with offsets once it is complete.

How many values a table's lists have is known when all rows are there, so until then a piece says where its values
begin, and a file of lengths says how many each row has. Called by `store`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from rowmill.errors import DamagedStoreError
from rowmill.feed.memory.block import Array
from rowmill.store import files
from rowmill.store.format import StoreShape
from rowmill.store.segments import Segment

Open = Callable[..., int]


class StoredLists(Protocol):
    """What a store asks of its list columns."""

    def frame(self, pieces: Sequence[Segment], first: int, rows: int) -> pl.DataFrame | None: ...
    def gather(self, rows: NDArray[np.int64]) -> pl.DataFrame | None: ...
    def arrays(self, piece: Segment) -> list[Array] | None: ...


class Growing:
    """List columns of a store that is being built."""

    def __init__(self, shape: StoreShape, open_file: Open) -> None:
        self._shape = shape
        self._appending = threading.Lock()  # the end of a file is found by its handle, which threads share
        self._values: list[int] = []
        self._lengths: list[int] = []
        for number in range(len(shape.lists)):
            self._values.append(open_file(f"lists/values_{number}.part", os.O_RDWR | os.O_APPEND))
            self._lengths.append(open_file(f"lists/lengths_{number}.part"))
            files.allocate(self._lengths[-1], 8 * shape.rows)

    def write(self, start: int, lists: Sequence[tuple[Array, Array]]) -> tuple[int, ...]:
        """Write values and lengths of the rows from `start` on; returns where the values of each column begin."""
        places = []
        for number, (values, lengths) in enumerate(lists):
            with self._appending:
                places.append(files.append(self._values[number], values))
            files.write_at(self._lengths[number], lengths, 8 * start)
        return tuple(places)

    def arrays(self, piece: Segment) -> list[Array] | None:
        """Lengths and values of each column; None if they cannot be those that were written."""
        found: list[Array] = []
        for number, dtype in enumerate(self._shape.lists):
            lengths = _read(self._lengths[number], np.dtype(np.int64), piece.rows, 8 * piece.start)
            size = os.fstat(self._values[number]).st_size - piece.lists[number]
            count = None if lengths is None else _total(lengths, size // dtype.itemsize)
            values = None if count is None else _read(self._values[number], dtype, count, piece.lists[number])
            if lengths is None or values is None:
                return None
            found += [lengths, values]
        return found

    def frame(self, pieces: Sequence[Segment], first: int, rows: int) -> pl.DataFrame | None:
        if not self._shape.lists:
            return None
        parts = []
        for piece in pieces:
            arrays = self.arrays(piece)
            if arrays is None:
                raise DamagedStoreError(f"lists of rows {piece.start} to {piece.stop} have changed")
            pairs = zip(arrays[::2], arrays[1::2], strict=True)
            parts.append(_frame(self._shape, [(v, np.concatenate([[0], np.cumsum(n)])) for n, v in pairs]))
        return pl.concat(parts).slice(first - pieces[0].start, rows)

    def gather(self, rows: NDArray[np.int64]) -> pl.DataFrame | None:
        assert not self._shape.lists, "lists are gathered from a complete store only"
        return None

    def put_in_order(self, pieces: Iterable[Segment], made: dict[str, int], open_file: Open) -> list[int]:
        """Write values and offsets in table order to files of their own; returns the number of values of each."""
        totals = [0] * len(self._shape.lists)
        names = [self._shape.list_files(number) for number in range(len(totals))]
        for pair in names:
            made.update({name: open_file(name) for name in pair})
            os.ftruncate(made[pair[0]], 0)
            files.write_at(made[pair[1]], np.zeros(1, np.int64), 0)
        for piece in pieces:
            arrays = self.arrays(piece)
            if arrays is None:
                raise DamagedStoreError(f"lists of rows {piece.start} to {piece.stop} have changed")
            for number, dtype in enumerate(self._shape.lists):
                lengths, values = arrays[2 * number : 2 * number + 2]
                offsets = totals[number] + np.cumsum(lengths)
                files.write_at(made[names[number][0]], values, totals[number] * dtype.itemsize)
                files.write_at(made[names[number][1]], offsets, 8 * (piece.start + 1))
                totals[number] += len(values)
        return totals


class Complete:
    """List columns of a complete store: mapped values, and `rows + 1` offsets."""

    def __init__(self, shape: StoreShape, counts: Sequence[int], open_file: Open) -> None:
        self._shape, self.counts = shape, list(counts)
        self._handles: list[int] = []
        self._columns: list[tuple[Array, Array]] = []
        for number, (dtype, count) in enumerate(zip(shape.lists, counts, strict=True)):
            sizes = (count * dtype.itemsize, 8 * (shape.rows + 1))
            handles = [open_file(name) for name in shape.list_files(number)]
            for handle, size in zip(handles, sizes, strict=True):
                files.check_size(handle, size)
            values, offsets = (files.mapped(handle, size) for handle, size in zip(handles, sizes, strict=True))
            self._columns.append((values.view(dtype), offsets.view(np.int64)))
            self._handles += handles

    def arrays(self, piece: Segment) -> list[Array] | None:
        found: list[Array] = []
        for values, offsets in self._columns:
            own = offsets[piece.start : piece.stop + 1]
            lengths = np.diff(own)
            if own[0] < 0 or _total(lengths, len(values) - int(own[0])) is None:
                return None
            found += [lengths, values[own[0] : own[-1]]]
        return found

    def frame(self, pieces: Sequence[Segment], first: int, rows: int) -> pl.DataFrame | None:
        if not self._columns:
            return None
        return _frame(self._shape, [(values, offsets[first : first + rows + 1]) for values, offsets in self._columns])

    def gather(self, rows: NDArray[np.int64]) -> pl.DataFrame | None:
        return None if not self._columns else _frame(self._shape, self._columns)[rows]

    def sync(self) -> None:
        for handle in self._handles:
            files.sync(handle)

    def shapes(self) -> dict[str, tuple[np.dtype[Any], list[int]]]:
        """Name, dtype and shape of every file, for `meta.json`."""
        found: dict[str, tuple[np.dtype[Any], list[int]]] = {}
        for number, (values, offsets) in enumerate(self._columns):
            found[f"values_{number}"] = (values.dtype, [len(values)])
            found[f"offsets_{number}"] = (offsets.dtype, [len(offsets)])
        return found


def _read(handle: int, dtype: np.dtype[Any], count: int, offset: int) -> Array | None:
    """So many values from a place in a file; None if the file ends before."""
    held = os.pread(handle, count * dtype.itemsize, offset) if count else b""
    return np.frombuffer(held, dtype) if len(held) == count * dtype.itemsize else None


def _total(lengths: NDArray[np.int64], most: int) -> int | None:
    """The sum of the lengths, if they can be the lengths of lists with at most this many values together."""
    if len(lengths) and (lengths.min() < 0 or lengths.max() > most):
        return None
    total = int(lengths.sum())
    return total if 0 <= total <= most else None


def _frame(shape: StoreShape, columns: Sequence[tuple[Array, Array]]) -> pl.DataFrame:
    """List columns that look into these arrays of values and offsets."""
    made = {
        name: pl.from_arrow(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values)))
        for name, (values, offsets) in zip(shape.layout.ragged, columns, strict=True)
    }
    return pl.DataFrame(made)
