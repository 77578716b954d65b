"""What runs over every byte of a store: copying whole rows to their places, and checksums.

Comes in: addresses in a map, and places in blocks. Goes out: nothing, or a number. Called by `read` and `write`, in the
reading threads; everything here releases the GIL.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy import empty, int32, int64, uint8, uint32, uint64

from rowmill.feed.kernels import address_of, expect, fetch, value_at

AHEAD = 32  # rows that are asked for before they are read: DRAM answers in the time that many take to copy
AHEAD_TO_WRITE = 64  # the same for rows that are overwritten

LINE = 64  # bytes of the cache
VECTOR = 16  # bytes that are copied at once
STREAM_BYTES = 4 << 20  # what stays in the cache until it is used is written there, and more is not

LANES = 64  # of a checksum

# What pointers point to.
BYTES, WORDS, INTS, LONGS = empty(0, uint8), empty(0, uint32), empty(0, int32), empty(0, int64)


@intrinsic
def _copy(typing: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy `count` bytes from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, of = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, of, arguments[2], 1)
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, types.uint64), generate


def _vector_copy(size: int, *, widened: bool = False, streamed: bool = False) -> Any:
    """Copies the bytes of a vector from one address to another, so many are written.

    `widened`: from integers of 4 bytes to such of 8. `streamed`: past the cache, to an address that it is aligned to.
    """

    @intrinsic
    def copy(typing: Any, target: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            to = ir.VectorType(ir.IntType(64), size // 8)
            of = ir.VectorType(ir.IntType(32), size // 8) if widened else to
            value = builder.load(builder.inttoptr(arguments[1], of.as_pointer()), align=1)
            room = builder.inttoptr(arguments[0], to.as_pointer())
            stored = builder.store(builder.sext(value, to) if widened else value, room, align=size if streamed else 1)
            if streamed:
                stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.none(types.uint64, types.uint64), generate

    return copy


_copy_vector, _stream_vector = _vector_copy(VECTOR), _vector_copy(VECTOR, streamed=True)
_widen_vector = _vector_copy(2 * VECTOR, widened=True)
_stream_widened = _vector_copy(VECTOR, widened=True, streamed=True)


@intrinsic
def _settle(typing: Any) -> Any:
    """Wait until all threads can see what was written past the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


@njit(nogil=True, cache=True)
def copy_rows(source: Any, row_bytes: Any, times: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy rows that stand one after another at `source` to their places.

    With `times` 2 they are integers of 4 bytes, which become such of 8.
    """
    size, room, share = uint64(row_bytes), uint64(row_bytes * times), 1.0 / unit
    count = places.size
    if room == 4:  # a label
        values = value_at(uint64(source), WORDS)
        for i in range(count):
            value_at(address_of(places[i], unit, share, targets, room), WORDS)[0] = values[i]
        return
    for i in range(count):
        if i + AHEAD_TO_WRITE < count:
            _ask_for_row(address_of(places[i + AHEAD_TO_WRITE], unit, share, targets, room), room, True)
        _copy_row(address_of(places[i], unit, share, targets, room), uint64(source) + uint64(i) * size, size, times)


@njit(nogil=True, cache=True)
def gather_rows(source: Any, row_bytes: Any, times: Any, rows: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy row number `rows[i]` of the matrix at `source` to place `i`: quickly, if places follow each other.

    Reading at random waits for DRAM, so rows are asked for ahead, and many of them are written past the cache, which
    would otherwise read every line before it is overwritten. `times` as in `copy_rows`.
    """
    size, room, share, count = uint64(row_bytes), uint64(row_bytes * times), 1.0 / unit, places.size
    past_the_cache = room % uint64(VECTOR) == 0 and count * row_bytes * times >= STREAM_BYTES
    if room == 4:
        values = value_at(uint64(source), WORDS)
        for i in range(count):
            if i + 2 * AHEAD < count:
                expect(uint64(source) + uint64(rows[i + 2 * AHEAD]) * size)
            value_at(address_of(places[i], unit, share, targets, room), WORDS)[0] = values[rows[i]]
        return
    for i in range(count):
        if i + AHEAD < count:
            _ask_for_row(uint64(source) + uint64(rows[i + AHEAD]) * size, size, False)
        target, row = address_of(places[i], unit, share, targets, room), uint64(source) + uint64(rows[i]) * size
        if past_the_cache:
            _stream_row(target, row, room, times)
        else:
            _copy_row(target, row, size, times)
    _settle()


@njit(nogil=True, cache=True)
def _ask_for_row(address: Any, size: Any, to_write: Any) -> None:
    last = address + size - uint64(1)
    while address < last:
        if to_write:
            fetch(address)
        else:
            expect(address)
        address += uint64(LINE)
    if to_write:
        fetch(last)
    else:
        expect(last)


@njit(nogil=True, cache=True)
def _copy_row(target: Any, source: Any, size: Any, times: Any) -> None:
    """Copy a row. Its last vector may overlap the one before."""
    at, vector = uint64(0), uint64(VECTOR)
    if times == 2 and size < vector:
        values, room = value_at(source, INTS), value_at(target, LONGS)
        for i in range(size >> uint64(2)):
            room[i] = values[i]
    elif times == 2:
        while at < size - vector:
            _widen_vector(target + at + at, source + at)
            at += vector
        at = size - vector
        _widen_vector(target + at + at, source + at)
    elif size < vector:
        _copy(target, source, size)
    else:
        while at < size - vector:
            _copy_vector(target + at, source + at)
            at += vector
        _copy_vector(target + size - vector, source + size - vector)


@njit(nogil=True, cache=True)
def _stream_row(target: Any, source: Any, room: Any, times: Any) -> None:
    """Write a row of whole vectors past the cache, of integers of 4 bytes if `times` is 2."""
    at, vector = uint64(0), uint64(VECTOR)
    if times == 2:
        while at < room:
            _stream_widened(target + at, source + (at >> uint64(1)))
            at += vector
        return
    four = vector + vector + vector + vector
    while at + four <= room:
        _stream_vector(target + at, source + at)
        _stream_vector(target + at + vector, source + at + vector)
        _stream_vector(target + at + vector + vector, source + at + vector + vector)
        _stream_vector(target + at + vector + vector + vector, source + at + vector + vector + vector)
        at += four
    while at < room:
        _stream_vector(target + at, source + at)
        at += vector


@njit(nogil=True, cache=True)
def digest(address: Any, count: Any, seed: Any) -> Any:
    """A 64-bit checksum of `count` bytes, begun with `seed`: 64 lanes of 32 bits, each `h = rotl(h ^ word, 13) * odd`.

    Every step can be undone, so a change of one word changes its lane for certain, and the result. Eight lanes are
    worked out at once: 34 GB/s, where lanes of 64 bits come to 13.
    """
    lanes = empty(LANES, uint32)
    for i in range(LANES):
        lanes[i] = uint32(i)
    words = uint64(count) >> uint64(2)
    whole = words // uint64(LANES) * uint64(LANES)
    data, at = value_at(uint64(address), WORDS), uint64(0)
    while at < whole:
        for i in range(LANES):
            lanes[i] = _turned(lanes[i] ^ data[at + uint64(i)])
        at += uint64(LANES)
    for i in range(words - whole):
        lanes[i] = _turned(lanes[i] ^ data[whole + uint64(i)])
    tail = value_at(uint64(address), BYTES)
    for i in range(words << uint64(2), uint64(count)):
        lanes[0] = _turned(lanes[0] ^ uint32(tail[i]))
    total = uint64(seed) ^ uint64(count)
    for i in range(LANES):
        total = (total ^ uint64(lanes[i])) * uint64(0x9E3779B97F4A7C15)
        total ^= total >> uint64(32)
    return total


@njit(nogil=True, cache=True)
def _turned(x: Any) -> Any:
    return uint32(uint32((x << uint32(13)) | (x >> uint32(19))) * uint32(0x9E3779B1))
