"""What runs over every byte of a store: copying whole rows to their places, and writing them.

Comes in: addresses in a map, and places in blocks. Goes out: nothing, or a number. Called by `read` and `write`, in the
reading threads; everything here releases the GIL.
"""

from __future__ import annotations

import errno
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy import empty, int32, int64, uint8, uint32, uint64

from rowmill.feed.kernels import address_of, stack_by
from rowmill.feed.vectors import expect, fetch, value_at
from rowmill.store import checksum

AHEAD = 32  # rows that are asked for before they are read: DRAM answers in the time that many take to copy
AGAIN = 8  # rows that are asked for once more: of many that are asked for, the processor forgets some
AHEAD_TO_WRITE = 64  # rows that are asked for before they are overwritten
ASKED_BYTES = 1024  # of a row; of a longer one it foresees the rest

LINE = 64  # bytes of the cache
VECTOR = 16  # bytes that are copied at once
UNROLLED = 16  # vectors that are copied without a loop
STREAM_BYTES = 4 << 20  # what stays in the cache until it is used is written there, and more is not
STAGE_BYTES = 4096  # put together before they are written past the cache
STAGED_ROW_BYTES = 4096  # longer rows fill enough lines by themselves

UNFIT, INTERRUPTED = -1, errno.EINTR  # no number of an error, and one that is none
STRIP_ROWS = 4 * checksum.LANES  # strips are multiples of this, so that all lanes have had as many words

_pwrite = types.ExternalFunction("pwrite", types.int64(types.int32, types.uint64, types.int64, types.int64))
_errno = types.ExternalFunction("__errno_location", types.CPointer(types.int32)())

# What pointers point to.
WORDS, INTS, LONGS = empty(0, uint32), empty(0, int32), empty(0, int64)


@intrinsic
def _copy(typing: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy `count` bytes from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, of = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, of, arguments[2], 1)
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, types.uint64), generate


def _vectors(size: int, *, widened: bool = False) -> Any:
    """Copies up to `UNROLLED` vectors, of which `size` bytes are written, from before one address to before another.

    By a jump into a row of as many: a loop over the few vectors of a row takes longer by a tenth, because what counts
    keeps the processor from looking ahead to the next rows. `widened`: from integers of 4 bytes to such of 8.
    """
    to = ir.VectorType(ir.IntType(64), size // 8)
    of = ir.VectorType(ir.IntType(32), size // 8) if widened else to
    read = size // 2 if widened else size

    def step(builder: Any, target: Any, source: Any, left: int) -> None:
        value = builder.load(_before(builder, source, read * left, of), align=1)
        room = _before(builder, target, size * left, to)
        builder.store(builder.sext(value, to) if widened else value, room, align=1)

    @intrinsic
    def copy(typing: Any, target: Any, source: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, source, count = arguments
            blocks = [builder.append_basic_block() for _ in range(UNROLLED + 1)]
            jump = builder.switch(count, blocks[-1])
            for left, block, following in zip(range(UNROLLED, 0, -1), blocks, blocks[1:], strict=False):
                jump.add_case(ir.Constant(count.type, left), block)
                builder.position_at_end(block)
                step(builder, target, source, left)
                builder.branch(following)
            builder.position_at_end(blocks[-1])
            return context.get_dummy_value()

        return types.none(types.uint64, types.uint64, types.uint64), generate

    return copy


def _before(builder: Any, address: Any, count: int, kind: Any) -> Any:
    """A pointer to so many bytes before an address."""
    return builder.inttoptr(builder.sub(address, ir.Constant(address.type, count)), kind.as_pointer())


_copy_vectors, _copy_wide_vectors = _vectors(VECTOR), _vectors(2 * VECTOR)
_widen_vectors = _vectors(2 * VECTOR, widened=True)


@intrinsic
def _stream_line(typing: Any, target: Any, source: Any) -> Any:
    """Copy a line to where another begins, past the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = ir.VectorType(ir.IntType(64), LINE // 8).as_pointer()
        to, of = (builder.inttoptr(address, line) for address in arguments)
        stored = builder.store(builder.load(of, align=LINE), to, align=LINE)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64), generate


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
    row, count = uint64(source), uint64(places.size)
    if room == 4:  # a label
        values = value_at(row, WORDS)
        for i in range(count):
            value_at(address_of(places[i], unit, share, targets, room), WORDS)[0] = values[i]
        return
    for i in range(count):
        if i + uint64(AHEAD_TO_WRITE) < count:
            _fetch_row(address_of(places[i + uint64(AHEAD_TO_WRITE)], unit, share, targets, room), room)
        _copy_row(address_of(places[i], unit, share, targets, room), row, size, times)
        row += size


@njit(nogil=True, cache=True, forceinline=True)
def _fetch_row(row: Any, size: Any) -> None:
    """Ask for a row that will be overwritten."""
    end = row + min(size, uint64(ASKED_BYTES)) - uint64(1)
    while row < end:
        fetch(row)
        row += uint64(LINE)
    fetch(end)


@njit(nogil=True, cache=True)
def gather_rows(source: Any, row_bytes: Any, times: Any, rows: Any, places: Any, unit: Any, targets: Any) -> None:
    """Copy row number `rows[i]` of the matrix at `source` to place `i`: quickly, if places follow each other.

    Reading at random waits for DRAM, so rows are asked for ahead, and many of them are written past the cache, which
    would otherwise read every line before it is overwritten. `times` as in `copy_rows`.
    """
    room, share, count = uint64(row_bytes * times), 1.0 / unit, uint64(places.size)
    past_the_cache = room <= uint64(STAGED_ROW_BYTES) and count * room >= uint64(STREAM_BYTES)
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
    _settle()


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
    values, room, ahead = value_at(source, WORDS), value_at(target, WORDS), uint64(2 * AHEAD)
    for i in range(start, stop):
        if i + ahead < uint64(rows.size):
            expect(source + (uint64(rows[i + ahead]) << uint64(2)))
        room[i - start] = values[rows[i]]


@njit(nogil=True, cache=True)
def _gather_run(source: Any, size: Any, times: Any, rows: Any, start: Any, stop: Any, target: Any) -> None:
    """Copy rows by their numbers to where they stand one after another."""
    for i in range(start, stop):
        _expect_rows(source, size, rows, i)
        _copy_row(target, source + uint64(rows[i]) * size, size, times)
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
        _copy_row(stage + end, source + uint64(rows[i]) * size, size, times)
        end += room
        if end >= uint64(STAGE_BYTES):
            target, end = _stream_stage(target, stage, begin, end)
            begin = uint64(0)
    target, end = _stream_stage(target, stage, begin, end)
    _copy(target, stage, end)


@njit(nogil=True, cache=True)
def _stream_stage(target: Any, stage: Any, begin: Any, end: Any) -> Any:
    """Write whole lines of bytes `begin` to `end` of the stage, and move the rest to its front. Returns where that rest
    goes, and how much it is."""
    line, at = uint64(LINE), uint64(0)
    if begin:  # the line belongs to others too
        at = min(line, end)
        _copy(target + begin, stage + begin, at - begin)
    while at + line <= end:
        _stream_line(target + at, stage + at)
        at += line
    _copy(stage, stage + at, end - at)
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


@njit(nogil=True, cache=True, forceinline=True)
def _copy_row(target: Any, source: Any, size: Any, times: Any) -> None:
    """Copy a row. Its last vector may overlap the one before."""
    vector, wide, most = uint64(VECTOR), uint64(2 * VECTOR), uint64(UNROLLED)
    end, target_end, rest = source + size, target + size * uint64(times), size % vector
    left = size // vector % most
    if size < vector:
        _copy_short_row(target, source, size, times)
    elif times == 2:
        while source + most * vector <= end:
            source, target = source + most * vector, target + most * wide
            _widen_vectors(target, source, most)
        _widen_vectors(target_end - rest - rest, end - rest, left)
        if rest:
            _widen_vectors(target_end, end, uint64(1))
    elif wide <= size <= wide + wide:
        _copy_wide_vectors(target + wide, source + wide, uint64(1))
        _copy_wide_vectors(target_end, end, uint64(1))
    else:
        while source + most * vector <= end:
            source, target = source + most * vector, target + most * vector
            _copy_vectors(target, source, most)
        _copy_vectors(target_end - rest, end - rest, left)
        if rest:
            _copy_vectors(target_end, end, uint64(1))


@njit(nogil=True, cache=True)
def _copy_short_row(target: Any, source: Any, size: Any, times: Any) -> None:
    if times == 1:
        _copy(target, source, size)
        return
    values, room = value_at(source, INTS), value_at(target, LONGS)
    for i in range(size >> uint64(2)):
        room[i] = values[i]


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
    """Stack rows `first` and on, copy them to their places, sum them, and write them to files as rows `start` and on.

    All of it strip by strip, which stays in the cache. `packed` are addresses of room for a strip of each matrix.
    Without orders (see `feed.pack.Columns.orders`) the rows stand there, all of one strip. Returns the checksum, and 0;
    or the number of the system's error; or `UNFIT` if a value does not fit.
    """
    rows, matrices = places.size, packed.size
    lanes, none = empty((matrices, checksum.LANES), uint32), uint64(0)
    for matrix in range(matrices):
        checksum.begin(lanes[matrix])
    for at in range(0, rows, strip):
        count = min(strip, rows - at)
        for number in range(orders.shape[0]):
            order, matrix = orders[number], orders[number, 4]
            rows_to = (uint64(row_bytes[matrix]), uint64(first + at), uint64(count), packed[matrix])
            if stack_by(order[0], order[1], order[2], order[3], *rows_to):
                return none, UNFIT
        for matrix in range(matrices):
            size = row_bytes[matrix]
            copy_rows(packed[matrix], size, times[matrix], places[at : at + count], unit, targets[matrix])
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
