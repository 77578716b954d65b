"""Rows of a store in random order, on their way to blocks.

Comes in: addresses in a map, numbers of rows, and places in blocks. Goes out: nothing; rows are copied. Called by
`read`, in the reading threads; everything here releases the GIL.

Reading at random waits for DRAM, so rows are asked for ahead, and many of them are written past the cache, which would
otherwise read every line before it is overwritten. Of that the time of a full shuffle is made, so it is compiled for
each size of a row (`_streamer`): with as few steps between two rows as can be, an eighth to a fifth less time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cfunc, njit, types
from numpy import uint32, uint64
from numpy.typing import NDArray

from rowmill.feed.parts import MATRIX, NUMBER, OFFSET, SIZE, TIMES
from rowmill.feed.rows import ASKED_BYTES, EIGHTS, FOURS, address_of, copy_row
from rowmill.feed.vectors import LINE, call_at, copy_bytes, copy_whole, expect, settle, stream_line, value_at

AHEAD = 32  # rows that are asked for before they are read: DRAM answers in the time that many take to copy
AGAIN = 8  # rows that are asked for once more: of many that are asked for, the processor forgets some
STRIP_ROWS = 512  # copied to one matrix after another; of any size they end on a line
STREAM_BYTES = 4 << 20  # what stays in the cache until it is used is written there, and more is not
STAGE_BYTES = 4096  # put together before they are written past the cache
STAGED_ROW_BYTES = 16 << 10  # longer rows are written through the cache
UNROLLED_BYTES = 512  # of a row that are copied without a loop

_STREAMERS: list[Any] = []  # all of them, for good: two threads may make the same, and the address of each is in use


def gather_parts(
    packed: NDArray[np.uint64],
    row_bytes: NDArray[np.int64],
    parts: NDArray[np.int64],
    rows: NDArray[np.int64],
    places: NDArray[np.uint32],
    unit: int,
    targets: NDArray[np.uint64],
) -> None:
    """Copy row number `rows[i]` of packed matrices to place `i`: quickly, if places follow each other. For each line of
    `parts` (see there) its part of each row; strip by strip, so that parts of one matrix find its rows in the cache."""
    ways, stage = _streamers(row_bytes, parts, len(places)), np.empty(STAGE_BYTES + STAGED_ROW_BYTES + LINE, np.uint8)
    _gather(packed, row_bytes, parts, ways, rows, places, unit, targets, stage)


@njit(nogil=True, cache=True)
def _gather(
    packed: Any,
    row_bytes: Any,
    parts: Any,
    streamers: Any,
    rows: Any,
    places: Any,
    unit: Any,
    targets: Any,
    memory: Any,  # the caller's: what is made here is gone when it is last named, not when its address is last used
) -> None:
    stage = (uint64(memory.ctypes.data) + uint64(LINE - 1)) & ~uint64(LINE - 1)
    numbers, count, share = uint64(rows.ctypes.data), uint64(rows.size), 1.0 / unit
    for start in range(0, places.size, STRIP_ROWS):
        end = uint64(min(start + STRIP_ROWS, places.size))
        for line in range(parts.shape[0]):
            matrix, size, times = parts[line, MATRIX], uint64(parts[line, SIZE]), parts[line, TIMES]
            step, asked = uint64(row_bytes[matrix]), line == 0 or parts[line - 1, MATRIX] != matrix
            source, to = uint64(packed[matrix]) + uint64(parts[line, OFFSET]), targets[parts[line, NUMBER]]
            at = uint64(start)
            while at < end:
                stop = _end_of_run(places, at, end, unit, share)
                target = address_of(places[at], unit, share, to, size * uint64(times))
                if streamers[line]:
                    call_at(streamers[line], (source, numbers, count, at, stop, target, stage))
                else:
                    _gather_run(source, step, size, times, asked, rows, at, stop, target)
                at = stop
    settle()


@njit(nogil=True, cache=True)
def _end_of_run(places: Any, start: Any, end: Any, unit: Any, share: Any) -> Any:
    """How far places from `start` on, and before `end`, follow each other in one unit."""
    first = places[start]
    left = uint32(unit) - (first - uint32((first + 0.5) * share) * uint32(unit))
    stop, last = start + uint64(1), min(end, start + uint64(left))
    while stop < last and places[stop] - first == stop - start:
        stop += uint64(1)
    return stop


@njit(nogil=True, cache=True)
def _gather_run(
    source: Any, step: Any, size: Any, times: Any, asked: Any, rows: Any, start: Any, stop: Any, target: Any
) -> None:
    """Copy rows by their numbers to where they stand one after another. They are `asked` for, or in the cache."""
    count, last = uint64(rows.size), min(step, uint64(ASKED_BYTES)) - uint64(1)
    if size == 4 and times == 1:
        room = value_at(target, FOURS)
        for i in range(start, stop):
            if asked and i + uint64(AHEAD) < count:
                _expect_row(source + uint64(rows[i + uint64(AHEAD)]) * step, last)
            room[i - start] = value_at(source + uint64(rows[i]) * step, FOURS)[0]
        return
    for i in range(start, stop):
        if asked:
            for ahead in (uint64(AHEAD), uint64(AGAIN)):
                if i + ahead < count:
                    _expect_row(source + uint64(rows[i + ahead]) * step, last)
        copy_row(target, source + uint64(rows[i]) * step, size, times)
        target += size * uint64(times)


def _streamers(row_bytes: NDArray[np.int64], parts: NDArray[np.int64], rows: int) -> NDArray[np.uint64]:
    """For each line of `parts` the address of what writes its rows past the cache; 0 if so many rows do not need it."""
    found = []
    for line, before in zip(parts.tolist(), [None, *parts[:, MATRIX].tolist()], strict=False):
        room, step = line[SIZE] * line[TIMES], int(row_bytes[line[MATRIX]])
        past_the_cache = 4 < room <= STAGED_ROW_BYTES and rows * room >= STREAM_BYTES
        asked = line[MATRIX] != before
        found.append(_streamer(step, line[SIZE], line[TIMES], asked).address if past_the_cache else 0)
    return np.array(found, np.uint64)


@cache
def _streamer(step: int, size: int, times: int, asked: bool) -> Any:
    """The same past the cache, as a C function: rows are put together on a stage, and its whole lines written at once.

    A line that is written row by row holds one of the few buffers through which rows are read, and may lose it half
    written: on an Intel core a row of 104 bytes took an eighth longer.
    """
    room, last = size * times, min(step, ASKED_BYTES) - 1

    @cfunc(types.int64(*[types.uint64] * 7), cache=True)
    def streamed(source: Any, rows: Any, count: Any, start: Any, stop: Any, target: Any, stage: Any) -> Any:
        # Bytes `begin` to `end` of the stage are rows, and its first byte goes to `target`.
        numbers, begin = value_at(rows, EIGHTS), target % uint64(LINE)
        end, target = begin, target - begin
        for i in range(start, stop):
            if asked:
                for ahead in (uint64(AHEAD), uint64(AGAIN)):
                    if i + ahead < count:
                        _expect_row(source + numbers[i + ahead] * uint64(step), uint64(last))
            row = source + numbers[i] * uint64(step)
            if size <= UNROLLED_BYTES:
                copy_whole(stage + end, row, size, times)
            else:
                copy_row(stage + end, row, uint64(size), times)
            end += uint64(room)
            if end >= uint64(STAGE_BYTES):
                target, end = _stream_stage(target, stage, begin, end)
                begin = uint64(0)
        target, end = _stream_stage(target, stage, begin, end)
        copy_bytes(target, stage, end)
        return 0

    _STREAMERS.append(streamed)
    return streamed


@njit(nogil=True, cache=True, forceinline=True)
def _stream_stage(target: Any, stage: Any, begin: Any, end: Any) -> Any:
    """Write whole lines of bytes `begin` to `end` of the stage, and move the rest to its front. Returns where that rest
    goes, and how much it is."""
    line, at = uint64(LINE), uint64(0)
    if begin:  # the line belongs to others too
        at = min(line, end)
        copy_bytes(target + begin, stage + begin, at - begin)
    while at + line <= end:
        stream_line(target + at, stage + at)
        at += line
    copy_bytes(stage, stage + at, end - at)
    return target + at, end - at


@njit(nogil=True, cache=True, forceinline=True)
def _expect_row(row: Any, last: Any) -> None:
    """Ask for a row, up to its byte number `last`."""
    line = uint64(LINE)
    expect(row)
    if last > line:
        expect(row + line)
    if last > line + line:
        _expect_more(row + line + line, row + last)
    expect(row + last)


@njit(nogil=True, cache=True)
def _expect_more(row: Any, end: Any) -> None:
    while row < end:
        expect(row)
        row += uint64(LINE)
