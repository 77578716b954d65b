"""Checks the pages of Parquet columns before they are decoded: their sizes, row counts and checksums.

A footer and an open file in, nothing or `DataFileError` out. A decoder allocates what page headers ask for, and does
not compare checksums, so both are done here. Headers are checked once for each column of a row group; checksums, where
the writer stored them, whenever a page is read. Called by `parquet_source`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence

import numpy as np
from isal.isal_zlib import crc32

from rowmill._system.handles import open_handle, read_at, read_into
from rowmill.errors import DataFileError
from rowmill.sources.parquet.footers import Leaf
from rowmill.sources.parquet.slices import ColumnSize
from rowmill.sources.parquet.thrift import Page, RowGroup, page_header, parse_footer

_UNCHECKED = -1
_HEADER = 512  # bytes read to find a page header; statistics of long strings make it longer
_LONGEST_HEADER = 16 << 20
_BUFFER = 4 << 20  # bytes of a page that are read at once to sum them
_SLACK = 1 << 10  # old writers leave page headers out of the sizes in the footer
_CODECS = {1: 24, 2: 1040, 5: 256, 7: 256}  # Snappy, gzip, LZ4: no byte of theirs expands to more bytes than this


class PageTable:
    """The row groups of one file, checked against each other; `check` goes on to their pages."""

    def __init__(self, footer: bytes, path: str, size: int, group_rows: Sequence[int], leaves: Sequence[Leaf]) -> None:
        """`footer`: the end of the file, of `size` bytes in all. `group_rows` is what the dataset was planned with."""
        self.path = path
        self._leaves = leaves
        self._data_end = size - len(footer)
        try:
            rows, self.groups = parse_footer(footer[:-8])
        except ValueError as error:
            raise self._damaged(f"a footer that cannot be read ({error})") from None
        if rows != sum(group_rows) or [group.rows for group in self.groups] != list(group_rows):
            raise self._damaged("row groups with other numbers of rows than the footer")
        for number, group in enumerate(self.groups):
            self._check_group(number, group)
        self._largest = np.full((len(self.groups), len(leaves)), _UNCHECKED)  # bytes of the largest page, decompressed
        self._sums: dict[tuple[int, int], list[tuple[int, int, int]]] = {}  # position, size and CRC-32 of pages

    def _damaged(self, what: str, group: int | None = None) -> DataFileError:
        where = self.path if group is None else f"{self.path}, row group {group}"
        return DataFileError(f"{where} is damaged: it has {what}; write the file again or leave it out")

    def _check_group(self, number: int, group: RowGroup) -> None:
        if group.width != len(self._leaves):
            raise self._damaged(f"{group.width} columns where the schema has {len(self._leaves)}", number)
        for place, leaf in enumerate(self._leaves):
            chunk = group.column(place)
            if chunk.values < group.rows or (chunk.values > group.rows and not leaf.repeated):
                raise self._damaged(
                    f"{chunk.values:,} values in column {leaf.column!r} and {group.rows:,} rows", number
                )
            if min(chunk.uncompressed, chunk.compressed, chunk.data_offset) < 0 or chunk.start < 0:
                raise self._damaged(f"a negative size or offset of column {leaf.column!r}", number)
            if chunk.start + chunk.compressed > self._data_end:
                raise self._damaged(f"a column {leaf.column!r} that ends beyond the data", number)

    def leaf_numbers(self, columns: Iterable[str]) -> list[int]:
        """The leaves of these columns."""
        wanted = set(columns)
        return [number for number, leaf in enumerate(self._leaves) if leaf.column in wanted]

    def sizes(self, groups: Iterable[int], columns: Sequence[str]) -> list[ColumnSize]:
        """The bytes of these columns in these row groups together."""
        found = {name: ColumnSize(name) for name in columns}
        leaves = self.leaf_numbers(columns)
        for group in groups:
            for leaf in leaves:
                name, repeated = self._leaves[leaf].column, self._leaves[leaf].repeated
                found[name] = found[name].plus(self.groups[group].column(leaf), repeated)
        return list(found.values())

    def largest_page(self, groups: Iterable[int], columns: Sequence[str]) -> int:
        """The most bytes that a page of these columns, which have been checked, takes once decompressed."""
        leaves = self.leaf_numbers(columns)
        return max((int(self._largest[group, leaf]) for group in groups for leaf in leaves), default=0)

    def check(self, groups: Iterable[int], columns: Sequence[str], verify: bool) -> None:
        """Raise `DataFileError` if a page of these columns cannot be what its header says, or (with `verify`) is not
        what its checksum says."""
        leaves = self.leaf_numbers(columns)
        cells = [(group, leaf) for group in groups for leaf in leaves]
        todo = [cell for cell in cells if self._largest[cell] == _UNCHECKED or (verify and cell in self._sums)]
        if not todo:
            return
        with open_handle(self.path, os.O_RDONLY) as file:
            handle = file.fileno()
            for group, leaf in todo:
                if self._largest[group, leaf] == _UNCHECKED:
                    sums, largest = self._check_pages(handle, group, leaf)
                    if sums:
                        self._sums[group, leaf] = sums
                    self._largest[group, leaf] = largest
                if verify and (group, leaf) in self._sums:
                    self._verify(handle, group, leaf)

    def _verify(self, handle: int, number: int, leaf: int) -> None:
        for at, size, wanted in self._sums[number, leaf]:
            if _checksum(handle, size, at) != wanted:
                column = self._leaves[leaf].column
                raise self._damaged(
                    f"a page of column {column!r} at byte {at:,} whose checksum does not match its bytes", number
                )

    def _check_pages(self, handle: int, number: int, leaf: int) -> tuple[list[tuple[int, int, int]], int]:
        """Check the headers of a column's pages; returns position, size and checksum of those that have one, and the
        bytes of the largest once decompressed."""
        chunk, column = self.groups[number].column(leaf), self._leaves[leaf].column
        at, values, largest = chunk.start, 0, 0
        sums: list[tuple[int, int, int]] = []
        while values < chunk.values:
            page = self._header(handle, at, number, column)
            problem = self._problem(page, at, chunk.codec, chunk.uncompressed, chunk.values - values)
            if problem:
                raise self._damaged(f"a page of column {column!r} at byte {at:,} with {problem}", number)
            at += page.header
            if page.crc is not None:
                sums.append((at, page.compressed, page.crc))
            at += page.compressed
            values += page.values if page.holds_data else 0
            largest = max(largest, page.uncompressed)
        return sums, largest

    def _header(self, handle: int, at: int, number: int, column: str) -> Page:
        size = _HEADER
        while True:
            data = read_at(handle, min(size, max(0, self._data_end - at)), at)
            try:
                return page_header(data)
            except IndexError:
                if len(data) == size < _LONGEST_HEADER:
                    size *= 16
                    continue
                reason = "it ends too early"
            except ValueError as error:
                reason = str(error)
            raise self._damaged(f"a page of column {column!r} at byte {at:,} without a header ({reason})", number)

    def _problem(self, page: Page, at: int, codec: int, uncompressed: int, values_left: int) -> str:
        """What is impossible about a page header, or nothing."""
        if page.compressed < 0 or page.uncompressed < 0 or at + page.header + page.compressed > self._data_end:
            return "a size beyond the file's"
        if page.uncompressed > uncompressed + _SLACK or page.level_bytes > min(page.compressed, page.uncompressed):
            return f"{page.uncompressed:,} bytes once decompressed, more than its column has"
        if codec == 0 and page.kind != 3 and page.uncompressed != page.compressed:
            return "two sizes, though it is not compressed"
        if page.uncompressed > _CODECS.get(codec, 1 << 31) * (page.compressed + 64):
            return f"{page.compressed:,} bytes that cannot expand to {page.uncompressed:,}"
        if page.kind not in (0, 1, 2, 3):
            return f"the unknown kind {page.kind}"
        if page.holds_data and not 0 <= page.values <= values_left:
            return f"{page.values:,} values where {values_left:,} are left"
        if page.kind == 2 and not 0 <= page.values <= max(1, page.uncompressed) * 8:
            return f"a dictionary of {page.values:,} values in {page.uncompressed:,} bytes"
        return ""


_buffers = threading.local()


def _checksum(handle: int, size: int, at: int) -> int:
    """The CRC-32 of bytes of a file, read into memory that the thread keeps: new memory costs as much as reading."""
    buffer = getattr(_buffers, "buffer", None)
    if buffer is None or len(buffer) < min(size, _BUFFER):
        buffer = _buffers.buffer = memoryview(bytearray(min(max(size, 1 << 20), _BUFFER)))
    total = 0
    while size:
        read = read_into(handle, buffer[: min(size, len(buffer))], at)
        if read == 0:
            return -1  # the file ends here
        total = crc32(buffer[:read], total)
        size, at = size - read, at + read
    return total
