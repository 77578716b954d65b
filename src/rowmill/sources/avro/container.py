"""The container of an Avro file: where its blocks are and how many rows they have, and blocks without compression.

Comes in: an open file. Nothing of a row is decoded here, but every size is checked before anything is allocated by it.
Decompressed blocks go out as a small Avro file of their own. Called by `AvroSource`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

_MAGIC = b"Obj\x01"
_SYNC = 16  # bytes of the marker after the header and after each block
_MAX_HEADER = 16 << 20
_MAX_BLOCK = 1 << 30  # bytes of a block once decompressed
_PIECE = 1 << 20
_LONGEST = 10  # bytes of a number
CODECS = ("null", "deflate", "snappy", "zstandard")


@dataclass(frozen=True, slots=True)
class Block:
    """Rows `start` to `start + rows` of a file, in `size` bytes from `begin` on."""

    begin: int
    size: int
    start: int
    rows: int


@dataclass(frozen=True)
class Container:
    """The header of a file and its blocks."""

    schema: bytes
    codec: str
    blocks: tuple[Block, ...]

    def uncompressed(self, parts: Sequence[tuple[Block, bytes]]) -> bytes:
        """These blocks as an Avro file without compression."""
        sync = b"\0" * _SYNC
        made = [_MAGIC, _map({"avro.codec": b"null", "avro.schema": self.schema}), sync]
        for block, data in parts:
            plain = _decompressed(data, self.codec)
            if block.rows > len(plain):
                raise ValueError(f"a block of {len(plain)} bytes says that it has {block.rows} rows")
            made += [_long(block.rows), _long(len(plain)), plain, sync]
        return b"".join(made)


def read_container(file: Any, size: int) -> Container:
    """The container of an open file of this size."""
    reader = _Reader(file, size)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as an Avro file")
    metadata = reader.metadata()
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in CODECS:
        raise ValueError(f"it is compressed with {codec[:20]!r}; wanted one of {list(CODECS)}")
    if "avro.schema" not in metadata:
        raise ValueError("it has no schema")
    sync, blocks, start = reader.take(_SYNC), [], 0
    while reader.at < size:
        rows, length = reader.number(), reader.number()
        if not rows >= 0 or not 0 <= length <= size - reader.at - _SYNC:
            raise ValueError(f"a block at byte {reader.at} has {rows} rows in {length} bytes")
        blocks.append(Block(reader.at, length, start, rows))
        start += rows
        reader.skip(length)
        if reader.take(_SYNC) != sync:
            raise ValueError(f"the block that ends at byte {reader.at} does not end with the file's marker")
    return Container(metadata["avro.schema"], codec, tuple(blocks))


class _Reader:
    """Reads the numbers and bytes of a container, none beyond the end of the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self.at = 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= min(_MAX_HEADER, self._size - self.at):
            raise ValueError(f"it ends at byte {self._size}, or has a header of {count} bytes")
        data = self._file.read(count)
        if len(data) != count:
            raise ValueError(f"it ends at byte {self.at + len(data)}")
        self.at += count
        return bytes(data)

    def skip(self, count: int) -> None:
        self.at += count
        self._file.seek(self.at)

    def number(self) -> int:
        """A number of 64 bits in zigzag form, 7 bits a byte."""
        found = 0
        for place in range(_LONGEST):
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise ValueError(f"a number at byte {self.at} has no end")

    def metadata(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        while count := self.number():
            if count < 0:
                self.number()  # the bytes of this part of the map
            for _ in range(abs(count)):
                if self.at > _MAX_HEADER:
                    raise ValueError("its header is too large")
                key = self.take(self.number()).decode()
                found[key] = self.take(self.number())
        return found


def _decompressed(data: bytes, codec: str) -> bytes:
    """The bytes of a block. Blocks of unreasonable sizes are refused before memory is allocated for them."""
    if codec == "null":
        return data
    if codec == "snappy":
        size, _ = _varint(data)
        _check_size(size)
        return bytes(pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True))
    if codec == "deflate":
        stream: Any = zlib.decompressobj(-15)
        try:
            return _gathered(lambda rest: (stream.decompress(rest, _PIECE), stream.unconsumed_tail), data)
        except zlib.error as error:
            raise ValueError(f"a block cannot be decompressed: {error}") from error
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as opened:
        return _gathered(lambda rest: (opened.read(_PIECE), b"more"), data)


def _gathered(step: Any, data: bytes) -> bytes:
    """What a decompressor gives, a piece at a time; it takes the rest of its input, and gives what it leaves of it."""
    made = io.BytesIO()
    while True:
        piece, data = step(data)
        made.write(piece)
        _check_size(made.tell())
        if not piece or not data:
            return made.getvalue()


def _check_size(size: int) -> None:
    if size > _MAX_BLOCK:
        raise ValueError(f"a block has more than {_MAX_BLOCK >> 20} MB once decompressed; write smaller blocks")


def _varint(data: bytes) -> tuple[int, int]:
    found = 0
    for place, byte in enumerate(data[:_LONGEST]):
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return found, place + 1
    raise ValueError("a number in a block has no end")


def _long(number: int) -> bytes:
    zigzag, made = number << 1, bytearray()
    while zigzag >= 0x80:
        made.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    made.append(zigzag)
    return bytes(made)


def _map(entries: Mapping[str, bytes]) -> bytes:
    pairs = b"".join(_long(len(k)) + k.encode() + _long(len(v)) + v for k, v in entries.items())
    return _long(len(entries)) + pairs + _long(0)
