"""Reads the two Parquet structures that decide what a decoder allocates: a file's footer and the headers of its pages.

Bytes in, integers out, or `ValueError` where the bytes are not what they claim to be (`IndexError` inside, where more
bytes are needed). Every length is compared with the bytes that are left before it is used, so no input makes this
module allocate or loop beyond its own size. Parquet encodes both structures in Thrift's compact protocol. Called by
`pages`, before Polars decodes: decoders allocate what a damaged file asks for, and abort the process where they cannot.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, fields

_MAX_DEPTH = 24
_TRUE, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT = 1, 3, (4, 5, 6), 7, 8, (9, 10), 11, 12


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column of one row group, as the footer describes it. `raw_bytes`: of its strings once decoded."""

    physical: int
    codec: int
    values: int
    uncompressed: int
    compressed: int
    data_offset: int
    dictionary_offset: int  # 0: no dictionary
    raw_bytes: int  # -1: unknown

    @property
    def is_text(self) -> bool:
        """Whether its values are texts or bytes of any length."""
        return self.physical == 6

    @property
    def start(self) -> int:
        """The position of the first page."""
        return self.data_offset if not self.dictionary_offset else min(self.dictionary_offset, self.data_offset)


_FIELDS = len(fields(ColumnChunk))


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of a row group, and its columns in the order of the schema's leaves.

    The numbers of all columns stand in one array: files of many small row groups have millions of them.
    """

    rows: int
    numbers: array[int]

    @property
    def width(self) -> int:
        return len(self.numbers) // _FIELDS

    @property
    def columns(self) -> tuple[ColumnChunk, ...]:
        return tuple(self.column(leaf) for leaf in range(self.width))

    def column(self, leaf: int) -> ColumnChunk:
        return ColumnChunk(*self.numbers[leaf * _FIELDS : (leaf + 1) * _FIELDS])


@dataclass(frozen=True, slots=True)
class Page:
    """The header of a page. `values` and `encoding` are -1 if unknown, `rows` is known in pages of version 2 only;
    `crc` is unsigned."""

    kind: int
    uncompressed: int
    compressed: int
    crc: int | None
    values: int
    encoding: int
    rows: int | None
    level_bytes: int
    header: int  # its own length

    @property
    def holds_data(self) -> bool:
        return self.kind in (0, 3)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    for shift in range(7, 64, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128 and value < 1 << 64:
            return value, at
    raise ValueError("a number longer than 64 bits")


def _integer(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """A field that must be a signed integer."""
    if kind not in _INTEGERS:
        raise ValueError("a field of another type than the format says")
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _field(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """The number and type of a struct's next field, and the position of its value. Type 0: the struct ends here."""
    byte = data[at]
    at += 1
    if byte == 0:
        return 0, 0, at
    if byte > 15:
        return last + (byte >> 4), byte & 15, at
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), byte & 15, at


def _elements(data: bytes, at: int) -> tuple[int, int, int]:
    """The number and type of a list's elements, and the position of the first."""
    byte = data[at]
    at += 1
    count, kind = byte >> 4, byte & 15
    if count == 15:
        count, at = _varint(data, at)
    if count > len(data) - at:  # an element takes a byte at least
        raise IndexError("a list longer than the bytes that hold it")
    return count, kind, at


def _structs(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """The number of elements of a field that must be a list of structs, and the position of the first."""
    if kind not in _LISTS:
        raise ValueError("a field of another type than the format says")
    count, element, at = _elements(data, at)
    if count and element != _STRUCT:
        raise ValueError("a list of another type than the format says")
    return count, at


def _skip(data: bytes, at: int, kind: int, depth: int = 0, in_list: bool = False) -> int:
    """The position after a value of any type."""
    if kind in _INTEGERS:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _varint(data, at)
        if size > len(data) - at:
            raise IndexError("a text longer than the bytes that hold it")
        return at + size
    if kind <= 2 and kind:  # true and false have no bytes of their own in a struct
        return at + in_list
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if kind == _STRUCT:
        last = 0
        while True:
            last, kind, at = _field(data, at, last)
            if kind == 0:
                return at
            at = _skip(data, at, kind, depth + 1)
    if kind in _LISTS:
        count, kind, at = _elements(data, at)
        for _ in range(count):
            at = _skip(data, at, kind, depth + 1, True)
        return at
    if kind == _MAP:
        count, at = _varint(data, at)
        if count > len(data) - at:
            raise IndexError("a map longer than the bytes that hold it")
        kinds = data[at] if count else 0
        at += bool(count)
        for _ in range(count):
            at = _skip(data, at, kinds >> 4, depth + 1, True)
            at = _skip(data, at, kinds & 15, depth + 1, True)
        return at
    if kind in (_BYTE, _DOUBLE):
        at += 1 if kind == _BYTE else 8
        if at > len(data):
            raise IndexError
        return at
    raise ValueError("a type that Thrift does not have")


def parse_footer(data: bytes) -> tuple[int, list[RowGroup]]:
    """The number of rows and the row groups that a file's metadata names."""
    try:
        return _footer(data)
    except IndexError as error:
        raise ValueError(str(error) or "it ends too early") from None


def _footer(data: bytes) -> tuple[int, list[RowGroup]]:
    at = last = 0
    rows = -1
    groups: list[RowGroup] = []
    while True:
        last, kind, at = _field(data, at, last)
        if kind == 0:
            return rows, groups
        if last == 3:
            rows, at = _integer(data, at, kind)
        elif last == 4:
            count, at = _structs(data, at, kind)
            for _ in range(count):
                group, at = _row_group(data, at)
                groups.append(group)
        else:
            at = _skip(data, at, kind)


def _row_group(data: bytes, at: int) -> tuple[RowGroup, int]:
    last, rows = 0, -1
    numbers = array("q")
    while True:
        last, kind, at = _field(data, at, last)
        if kind == 0:
            return RowGroup(rows, numbers), at
        if last == 3:
            rows, at = _integer(data, at, kind)
        elif last == 1:
            count, at = _structs(data, at, kind)
            for _ in range(count):
                chunk, at = _column_chunk(data, at)
                numbers.extend(chunk)
        else:
            at = _skip(data, at, kind)


def _column_chunk(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The fields of a `ColumnChunk`."""
    last, chunk = 0, None
    while True:
        last, kind, at = _field(data, at, last)
        if kind == 0:
            if chunk is None:
                raise ValueError("a column without metadata")
            return chunk, at
        if last == 3 and kind == _STRUCT:
            chunk, at = _column_metadata(data, at)
        elif last == 1:
            raise ValueError("a column that is stored in another file, which is not supported")
        elif last in (8, 9):
            raise ValueError("an encrypted column, which is not supported")
        else:
            at = _skip(data, at, kind)


_NUMBERS = {1, 4, 5, 6, 7, 9, 11}


def _column_metadata(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    last, raw_bytes = 0, -1
    found: dict[int, int] = {}
    while True:
        last, kind, at = _field(data, at, last)
        if kind == 0:
            break
        if last in _NUMBERS:
            found[last], at = _integer(data, at, kind)
        elif last == 16 and kind == _STRUCT:
            raw_bytes, at = _size_statistics(data, at)
        else:
            at = _skip(data, at, kind)
    if not _NUMBERS - {11} <= found.keys():
        raise ValueError("a column without its sizes")
    return (found[1], found[4], found[5], found[6], found[7], found[9], found.get(11, 0), raw_bytes), at


def _size_statistics(data: bytes, at: int) -> tuple[int, int]:
    last, found = 0, -1
    while True:
        last, kind, at = _field(data, at, last)
        if kind == 0:
            return found, at
        if last == 1:
            found, at = _integer(data, at, kind)
        else:
            at = _skip(data, at, kind)


_DESCRIBED_BY = {0: 5, 2: 7, 3: 8}  # the field that describes a page of this kind: data, dictionary, data version 2


def page_header(data: bytes) -> Page:
    """The page header at the start of `data`; `IndexError` if it goes on beyond."""
    at = last = described = 0
    found: dict[int, int] = {}
    values, encoding, rows, level_bytes = -1, -1, None, 0
    while True:
        last, kind, at = _field(data, at, last)
        if kind == 0:
            break
        if last <= 4:
            found[last], at = _integer(data, at, kind)
        elif last in (5, 7, 8) and kind == _STRUCT:
            if described:
                raise ValueError("a page that is described twice")
            described, inner = last, 0
            while True:
                inner, kind, at = _field(data, at, inner)
                if kind == 0:
                    break
                if inner == 1:
                    values, at = _integer(data, at, kind)
                elif inner == (4 if last == 8 else 2):
                    encoding, at = _integer(data, at, kind)
                elif last == 8 and inner == 3:
                    rows, at = _integer(data, at, kind)
                elif last == 8 and inner in (5, 6):
                    size, at = _integer(data, at, kind)
                    if size < 0:
                        raise ValueError("levels of a negative size")
                    level_bytes += size
                else:
                    at = _skip(data, at, kind)
        else:
            at = _skip(data, at, kind)
    if not {1, 2, 3} <= found.keys():
        raise ValueError("a page without its sizes")
    if described and _DESCRIBED_BY.get(found[1]) != described:
        raise ValueError("a page that is described as one of another kind")
    crc = found[4] & 0xFFFFFFFF if 4 in found else None
    return Page(found[1], found[2], found[3], crc, values, encoding, rows, level_bytes, at)
