"""What runs over every value on its way into a batch: from columns to rows, from any place to any other.

Comes in: addresses of columns, and places in blocks. Goes out: whether all values fit. Called by `pack`,
in the reading threads; everything here releases the GIL. A tile of rows is small enough that the lines it writes stay
in the cache until every column has been there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray, cfunc, njit, types
from numba.extending import overload

from rowmill.feed.rows import address_of, copy_parts
from rowmill.feed.vectors import call_at, expect, fetch, turn_eight, turn_four, value_at

TILE_ROWS = 512
AHEAD = 256  # bytes of a column that are asked for before they are read

ADDRESSES = np.empty(0, np.uint64)  # what pointers point to
_STACKERS: list[Any] = []  # all of them, for good: two threads may make the same, and the address of each is in use


@njit(nogil=True, cache=True)
def deal(
    orders: Any,
    first: Any,
    strip: Any,
    packed: Any,
    row_bytes: Any,
    parts: Any,
    places: Any,
    unit: Any,
    targets: Any,
) -> int:
    """Write rows `first` and on of columns to their places, so many at a time. Arguments and result of `deal_strip`."""
    lost = 0
    for at in range(0, places.size, strip):
        to = (places[at : at + strip], unit, targets)
        found = deal_strip(orders, first + at, packed, row_bytes, parts, *to)
        lost = lost if lost else found
    return lost


@njit(nogil=True, cache=True)
def deal_strip(
    orders: Any, first: Any, packed: Any, row_bytes: Any, parts: Any, places: Any, unit: Any, targets: Any
) -> int:
    """Stack rows in memory that stays in the cache, and copy them from there as a whole. Written to their places four
    values at a time, Criteo rows took up to twice as long; rows that are no longer than a vector or two took less.

    `orders` say which columns are stacked (see `pack`), `packed` where each matrix is, `parts` what becomes of it.
    Returns 0; or a number from 1 on, of the first order that lost a value.
    """
    lost: int = stack_all(orders, first, places.size, packed, row_bytes)
    copy_parts(packed, row_bytes, parts, places, unit, targets)
    return lost


@njit(nogil=True, cache=True)
def stack_all(orders: Any, first: Any, rows: Any, packed: Any, row_bytes: Any) -> int:
    """Write rows `first` and on one after another to where each matrix is. Result as of `deal_strip`."""
    lost = 0
    for number in range(orders.shape[0]):
        order, matrix = orders[number], orders[number, 5]
        given = (np.uint64(row_bytes[matrix]), np.uint64(first), np.uint64(rows), np.uint64(packed[matrix]))
        if call_at(order[0], (order[1], order[2], order[3], order[4], *given)):
            lost = lost if lost else number + 1
    return lost


@njit(nogil=True, cache=True)
def stack(
    columns: Any,
    slots: Any,
    row_bytes: Any,
    first: Any,
    rows: Any,
    target: Any,
    source_like: Any,
    target_like: Any,
) -> int:
    """Write rows `first` and on one after another. Returns 0 if all values fit."""
    to, like = (np.uint64(target), np.uint64(row_bytes)), (source_like, target_like)
    done, lost = _stack_eights(columns, slots, first, rows, *to, *like)
    addresses = np.empty(TILE_ROWS, np.uint64)
    for start in range(done, rows, TILE_ROWS):
        count = min(TILE_ROWS, rows - start)
        for i in range(count):
            addresses[i] = np.uint64(target) + np.uint64(start + i) * np.uint64(row_bytes)
        lost |= _write_tile(columns, slots, first + start, addresses, count, source_like, target_like)
    return lost


@njit(nogil=True, cache=True)
def stack_wide(
    columns: Any,
    strides: Any,
    slots: Any,
    row_bytes: Any,
    first: Any,
    rows: Any,
    target: Any,
    source_like: Any,
    target_like: Any,
) -> int:
    """The same of columns with several values a row, which stand `stride` values apart."""
    source_size, target_size = np.uint64(source_like.itemsize), np.uint64(target_like.itemsize)
    lost, all_rows, tile, start = 0, np.uint64(rows), np.uint64(TILE_ROWS), np.uint64(0)
    while start < all_rows:
        count = min(tile, all_rows - start)
        for column in range(columns.size):
            stride, row = strides[column], np.uint64(target) + start * np.uint64(row_bytes)
            source = value_at(columns[column] + (np.uint64(first) + start) * stride * source_size, source_like)
            row += slots[column] * target_size
            for i in range(count):
                lost |= _move(value_at(row, target_like), source[i * stride], target_like)
                row += np.uint64(row_bytes)
        start += count
    return lost


@cache
def stacker(source: np.dtype[Any], target: np.dtype[Any], wide: bool) -> Any:
    """`stack` or `stack_wide` for two dtypes as a C function, for kernels that know no dtypes: see `stack_all`."""
    source_like, target_like = np.empty(0, source), np.empty(0, target)

    @cfunc(types.int64(*[types.uint64] * 8), cache=True)
    def stacked(
        columns: Any, strides: Any, slots: Any, width: Any, row_bytes: Any, first: Any, rows: Any, to: Any
    ) -> Any:
        each, where = carray(value_at(columns, ADDRESSES), width), carray(value_at(slots, ADDRESSES), width)
        given = (row_bytes, first, np.int64(rows), to, source_like, target_like)
        if wide:
            return stack_wide(each, carray(value_at(strides, ADDRESSES), width), where, *given)
        return stack(each, where, *given)

    _STACKERS.append(stacked)
    return stacked


def _stack_eights(
    columns: Any, slots: Any, first: Any, rows: Any, target: Any, row_bytes: Any, source_like: Any, target_like: Any
) -> tuple[int, int]:
    """Write eight rows after eight, as far as that goes; returns how many were written, and 0 if all values fit.

    A line of each column is read once, and asked for before: rows that are complete leave the cache to those to come.
    """
    raise NotImplementedError  # compiled only


@overload(_stack_eights)
def _compile_eights(
    columns: Any, slots: Any, first: Any, rows: Any, target: Any, row_bytes: Any, source_like: Any, target_like: Any
) -> Any:
    in_vectors = _in_vectors(source_like, target_like)

    def write(
        columns: Any, slots: Any, first: Any, rows: Any, target: Any, row_bytes: Any, source_like: Any, target_like: Any
    ) -> tuple[int, int]:
        width, ahead, lost = np.uint64(columns.size), np.uint64(AHEAD), 0
        one, two, three, four, eight = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(8)
        if not in_vectors or width < four or slots[width - one] - slots[0] != width - one:
            return 0, 0
        size, offset = np.uint64(source_like.itemsize), np.uint64(first) * np.uint64(source_like.itemsize)
        target += slots[0] * np.uint64(target_like.itemsize)
        for _ in range(rows // 8):
            done = np.uint64(0)
            while done < width:
                at = min(done, width - four)  # the last four columns overlap others
                a, b = columns[at] + offset, columns[at + one] + offset
                c, d = columns[at + two] + offset, columns[at + three] + offset
                expect(a + ahead)
                expect(b + ahead)
                expect(c + ahead)
                expect(d + ahead)
                room = target + at * np.uint64(target_like.itemsize)
                lost |= turn_eight(a, b, c, d, room, row_bytes, source_like, target_like)
                done = at + four
            offset, target = offset + eight * size, target + eight * row_bytes
        return rows // 8 * 8, lost

    return write


@njit(nogil=True, cache=True)
def _write_tile(
    columns: Any, slots: Any, first: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
) -> int:
    """Write rows to their addresses, four columns at a time where they stand side by side: the last four overlap others
    rather than leave up to three to be written one by one."""
    offset, size = np.uint64(first) * np.uint64(source_like.itemsize), np.uint64(target_like.itemsize)
    lost, column, width = 0, 0, columns.size
    while column < width:
        four = min(column, width - 4)
        if four >= 0 and slots[four + 3] - slots[four] == np.uint64(3):
            a, b = columns[four] + offset, columns[four + 1] + offset
            c, d = columns[four + 2] + offset, columns[four + 3] + offset
            slot = slots[four] * size
            lost |= _write_four(a, b, c, d, slot, addresses, count, source_like, target_like)
            column = four + 4
        else:
            source, slot = value_at(columns[column] + offset, source_like), slots[column] * size
            for i in range(count):
                lost |= _move(value_at(addresses[i] + slot, target_like), source[i], target_like)
            column += 1
    return lost


def _write_four(
    a: Any, b: Any, c: Any, d: Any, slot: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
) -> int:
    """Write the values of four columns to four places side by side, `slot` bytes into each row."""
    raise NotImplementedError  # compiled only


@overload(_write_four)
def _compile_four(
    a: Any, b: Any, c: Any, d: Any, slot: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
) -> Any:
    in_vectors = _in_vectors(source_like, target_like)

    def write(
        a: Any, b: Any, c: Any, d: Any, slot: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
    ) -> int:
        size, lost, done, at = np.uint64(target_like.itemsize), 0, 0, np.uint64(0)
        if in_vectors:
            while done + 4 <= count:
                first, second = addresses[done] + slot, addresses[done + 1] + slot
                third, fourth = addresses[done + 2] + slot, addresses[done + 3] + slot
                columns = (a + at, b + at, c + at, d + at)
                lost |= turn_four(*columns, first, second, third, fourth, source_like, target_like)
                done, at = done + 4, at + np.uint64(4 * source_like.itemsize)
        source_a, source_b = value_at(a, source_like), value_at(b, source_like)
        source_c, source_d = value_at(c, source_like), value_at(d, source_like)
        for i in range(done, count):
            row = addresses[i] + slot
            lost |= _move(value_at(row, target_like), source_a[i], target_like)
            lost |= _move(value_at(row + size, target_like), source_b[i], target_like)
            lost |= _move(value_at(row + size + size, target_like), source_c[i], target_like)
            lost |= _move(value_at(row + size + size + size, target_like), source_d[i], target_like)
        return lost

    return write


def _in_vectors(source_like: Any, target_like: Any) -> bool:
    """Whether values of one dtype are written as another four at a time."""
    source, target = np.dtype(str(source_like.dtype)), np.dtype(str(target_like.dtype))
    return source == target or (source == np.int64 and target == np.int32)


@njit(nogil=True, cache=True)
def scatter(
    columns: Any,
    slots: Any,
    row_bytes: Any,
    first: Any,
    places: Any,
    unit: Any,
    targets: Any,
    source_like: Any,
    target_like: Any,
) -> int:
    """Write rows `first` and on to their places, four values at a time. Returns 0 if all values fit."""
    lost, share = 0, 1.0 / unit
    addresses = np.empty(TILE_ROWS, np.uint64)
    for start in range(0, places.size, TILE_ROWS):
        count = min(TILE_ROWS, places.size - start)
        for i in range(count):
            addresses[i] = address_of(places[start + i], unit, share, targets, row_bytes)
            fetch(addresses[i])
        lost |= _write_tile(columns, slots, first + start, addresses, count, source_like, target_like)
    return lost


@njit(nogil=True, cache=True)
def scatter_turned(
    columns: Any,
    slots: Any,
    step: Any,
    first: Any,
    places: Any,
    unit: Any,
    targets: Any,
    source_like: Any,
    target_like: Any,
) -> int:
    """The same to a matrix on its side, column after column: a column is written front to back in every bin, so the
    lines it writes stay in the cache."""
    source_size, target_size = np.uint64(source_like.itemsize), np.uint64(target_like.itemsize)
    lost, share = 0, 1.0 / unit
    addresses = np.empty(places.size, np.uint64)
    for i in range(places.size):
        addresses[i] = address_of(places[i], unit, share, targets, target_size)
    for column in range(columns.size):
        source = value_at(columns[column] + np.uint64(first) * source_size, source_like)
        offset = slots[column] * np.uint64(step)
        for i in range(places.size):
            lost |= _move(value_at(addresses[i] + offset, target_like), source[i], target_like)
    return lost


def _move(pointer: Any, value: Any, like: Any) -> int:
    """Write a value; return 0 if it fits, else 1."""
    raise NotImplementedError  # compiled only


@overload(_move)
def _compile_move(pointer: Any, value: Any, like: Any) -> Any:
    source, target = np.dtype(str(value)), np.dtype(str(like.dtype))
    if source.kind in "iu" and target.kind in "iu" and not np.can_cast(source, target):
        lowest = source.type(max(np.iinfo(source).min, np.iinfo(target).min))
        highest = source.type(min(np.iinfo(source).max, np.iinfo(target).max))

        def doubtful(pointer: Any, value: Any, like: Any) -> int:
            pointer[0] = value
            return 0 if lowest <= value <= highest else 1

        return doubtful

    if source.kind == target.kind == "f" and source.itemsize > target.itemsize:
        most = float(np.finfo(target).max)

        def rounded(pointer: Any, value: Any, like: Any) -> int:
            pointer[0] = value
            return 1 if most < abs(value) < np.inf else 0

        return rounded

    def safe(pointer: Any, value: Any, like: Any) -> int:
        pointer[0] = value
        return 0

    return safe
