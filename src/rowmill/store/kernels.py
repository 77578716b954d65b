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

from rowmill.feed.pack import address_of, fetch, value_at

AHEAD = 16  # rows that are asked for before they are read: DRAM answers in the time that some ten rows take to copy

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


@intrinsic
def _expect(typing: Any, address: Any) -> Any:
    """Ask the cache for the line at an address, to read it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(types.uint64), generate


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
    """Copy row number `rows[i]` of the matrix at `source` to place `i`."""
    size, line, share = uint64(row_bytes), uint64(64), 1.0 / unit
    count = places.size
    if size == 4:
        values = value_at(uint64(source), WORDS)
        for i in range(count):
            if i + 2 * AHEAD < count:
                _expect(uint64(source) + uint64(rows[i + 2 * AHEAD]) * size)
            value_at(address_of(places[i], unit, share, targets, size), WORDS)[0] = values[rows[i]]
        return
    for i in range(count):
        if i + AHEAD < count:
            address = uint64(source) + uint64(rows[i + AHEAD]) * size
            end = address + size
            while address < end:
                _expect(address)
                address += line
        _copy(address_of(places[i], unit, share, targets, size), uint64(source) + uint64(rows[i]) * size, size)


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
