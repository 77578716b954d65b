"""What runs over every byte of a store: copying whole rows to their places, and writing them.

Comes in: addresses in a map, and places in blocks. Goes out: nothing, or a number. Called by `read` and `write`, in the
reading threads; everything here releases the GIL.
"""

from __future__ import annotations

import errno
from typing import Any

from numba import njit, types
from numpy import empty, int64, uint8, uint32, uint64

from rowmill.feed.kernels import deal_strip
from rowmill.feed.parts import MATRIX, NUMBER, OFFSET, SIZE, TIMES
from rowmill.feed.rows import ASKED_BYTES, FOURS, address_of, copy_row
from rowmill.feed.vectors import LINE, copy_bytes, expect, settle, stream_line, value_at
from rowmill.store import checksum

AHEAD = 32  # rows that are asked for before they are read: DRAM answers in the time that many take to copy
AGAIN = 8  # rows that are asked for once more: of many that are asked for, the processor forgets some
STRIP_ROWS = 512  # copied to one matrix after another; of any size they end on a line
STREAM_BYTES = 4 << 20  # what stays in the cache until it is used is written there, and more is not
STAGE_BYTES = 4096  # put together before they are written past the cache
STAGED_ROW_BYTES = 16 << 10  # longer rows are written through the cache

UNFIT, INTERRUPTED = -1, errno.EINTR  # no number of an error, and one that is none

_pwrite = types.ExternalFunction("pwrite", types.int64(types.int32, types.uint64, types.int64, types.int64))
_errno = types.ExternalFunction("__errno_location", types.CPointer(types.int32)())


@njit(nogil=True, cache=True)
def gather_parts(packed: Any, row_bytes: Any, parts: Any, rows: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy row number `rows[i]` of packed matrices to place `i`: quickly, if places follow each other. For each line of
    `parts` (see there) its part of each row; strip by strip, so that parts of one matrix find its rows in the cache.

    Reading at random waits for DRAM, so rows are asked for ahead, and many of them are written past the cache, which
    would otherwise read every line before it is overwritten.
    """
    stage = empty(STAGE_BYTES + STAGED_ROW_BYTES + LINE, uint8)
    for start in range(0, places.size, STRIP_ROWS):
        stop = min(start + STRIP_ROWS, places.size)
        for line in range(parts.shape[0]):
            matrix, size, times = parts[line, MATRIX], uint64(parts[line, SIZE]), parts[line, TIMES]
            step, first = uint64(row_bytes[matrix]), line == 0 or parts[line - 1, MATRIX] != matrix
            source, asked = uint64(packed[matrix]) + uint64(parts[line, OFFSET]), step if first else uint64(0)
            to = (places, start, stop, unit, targets[parts[line, NUMBER]])
            _gather_part(source, step, size, times, asked, rows, *to, stage)
    settle()


@njit(nogil=True, cache=True)
def _gather_part(
    source: Any,
    step: Any,
    size: Any,
    times: Any,
    asked: Any,
    rows: Any,
    places: Any,
    start: Any,
    end: Any,
    unit: Any,
    targets: Any,
    stage: Any,
) -> None:
    """Copy `size` bytes of rows to places `start` to `end`. So many bytes of a row are `asked` for before, or none."""
    room, share, at, last = size * uint64(times), 1.0 / unit, uint64(start), uint64(end)
    past_the_cache = room <= uint64(STAGED_ROW_BYTES) and uint64(places.size) * room >= uint64(STREAM_BYTES)
    while at < last:
        stop = _end_of_run(places, at, last, unit, share)
        target = address_of(places[at], unit, share, targets, room)
        if room == 4:
            _gather_words(source, step, asked, rows, at, stop, target)
        elif past_the_cache:
            _stream_run(source, step, size, times, asked, rows, at, stop, target, stage)
        else:
            _gather_run(source, step, size, times, asked, rows, at, stop, target)
        at = stop


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
def _gather_words(source: Any, step: Any, asked: Any, rows: Any, start: Any, stop: Any, target: Any) -> None:
    room = value_at(target, FOURS)
    for i in range(start, stop):
        _expect_rows(source, step, asked, rows, i)
        room[i - start] = value_at(source + uint64(rows[i]) * step, FOURS)[0]


@njit(nogil=True, cache=True)
def _gather_run(
    source: Any, step: Any, size: Any, times: Any, asked: Any, rows: Any, start: Any, stop: Any, target: Any
) -> None:
    """Copy rows by their numbers to where they stand one after another."""
    for i in range(start, stop):
        _expect_rows(source, step, asked, rows, i)
        copy_row(target, source + uint64(rows[i]) * step, size, times)
        target += size * uint64(times)


@njit(nogil=True, cache=True)
def _stream_run(
    source: Any,
    step: Any,
    size: Any,
    times: Any,
    asked: Any,
    rows: Any,
    start: Any,
    stop: Any,
    target: Any,
    memory: Any,
) -> None:
    """The same past the cache: rows are put together on a stage, and its whole lines are written at once.

    A line that is written row by row holds one of the few buffers through which rows are read, and may lose it half
    written: on an Intel core a row of 104 bytes took an eighth longer.
    """
    line, room = uint64(LINE), size * uint64(times)
    stage = (uint64(memory.ctypes.data) + line - uint64(1)) & ~(line - uint64(1))
    begin = target % line  # bytes `begin` to `end` of the stage are rows, and its first byte goes to `target`
    end, target = begin, target - begin
    for i in range(start, stop):
        _expect_rows(source, step, asked, rows, i)
        copy_row(stage + end, source + uint64(rows[i]) * step, size, times)
        end += room
        if end >= uint64(STAGE_BYTES):
            target, end = _stream_stage(target, stage, begin, end)
            begin = uint64(0)
    target, end = _stream_stage(target, stage, begin, end)
    copy_bytes(target, stage, end)


@njit(nogil=True, cache=True)
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
def _expect_rows(source: Any, step: Any, asked: Any, rows: Any, i: Any) -> None:
    """Ask for rows that come after row `i`."""
    if not asked:
        return
    line, last = uint64(LINE), min(asked, uint64(ASKED_BYTES)) - uint64(1)
    for ahead in (uint64(AHEAD), uint64(AGAIN)):
        if i + ahead < uint64(rows.size):
            row = source + uint64(rows[i + ahead]) * step
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


@njit(nogil=True, cache=True)
def hand_on(
    orders: Any,
    first: Any,
    strip: Any,
    packed: Any,
    row_bytes: Any,
    parts: Any,
    places: Any,
    unit: Any,
    targets: Any,
    files: Any,
    start: Any,
) -> Any:
    """Write rows `first` and on to their places, as `feed.kernels.deal` does, and sum each strip and write it to files,
    as rows `start` and on, while it is in the cache.

    Without orders the rows are stacked already, all in one strip. Returns the checksum, and 0; or the number of the
    system's error; or `UNFIT` if a value does not fit.
    """
    rows, matrices = places.size, packed.size
    lanes, none = empty((matrices, checksum.LANES), uint32), uint64(0)
    for matrix in range(matrices):
        checksum.begin(lanes[matrix])
    for at in range(0, rows, strip):
        count = min(strip, rows - at)
        to = (places[at : at + count], unit, targets)
        if deal_strip(orders, first + at, packed, row_bytes, parts, *to):
            return none, UNFIT
        for matrix in range(matrices):
            size = row_bytes[matrix]
            checksum.add(lanes[matrix], packed[matrix], count * size)
            error = _write(files[matrix], packed[matrix], count * size, (start + at) * size)
            if error:
                return none, error
    total = none
    for matrix in range(matrices):
        total = checksum.end(lanes[matrix], rows * row_bytes[matrix], total)
    return total, 0


@njit(nogil=True, cache=True)
def _write(file: Any, address: Any, count: Any, offset: Any) -> Any:
    """Write bytes at a place in a file; returns 0 or the number of the error."""
    done = 0
    while done < count:
        written = _pwrite(file, address + uint64(done), count - done, offset + done)
        if written >= 0:
            done += written
        elif _errno()[0] != INTERRUPTED:
            return int64(_errno()[0])
    return int64(0)
