"""Checksums of what is stored, worked out eight lanes at a time: all at once, or strip by strip as bytes come along.

Comes in: addresses. Goes out: a number. Called by `read`, and by `kernels.hand_on`; everything here releases the GIL.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numpy import empty, uint8, uint32, uint64

from rowmill.feed.vectors import value_at

LANES = 64
BYTES, WORDS = empty(0, uint8), empty(0, uint32)  # what pointers point to


@njit(nogil=True, cache=True)
def digest(address: Any, count: Any, seed: Any) -> Any:
    """A 64-bit checksum of `count` bytes, begun with `seed`: 64 lanes of 32 bits, each `h = rotl(h ^ word, 13) * odd`.

    Every step can be undone, so a change of one word changes its lane for certain, and the result. Eight lanes are
    worked out at once: 34 GB/s, where lanes of 64 bits come to 13.
    """
    lanes = empty(LANES, uint32)
    begin(lanes)
    add(lanes, uint64(address), count)
    return end(lanes, count, uint64(seed))


@njit(nogil=True, cache=True)
def begin(lanes: Any) -> None:
    """The lanes of a checksum of nothing."""
    for i in range(LANES):
        lanes[i] = uint32(i)


@njit(nogil=True, cache=True)
def add(lanes: Any, address: Any, count: Any) -> None:
    """Add bytes to the lanes: a multiple of four times as many as there are lanes, but for the last that are added."""
    words = uint64(count) >> uint64(2)
    whole = words // uint64(LANES) * uint64(LANES)
    data, at = value_at(address, WORDS), uint64(0)
    while at < whole:
        for i in range(LANES):
            lanes[i] = _turned(lanes[i] ^ data[at + uint64(i)])
        at += uint64(LANES)
    for i in range(words - whole):
        lanes[i] = _turned(lanes[i] ^ data[whole + uint64(i)])
    tail = value_at(address, BYTES)
    for i in range(words << uint64(2), uint64(count)):
        lanes[0] = _turned(lanes[0] ^ uint32(tail[i]))


@njit(nogil=True, cache=True)
def end(lanes: Any, count: Any, seed: Any) -> Any:
    """The checksum of so many bytes, of which these are the lanes."""
    total = seed ^ uint64(count)
    for i in range(LANES):
        total = (total ^ uint64(lanes[i])) * uint64(0x9E3779B97F4A7C15)
        total ^= total >> uint64(32)
    return total


@njit(nogil=True, cache=True)
def _turned(x: Any) -> Any:
    return uint32(uint32((x << uint32(13)) | (x >> uint32(19))) * uint32(0x9E3779B1))
