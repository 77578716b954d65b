"""Whole rows on their way to places in blocks.

Comes in: the address of rows that stand one after another, and places. Goes out: nothing; rows are copied. Called by
`kernels`, and by the store; everything here releases the GIL.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numpy import empty, int32, int64, uint8, uint16, uint32, uint64

from rowmill.feed.parts import MATRIX, NUMBER, OFFSET, SIZE, TIMES
from rowmill.feed.vectors import (
    LINE,
    UNROLLED,
    VECTOR,
    copy_bytes,
    copy_half_vectors,
    copy_vectors,
    copy_wide_vectors,
    fetch,
    value_at,
    widen_vectors,
)

AHEAD_TO_WRITE = 16  # rows that are asked for before they are overwritten
STRIP_ROWS = 2048  # copied to one matrix after another
ASKED_BYTES = 1024  # of a row; of a longer one the processor foresees the rest

# What pointers point to.
INTS, LONGS = empty(0, int32), empty(0, int64)
ONES, TWOS, FOURS, EIGHTS = empty(0, uint8), empty(0, uint16), empty(0, uint32), empty(0, uint64)


@njit(nogil=True, cache=True)
def copy_parts(packed: Any, row_bytes: Any, parts: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy rows that stand one after another in packed matrices to their places: for each line of `parts` (see there)
    its part of each row. Strip by strip, so that parts of one matrix find its rows in the cache."""
    for start in range(0, places.size, STRIP_ROWS):
        stop = min(start + STRIP_ROWS, places.size)
        for line in range(parts.shape[0]):
            matrix, offset, to = parts[line, MATRIX], parts[line, OFFSET], targets[parts[line, NUMBER]]
            step = row_bytes[matrix]
            source = uint64(packed[matrix]) + uint64(start * step + offset)
            copy_rows(source, step, parts[line, SIZE], parts[line, TIMES], places, start, stop, unit, to)


@njit(nogil=True, cache=True)
def copy_rows(
    source: Any, step: Any, row_bytes: Any, times: Any, places: Any, start: Any, stop: Any, unit: Any, targets: Any
) -> None:
    """Copy rows of so many bytes, which stand `step` bytes apart from `source` on, to places `start` to `stop`.

    With `times` 2 they are integers of 4 bytes, which become such of 8.
    """
    row, apart, size = uint64(source), uint64(step), uint64(row_bytes)
    begin, end = uint64(start), uint64(stop)
    if size == 4 and times == 1:  # a label
        _copy_values(row, apart, places, begin, end, unit, targets, FOURS)
    elif size == 8 and times == 1:
        _copy_values(row, apart, places, begin, end, unit, targets, EIGHTS)
    elif size == 1:
        _copy_values(row, apart, places, begin, end, unit, targets, ONES)
    elif size == 2:
        _copy_values(row, apart, places, begin, end, unit, targets, TWOS)
    elif (size == VECTOR or size == 2 * VECTOR) and times == 1:
        _copy_short_rows(row, apart, size, places, begin, end, unit, targets)
    else:
        _copy_rows(row, apart, size, times, places, begin, end, unit, targets)


@njit(nogil=True, cache=True)
def _copy_values(
    source: Any, step: Any, places: Any, start: Any, stop: Any, unit: Any, targets: Any, like: Any
) -> None:
    size, share = uint64(like.itemsize), 1.0 / unit
    for i in range(start, stop):
        value_at(address_of(places[i], unit, share, targets, size), like)[0] = value_at(source, like)[0]
        source += step


@njit(nogil=True, cache=True)
def _copy_short_rows(
    row: Any, step: Any, size: Any, places: Any, start: Any, stop: Any, unit: Any, targets: Any
) -> None:
    """Rows of one vector: several share a line, so none is asked for."""
    share = 1.0 / unit
    for i in range(start, stop):
        end = address_of(places[i], unit, share, targets, size) + size
        if size == VECTOR:
            copy_vectors(end, row + size, uint64(1))
        else:
            copy_wide_vectors(end, row + size, uint64(1))
        row += step


@njit(nogil=True, cache=True)
def _copy_rows(
    row: Any, step: Any, size: Any, times: Any, places: Any, start: Any, stop: Any, unit: Any, targets: Any
) -> None:
    room, share, ahead, count = size * uint64(times), 1.0 / unit, uint64(AHEAD_TO_WRITE), uint64(places.size)
    for i in range(start, stop):
        if i + ahead < count:
            _fetch_row(address_of(places[i + ahead], unit, share, targets, room), room)
        copy_row(address_of(places[i], unit, share, targets, room), row, size, times)
        row += step


@njit(nogil=True, cache=True, forceinline=True)
def _fetch_row(row: Any, size: Any) -> None:
    """Ask for a row that will be overwritten."""
    end = row + min(size, uint64(ASKED_BYTES)) - uint64(1)
    while row < end:
        fetch(row)
        row += uint64(LINE)
    fetch(end)


@njit(nogil=True, cache=True, forceinline=True)
def copy_row(target: Any, source: Any, size: Any, times: Any) -> None:
    """Copy a row. Its last vector may overlap the one before."""
    vector, wide, most = uint64(VECTOR), uint64(2 * VECTOR), uint64(UNROLLED)
    end, target_end, rest = source + size, target + size * uint64(times), size % vector
    left = size // vector % most
    if size < vector:
        _copy_short_row(target, source, size, times)
    elif times == 2:
        while source + most * vector <= end:
            source, target = source + most * vector, target + most * wide
            widen_vectors(target, source, most)
        widen_vectors(target_end - rest - rest, end - rest, left)
        if rest:
            widen_vectors(target_end, end, uint64(1))
    elif wide <= size <= wide + wide:
        copy_wide_vectors(target + wide, source + wide, uint64(1))
        copy_wide_vectors(target_end, end, uint64(1))
    else:
        while source + most * vector <= end:
            source, target = source + most * vector, target + most * vector
            copy_vectors(target, source, most)
        copy_vectors(target_end - rest, end - rest, left)
        if rest:
            copy_vectors(target_end, end, uint64(1))


@njit(nogil=True, cache=True)
def _copy_short_row(target: Any, source: Any, size: Any, times: Any) -> None:
    half, values, room = uint64(VECTOR // 2), value_at(source, INTS), value_at(target, LONGS)
    if times == 2:
        for i in range(size >> uint64(2)):
            room[i] = values[i]
    elif size < half:
        copy_bytes(target, source, size)
    else:
        copy_half_vectors(target + half, source + half, uint64(1))
        copy_half_vectors(target + size, source + size, uint64(1))


@njit(nogil=True, cache=True)
def address_of(place: Any, unit: Any, share: Any, targets: Any, row_bytes: Any) -> Any:
    """Where the row at a place begins: in a unit of so many rows, of which a row is this share (1 / unit).

    Multiplied, because dividing takes ten times as long. Exact: half a row is far more than the product is off by.
    """
    number = uint32((place + 0.5) * share)
    return targets[number] + uint64(place - number * uint32(unit)) * uint64(row_bytes)
