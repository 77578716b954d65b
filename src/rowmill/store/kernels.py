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
from rowmill.feed.rows import ASKED_BYTES, FOURS, address_of, copy_row
from rowmill.feed.vectors import LINE, copy_bytes, expect, settle, stream_line, value_at
from rowmill.store import checksum

AHEAD = 32  # rows that are asked for before they are read: DRAM answers in the time that many take to copy
AGAIN = 8  # rows that are asked for once more: of many that are asked for, the processor forgets some
STREAM_BYTES = 4 << 20  # what stays in the cache until it is used is written there, and more is not
STAGE_BYTES = 4096  # put together before they are written past the cache
STAGED_ROW_BYTES = 16 << 10  # longer rows are written through the cache

UNFIT, INTERRUPTED = -1, errno.EINTR  # no number of an error, and one that is none

_pwrite = types.ExternalFunction("pwrite", types.int64(types.int32, types.uint64, types.int64, types.int64))
_errno = types.ExternalFunction("__errno_location", types.CPointer(types.int32)())


@njit(nogil=True, cache=True)
def gather_rows(source: Any, row_bytes: Any, times: Any, rows: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy row number `rows[i]` of the matrix at `source` to place `i`: quickly, if places follow each other.

    Reading at random waits for DRAM, so rows are asked for ahead, and many of them are written past the cache, which
    would otherwise read every line before it is overwritten. `times` as in `copy_rows`.
    """
    room, share, count = uint64(row_bytes * times), 1.0 / unit, uint64(places.size)
    past_the_cache = uint64(4) < room <= uint64(STAGED_ROW_BYTES) and count * room >= uint64(STREAM_BYTES)
    start, stage = uint64(0), empty(STAGE_BYTES + STAGED_ROW_BYTES + LINE if past_the_cache else 0, uint8)
    while start < count:
        stop = _end_of_run(places, start, unit, share)
        target = address_of(places[start], unit, share, targets, room)
        if room == 4:
            _gather_words(uint64(source), rows, start, stop, target)
        elif past_the_cache:
            _stream_run(uint64(source), uint64(row_bytes), times, rows, start, stop, target, stage)
        else:
            _gather_run(uint64(source), uint64(row_bytes), times, rows, start, stop, target)
        start = stop
    settle()


@njit(nogil=True, cache=True)
def _end_of_run(places: Any, start: Any, unit: Any, share: Any) -> Any:
    """How far places from `start` on follow each other in one unit."""
    first = places[start]
    left = uint32(unit) - (first - uint32((first + 0.5) * share) * uint32(unit))
    stop, end = start + uint64(1), min(uint64(places.size), start + uint64(left))
    while stop < end and places[stop] - first == stop - start:
        stop += uint64(1)
    return stop


@njit(nogil=True, cache=True)
def _gather_words(source: Any, rows: Any, start: Any, stop: Any, target: Any) -> None:
    values, room, ahead = value_at(source, FOURS), value_at(target, FOURS), uint64(2 * AHEAD)
    for i in range(start, stop):
        if i + ahead < uint64(rows.size):
            expect(source + (uint64(rows[i + ahead]) << uint64(2)))
        room[i - start] = values[rows[i]]


@njit(nogil=True, cache=True)
def _gather_run(source: Any, size: Any, times: Any, rows: Any, start: Any, stop: Any, target: Any) -> None:
    """Copy rows by their numbers to where they stand one after another."""
    for i in range(start, stop):
        _expect_rows(source, size, rows, i)
        copy_row(target, source + uint64(rows[i]) * size, size, times)
        target += size * uint64(times)


@njit(nogil=True, cache=True)
def _stream_run(source: Any, size: Any, times: Any, rows: Any, start: Any, stop: Any, target: Any, memory: Any) -> None:
    """The same past the cache: rows are put together on a stage, and its whole lines are written at once.

    A line that is written row by row holds one of the few buffers through which rows are read, and may lose it half
    written: on an Intel core a row of 104 bytes took an eighth longer.
    """
    line, room = uint64(LINE), size * uint64(times)
    stage = (uint64(memory.ctypes.data) + line - uint64(1)) & ~(line - uint64(1))
    begin = target % line  # bytes `begin` to `end` of the stage are rows, and its first byte goes to `target`
    end, target = begin, target - begin
    for i in range(start, stop):
        _expect_rows(source, size, rows, i)
        copy_row(stage + end, source + uint64(rows[i]) * size, size, times)
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
def _expect_rows(source: Any, size: Any, rows: Any, i: Any) -> None:
    """Ask for rows that come after row `i`."""
    line, last = uint64(LINE), min(size, uint64(ASKED_BYTES)) - uint64(1)
    for ahead in (uint64(AHEAD), uint64(AGAIN)):
        if i + ahead < uint64(rows.size):
            row = source + uint64(rows[i + ahead]) * size
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
    times: Any,
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
        if deal_strip(orders, first + at, packed, row_bytes, times, *to):
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
