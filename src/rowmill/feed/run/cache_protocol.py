"""Protocols by which the feed talks to a cache, without knowing how it stores rows.

A loader passes the cache in (`rowmill.store`). A stream describes its table in a `Request` and gets a `CachedTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rowmill.errors import ArgumentError
from rowmill.feed.memory.block import Layout
from rowmill.feed.pack.pack_columns import Decode, RowSource
from rowmill.feed.run.chunk_buffer import Read

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """The table that is to be kept: what it is (`key`), where it comes from (`place`, `source`), how large it is."""

    key: str
    place: str
    source: str
    layout: Layout
    lists: tuple[np.dtype[Any], ...]
    rows: int
    nbytes: int
    memory: int
    problem: str = ""  # why it cannot be kept


class StoredRows(Protocol):
    """A store that has all rows."""

    def gathered(self, rows: NDArray[np.int64]) -> RowSource: ...


class CachedTable(Protocol):
    """The cache of one table: some or all of its rows are stored."""

    def reader(self, decode: Decode, fragment_rows: Sequence[int]) -> Read: ...
    def complete_store(self) -> StoredRows: ...
    def build(self, decode: Decode, fragment_rows: Sequence[int], threads: int) -> None: ...
    def finish(self) -> None: ...
    def text(self) -> str: ...


class Cache(Protocol):
    """A cache setting, which can be bound to a table."""

    def bind(self, request: Request) -> CachedTable: ...


def as_rows(rows: Any, total: int) -> NDArray[np.int64]:
    """Row numbers as an array: from a number, a slice, a list or a mask; negative ones count from the end."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(total), dtype=np.int64)
    array = np.atleast_1d(np.asarray(rows))
    if array.ndim > 1 or (array.size and array.dtype.kind not in "iub"):
        raise ArgumentError(f"rows of shape {array.shape} and dtype {array.dtype}; wanted numbers of rows, in one line")
    if array.dtype == bool:
        if len(array) != total:
            raise ArgumentError(f"a mask of {len(array)} rows for a table of {total}; wanted as many as the table has")
        array = np.flatnonzero(array)
    beyond = (array < -total) | (array >= total)  # before they are cast: 2**64 - 1 would be -1
    if beyond.any():
        raise IndexError(f"row {array[beyond.argmax()]} of a table of {total} rows")
    numbers = array.astype(np.int64)
    return np.where(numbers < 0, numbers + total, numbers)


def is_full(shuffle: Any, cache: Cache | None) -> bool:
    """Whether `shuffle` asks for an order over all rows at once, which needs a cache."""
    if isinstance(shuffle, str) and shuffle != "full":
        raise ArgumentError(f"shuffle={shuffle!r}; wanted True, False or 'full'")
    if shuffle == "full" and cache is None:
        raise ArgumentError(
            "shuffle='full' draws from all rows at once, and there is no cache; pass cache='auto' or a folder, and "
            "call build_cache() once"
        )
    return bool(shuffle == "full")
