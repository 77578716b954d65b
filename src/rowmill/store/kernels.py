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
from numpy import empty, uint8, uint32, uint64

from rowmill.feed.kernels import address_of, expect, fetch, value_at

AHEAD = 16  # rows that are asked for before they are read: DRAM answers in the time that some ten rows take to copy

LINE = 64  # bytes of the cache
VECTOR = 16  # bytes that are copied at once
STREAM_BYTES = 4 << 20  # what stays in the cache until it is used is written there, and more is not

LANES = 64  # of a checksum

WORDS, BYTES = empty(0, uint32), empty(0, uint8)  # what pointers point to


@intrinsic
def _copy(typing: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy `count` bytes from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, of = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, of, arguments[2], 1)
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, types.uint64), generate


def _vector_copy(*, streamed: bool) -> Any:
    """Copies a vector from one address to another; `streamed`: past the cache, to an address that it is aligned to."""

    @intrinsic
    def copy(typing: Any, target: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(ir.IntType(8), VECTOR).as_pointer()
            to, of = (builder.inttoptr(address, vector) for address in arguments)
            stored = builder.store(builder.load(of, align=1), to, align=VECTOR if streamed else 1)
            if streamed:
                stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.none(types.uint64, types.uint64), generate

    return copy


_copy_vector, _stream_vector = _vector_copy(streamed=False), _vector_copy(streamed=True)


@intrinsic
def _settle(typing: Any) -> Any:
    """Wait until all threads can see what was written past the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


@njit(nogil=True, cache=True)
def copy_rows(source: Any, row_bytes: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy rows that stand one after another at `source` to their places."""
    size, share = uint64(row_bytes), 1.0 / unit
    count = places.size
    if size == 4:  # a label: a call of `memcpy` would take three times as long
        values = value_at(uint64(source), WORDS)
        for i in range(count):
            value_at(address_of(places[i], unit, share, targets, size), WORDS)[0] = values[i]
        return
    for i in range(count):
        if i + AHEAD < count:
            fetch(address_of(places[i + AHEAD], unit, share, targets, size))
        _copy(address_of(places[i], unit, share, targets, size), uint64(source) + uint64(i) * size, size)


@njit(nogil=True, cache=True)
def gather_rows(source: Any, row_bytes: Any, rows: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy row number `rows[i]` of the matrix at `source` to place `i`: quickly, if places follow each other.

    Reading at random waits for DRAM, so rows are asked for ahead, and many of them are written past the cache, which
    would otherwise read every line before it is overwritten.
    """
    size, share, count = uint64(row_bytes), 1.0 / unit, places.size
    past_the_cache = row_bytes % VECTOR == 0 and count * row_bytes >= STREAM_BYTES
    if size == 4:
        values = value_at(uint64(source), WORDS)
        for i in range(count):
            if i + 2 * AHEAD < count:
                expect(uint64(source) + uint64(rows[i + 2 * AHEAD]) * size)
            value_at(address_of(places[i], unit, share, targets, size), WORDS)[0] = values[rows[i]]
        return
    for i in range(count):
        if i + AHEAD < count:
            _expect_row(uint64(source) + uint64(rows[i + AHEAD]) * size, size)
        target, row = address_of(places[i], unit, share, targets, size), uint64(source) + uint64(rows[i]) * size
        if past_the_cache:
            _stream_row(target, row, size)
        elif size < VECTOR:
            _copy(target, row, size)
        else:
            _copy_row(target, row, size)
    _settle()


@njit(nogil=True, cache=True)
def _expect_row(address: Any, size: Any) -> None:
    last = address + size - uint64(1)
    while address < last:
        expect(address)
        address += uint64(LINE)
    expect(last)


@njit(nogil=True, cache=True)
def _copy_row(target: Any, source: Any, size: Any) -> None:
    """Copy a row of at least one vector; the last may overlap the one before."""
    at, last = uint64(0), size - uint64(VECTOR)
    while at < last:
        _copy_vector(target + at, source + at)
        at += uint64(VECTOR)
    _copy_vector(target + last, source + last)


@njit(nogil=True, cache=True)
def _stream_row(target: Any, source: Any, size: Any) -> None:
    """Copy a row of whole vectors, four at a time, past the cache."""
    one, at = uint64(VECTOR), uint64(0)
    four = one + one + one + one
    while at + four <= size:
        _stream_vector(target + at, source + at)
        _stream_vector(target + at + one, source + at + one)
        _stream_vector(target + at + one + one, source + at + one + one)
        _stream_vector(target + at + one + one + one, source + at + one + one + one)
        at += four
    while at < size:
        _stream_vector(target + at, source + at)
        at += one


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
