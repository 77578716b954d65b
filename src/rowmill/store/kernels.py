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
from numpy import empty, uint8, uint64

from rowmill.feed.pack import address_of, fetch, value_at

AHEAD = 16  # rows that are asked for before they are read: DRAM answers in the time that some ten rows take to copy

WORDS, BYTES = empty(0, uint64), empty(0, uint8)  # what pointers point to


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
    for i in range(count):
        if i + AHEAD < count:
            fetch(address_of(places[i + AHEAD], unit, share, targets, size))
        _copy(address_of(places[i], unit, share, targets, size), uint64(source) + uint64(i) * size, size)


@njit(nogil=True, cache=True)
def gather_rows(source: Any, row_bytes: Any, rows: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy row number `rows[i]` of the matrix at `source` to place `i`."""
    size, line, share = uint64(row_bytes), uint64(64), 1.0 / unit
    count = places.size
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
    """A 64-bit checksum of `count` bytes, begun with `seed`: eight lanes, each `h = rotl(h ^ word, 29) * odd`.

    Every step can be undone, so a change of one word changes its lane for certain, and the result.
    """
    odd = uint64(0x9E3779B97F4A7C15)
    a, b, c, d = uint64(seed), uint64(1), uint64(2), uint64(3)
    e, f, g, h = uint64(4), uint64(5), uint64(6), uint64(7)
    words, i = uint64(count) >> uint64(3), uint64(0)
    data = value_at(uint64(address), WORDS)
    while i + uint64(8) <= words:
        a = _turn(a ^ data[i], odd)
        b = _turn(b ^ data[i + uint64(1)], odd)
        c = _turn(c ^ data[i + uint64(2)], odd)
        d = _turn(d ^ data[i + uint64(3)], odd)
        e = _turn(e ^ data[i + uint64(4)], odd)
        f = _turn(f ^ data[i + uint64(5)], odd)
        g = _turn(g ^ data[i + uint64(6)], odd)
        h = _turn(h ^ data[i + uint64(7)], odd)
        i += uint64(8)
    while i < words:
        a = _turn(a ^ data[i], odd)
        i += uint64(1)
    tail = value_at(uint64(address), BYTES)
    for at in range(words * uint64(8), uint64(count)):
        a = _turn(a ^ uint64(tail[at]), odd)
    for lane in (b, c, d, e, f, g, h, uint64(count)):
        a = _turn(a ^ lane, odd)
    return a ^ (a >> uint64(32))


@njit(nogil=True, cache=True)
def _turn(x: Any, odd: Any) -> Any:
    return ((x << uint64(29)) | (x >> uint64(35))) * odd
