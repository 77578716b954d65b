"""Reads what an Arrow IPC file says of its record batches, before anything of them is decoded.

A local file in; for each record batch its rows and its bytes once decompressed out, or `ValueError`. A compressed
buffer begins with the number of its bytes once decompressed, which a decoder allocates; here it is compared with what
so many compressed bytes can become. Metadata are FlatBuffers: https://arrow.apache.org/docs/format/Columnar.html
(`File.fbs`, `Message.fbs`). Called by `ipc`, for local files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

_LZ4, _ZSTD = 0, 1  # kinds of compression
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# No compressed byte becomes more bytes than this: a sequence of LZ4 ends in bytes that stand for 255 each, a block of
# zstd takes four bytes at least and holds at most 128 KB.
_EXPANSION = {_LZ4: 255, _ZSTD: (128 << 10) // 4}
_SLACK = 64


@dataclass(frozen=True)
class BatchSize:
    """Rows of a record batch, and its bytes in memory; `compressed` if those are not the bytes of the file."""

    rows: int
    nbytes: int
    compressed: bool


def batch_sizes(path: str) -> list[BatchSize]:
    """The record batches of a file, checked for sizes that are impossible."""
    with pa.memory_map(path) as file:
        data = memoryview(file.read_buffer()).cast("B")
        try:
            footer = _footer(data)
            for block in footer.structs(2, "<qi4xq"):
                _checked(_message(data, *block).table(1), _body(data, *block))  # a dictionary
            return [_checked(_message(data, *block), _body(data, *block)) for block in footer.structs(3, "<qi4xq")]
        except (struct.error, IndexError, OverflowError) as error:
            raise ValueError(f"metadata that cannot be read ({error})") from error


def _footer(data: memoryview) -> _Table:
    size, magic = struct.unpack_from("<i6s", data, len(data) - 10)
    if magic != b"ARROW1" or not 0 < size <= len(data) - 10:
        raise ValueError("no footer of an Arrow IPC file")
    return _Table.root(data[len(data) - 10 - size : len(data) - 10])


def _message(data: memoryview, offset: int, metadata: int, body: int) -> _Table:
    """The header of a record batch or dictionary: a message has its length before it, and a marker before that."""
    if min(offset, metadata, body) < 0 or offset + metadata + body > len(data):
        raise ValueError("a record batch that ends beyond the file")
    marked = bytes(data[offset : offset + 4]) == b"\xff\xff\xff\xff"
    return _Table.root(data[offset + (8 if marked else 4) : offset + metadata]).table(2)


def _body(data: memoryview, offset: int, metadata: int, body: int) -> memoryview:
    return data[offset + metadata : offset + metadata + body]


def _checked(batch: _Table, body: memoryview) -> BatchSize:
    rows, total = batch.number(0, "<q"), 0
    if rows < 0:
        raise ValueError(f"a record batch of {rows} rows")
    codec = batch.table(3).number(0, "<b") if batch.has(3) else None
    for at, size in batch.structs(2, "<qq"):
        if at < 0 or size < 0 or at + size > len(body):
            raise ValueError("a buffer that ends beyond its record batch")
        total += size
        if codec is not None and size:
            decoded = struct.unpack_from("<q", body, at)[0]
            if decoded != -1:  # -1: this buffer is not compressed
                total += _plausible(decoded, body[at + 8 : at + size], codec) - size
    return BatchSize(rows, total, codec is not None)


def _plausible(decoded: int, data: memoryview, codec: int) -> int:
    known = _zstd_size(data) if codec == _ZSTD else None
    most = _EXPANSION.get(codec, 0) * (len(data) + _SLACK)
    if not 0 <= decoded <= most or (known is not None and known != decoded):
        raise ValueError(f"a buffer of {len(data):,} bytes that cannot expand to {decoded:,}")
    return decoded


def _zstd_size(data: memoryview) -> int | None:
    """The bytes of a zstd frame once decompressed, if its header says it (RFC 8878, 3.1.1.1)."""
    if bytes(data[:4]) != _ZSTD_MAGIC or len(data) < 6:
        return None
    flags = data[4]
    single, kind = flags >> 5 & 1, flags >> 6
    if not single and not kind:
        return None
    at = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    size = 1 << kind
    return int.from_bytes(data[at : at + size], "little") + (256 if size == 2 else 0)


class _Table:
    """A table of FlatBuffers: fields by number, each looked up in the table's list of offsets."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]
        if self._fields < 0:
            raise IndexError("a table before its message")
        self._count = (struct.unpack_from("<H", data, self._fields)[0] - 4) // 2

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def has(self, number: int) -> bool:
        return bool(self._offset(number))

    def number(self, number: int, kind: str) -> int:
        """A number; 0, the default, is left out."""
        offset = self._offset(number)
        return int(struct.unpack_from(kind, self._data, self._at + offset)[0]) if offset else 0

    def table(self, number: int) -> _Table:
        return _Table(self._data, self._target(number))

    def structs(self, number: int, form: str) -> Iterator[tuple[int, ...]]:
        """A list of structs of this form."""
        if self.has(number):
            at, size = self._target(number), struct.calcsize(form)
            count = struct.unpack_from("<I", self._data, at)[0]
            if at + 4 + size * count > len(self._data):
                raise IndexError("a list longer than the bytes that hold it")
            yield from struct.iter_unpack(form, self._data[at + 4 : at + 4 + size * count])

    def _target(self, number: int) -> int:
        offset = self._offset(number)
        if not offset:
            raise IndexError(f"field {number} is missing")
        at = self._at + offset
        return at + int(struct.unpack_from("<I", self._data, at)[0])

    def _offset(self, number: int) -> int:
        if number >= self._count:
            return 0
        return int(struct.unpack_from("<H", self._data, self._fields + 4 + 2 * number)[0])
