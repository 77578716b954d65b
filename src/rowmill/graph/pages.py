"""The page headers of a Parquet file: how large its pages say they are, before anything is decompressed.

A page header is a Thrift structure in the compact protocol. Only what bounds the memory of reading is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rowmill.errors import WorkflowFileError

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_ENCODINGS = {0, 2, 3, 4, 5, 8, 9}  # not those that write a value as what it shares with the one before
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3


@dataclass(frozen=True)
class Page:
    """What a page declares: bytes once decompressed, and number of values."""

    size: int
    values: int
    dictionary: bool


def pages(content: bytes, start: int, size: int) -> Iterator[Page]:
    """The pages of a column chunk, which has to lie within the file and be made of whole pages."""
    end = start + size
    if start < 4 or size < 0 or end > len(content):
        raise damaged("a column lies outside of the file")
    while start < end:
        header, start = _structure(content, start, 0)
        kind, unpacked, packed = (header.get(number) for number in (1, 2, 3))
        inner = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind if isinstance(kind, int) else -1, -1))
        if not isinstance(unpacked, int) or not isinstance(packed, int) or not isinstance(inner, dict):
            raise damaged("a page without a size")
        values, encoding = inner.get(1), inner.get(4 if kind == _DATA_V2 else 2)
        if unpacked < 0 or not 0 <= packed <= end - start or not isinstance(values, int) or values < 0:
            raise damaged("a page that is larger than its column")
        if encoding not in _ENCODINGS:
            raise damaged(f"a page in encoding {encoding}")
        start += packed
        yield Page(unpacked, values if kind != _DICTIONARY else 0, kind == _DICTIONARY or encoding in (2, 8))


def damaged(what: str) -> WorkflowFileError:
    """The error for a table that Workflow.save did not write."""
    return WorkflowFileError(f"cannot read a table of the workflow: {what}; save the workflow again")


def _structure(data: bytes, place: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > 8:
        raise damaged("a page header is nested too deeply")
    found: dict[int, Any] = {}
    number = 0
    while True:
        head, place = _byte(data, place)
        kind, step = head & 15, head >> 4
        if kind == 0:
            return found, place
        if step:
            number += step
        else:
            number, place = _integer(data, place)
        found[number], place = _value(data, place, kind, depth)


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind == _BYTE:
        return _byte(data, place)
    if kind in (_I16, _I32, _I64):
        return _integer(data, place)
    if kind == _DOUBLE:
        return None, place + 8
    if kind == _BINARY:
        size, place = _varint(data, place)
        if size > len(data) - place:
            raise damaged("a page header is cut off")
        return None, place + size
    if kind == _STRUCT:
        return _structure(data, place, depth + 1)
    raise damaged("a page header has an unknown field")


def _byte(data: bytes, place: int) -> tuple[int, int]:
    if place >= len(data):
        raise damaged("a page header is cut off")
    return data[place], place + 1


def _varint(data: bytes, place: int) -> tuple[int, int]:
    total = shift = 0
    while shift < 70:
        part, place = _byte(data, place)
        total |= (part & 127) << shift
        shift += 7
        if part < 128:
            return total, place
    raise damaged("a page header has a number of more than 64 bits")


def _integer(data: bytes, place: int) -> tuple[int, int]:
    coded, place = _varint(data, place)
    return (coded >> 1) ^ -(coded & 1), place
