"""What runs over every value on its way into a batch: from columns to rows, from any place to any other.

Comes in: addresses of columns, and places in blocks. Goes out: whether all values fit. Called by `pack`,
in the reading threads; everything here releases the GIL. A tile of rows is small enough that the lines it writes stay
in the cache until every column has been there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

TILE_ROWS = 512
AHEAD = 256  # bytes of a column that are asked for before they are read


@intrinsic
def value_at(typing: Any, address: Any, like: Any) -> Any:
    """A pointer to values of the dtype of `like`, made from an address."""
    pointer = types.CPointer(like.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.uint64, like), generate


def _asking(*, to_write: bool) -> Any:
    """Asks the cache for the line at an address."""

    @intrinsic
    def ask(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(prefetch, [builder.inttoptr(arguments[0], byte), number(int(to_write)), number(3), number(1)])
            return context.get_dummy_value()

        return types.none(types.uint64), generate

    return ask


fetch, expect = _asking(to_write=True), _asking(to_write=False)


@intrinsic
def _turn_four(
    typing: Any, a: Any, b: Any, c: Any, d: Any, first: Any, second: Any, third: Any, fourth: Any, source: Any, to: Any
) -> Any:
    """Copy four values of each of four columns to four rows, where they stand side by side.

    Integers of 8 bytes may go to such of 4: then returns not 0 if any does not fit.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _turn(builder, arguments[:4], arguments[4:8], source, to)

    return types.int64(*[types.uint64] * 8, source, to), generate


@intrinsic
def _turn_eight(typing: Any, a: Any, b: Any, c: Any, d: Any, row: Any, row_bytes: Any, source: Any, to: Any) -> Any:
    """The same of eight values, to eight rows one after another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, step = [arguments[4]], arguments[5]
        for _ in range(7):
            rows.append(builder.add(rows[-1], step))
        return _turn(builder, arguments[:4], rows, source, to)

    return types.int64(*[types.uint64] * 6, source, to), generate


def _turn(builder: Any, columns: list[Any], rows: list[Any], source: Any, to: Any) -> Any:
    """Instructions that copy as many values of each column as there are rows, all given by their addresses."""
    size, source_size = (np.dtype(str(like.dtype)).itemsize for like in (to, source))
    each, number = min(len(rows), 32 // source_size), ir.IntType(64)  # values in a vector
    read = ir.VectorType(ir.IntType(8 * source_size), each)
    none, half = ir.Constant(read, None), ir.Constant(read, [1 << 31] * each)
    beyond = none  # not 0 above its lower 4 bytes if a value goes beyond them
    for start in range(0, len(rows), each):
        at = [builder.add(column, ir.Constant(number, start * source_size)) for column in columns]
        values = [builder.load(builder.inttoptr(place, read.as_pointer()), align=source_size) for place in at]
        if size < source_size:
            for vector in values:
                beyond = builder.or_(beyond, builder.add(vector, half))
        for row, vector in zip(rows[start:], _turned(builder, values, size), strict=False):
            builder.store(vector, builder.inttoptr(row, vector.type.as_pointer()), align=size)
    if size >= source_size:
        return ir.Constant(number, 0)
    above = builder.icmp_unsigned("!=", builder.lshr(beyond, ir.Constant(read, [32] * each)), none)
    return builder.zext(builder.bitcast(above, ir.IntType(each)), number)


def _turned(builder: Any, columns: list[Any], size: int) -> list[Any]:
    """Vectors of four columns as vectors of rows, of values of `size` bytes.

    By shuffles within the halves of a vector, as far as that goes: they take one step, others take three.
    """

    def mixed(one: Any, other: Any, *order: int) -> Any:
        """Of each four values of one vector and four of another, numbered 4 and on."""
        count = one.type.count
        places = [start + place % 4 + place // 4 * count for start in range(0, count, 4) for place in order]
        return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), count), places))

    def fours(*vectors: Any) -> list[Any]:
        kind, count = ir.VectorType(ir.IntType(32), 4), vectors[0].type.count
        parts = [ir.Constant(kind, list(range(start, start + 4))) for start in range(0, count, 4)]
        return [builder.shuffle_vector(vector, vector, part) for part in parts for vector in vectors]

    narrow = columns[0].type.element.width > 8 * size
    if narrow:
        columns = [builder.bitcast(vector, ir.VectorType(ir.IntType(32), 8)) for vector in columns]
    a, b, c, d = columns
    if narrow:
        left, right = mixed(a, b, 0, 2, 4, 6), mixed(c, d, 0, 2, 4, 6)
        return fours(mixed(left, right, 0, 2, 4, 6), mixed(left, right, 1, 3, 5, 7))
    if size == 8:
        even, odd = ((mixed(a, b, *order), mixed(c, d, *order)) for order in ((0, 4, 2, 6), (1, 5, 3, 7)))
        return [mixed(*pair, *order) for order in ((0, 1, 4, 5), (2, 3, 6, 7)) for pair in (even, odd)]
    low, high = ((mixed(a, b, *order), mixed(c, d, *order)) for order in ((0, 4, 1, 5), (2, 6, 3, 7)))
    return fours(*(mixed(*pair, *order) for pair in (low, high) for order in ((0, 1, 4, 5), (2, 3, 6, 7))))


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
    """Write rows `first` and on to their places. Returns 0 if all values fit."""
    rows, lost, share = places.size, 0, 1.0 / unit
    addresses = np.empty(TILE_ROWS, np.uint64)
    for start in range(0, rows, TILE_ROWS):
        count = min(TILE_ROWS, rows - start)
        for i in range(count):
            addresses[i] = address_of(places[start + i], unit, share, targets, row_bytes)
            fetch(addresses[i])
        lost |= _write_tile(columns, slots, first + start, addresses, count, source_like, target_like)
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
    """The same to rows one after another."""
    to, like = (np.uint64(target), np.uint64(row_bytes)), (source_like, target_like)
    done, lost = _stack_eights(columns, slots, first, rows, *to, *like)
    addresses = np.empty(TILE_ROWS, np.uint64)
    for start in range(done, rows, TILE_ROWS):
        count = min(TILE_ROWS, rows - start)
        for i in range(count):
            addresses[i] = np.uint64(target) + np.uint64(start + i) * np.uint64(row_bytes)
        lost |= _write_tile(columns, slots, first + start, addresses, count, source_like, target_like)
    return lost


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
                lost |= _turn_eight(a, b, c, d, room, row_bytes, source_like, target_like)
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
                lost |= _turn_four(*columns, first, second, third, fourth, source_like, target_like)
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
    """As `scatter`, to matrices on their sides, column after column: a column is written front to back in every bin, so
    the lines it writes stay in the cache."""
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


@njit(nogil=True, cache=True)
def scatter_wide(
    columns: Any,
    strides: Any,
    slots: Any,
    row_bytes: Any,
    first: Any,
    places: Any,
    unit: Any,
    targets: Any,
    source_like: Any,
    target_like: Any,
) -> int:
    """As `scatter`, for columns with several values a row, which stand `stride` values apart."""
    source_size, target_size = np.uint64(source_like.itemsize), np.uint64(target_like.itemsize)
    rows, start, lost, share = np.uint64(places.size), np.uint64(0), 0, 1.0 / unit
    addresses = np.empty(TILE_ROWS, np.uint64)
    while start < rows:
        count = min(np.uint64(TILE_ROWS), rows - start)
        for i in range(count):
            addresses[i] = address_of(places[start + i], unit, share, targets, row_bytes)
        for column in range(np.uint64(columns.size)):
            stride, slot = strides[column], slots[column] * target_size
            source = value_at(columns[column] + (np.uint64(first) + start) * stride * source_size, source_like)
            for i in range(count):
                lost |= _move(value_at(addresses[i] + slot, target_like), source[i * stride], target_like)
        start += count
    return lost


@njit(nogil=True, cache=True)
def address_of(place: Any, unit: Any, share: Any, targets: Any, row_bytes: Any) -> Any:
    """Where the row at a place begins: in a unit of so many rows, of which a row is this share (1 / unit).

    Multiplied, because dividing takes ten times as long. Exact: half a row is far more than the product is off by.
    """
    number = np.uint32((place + 0.5) * share)
    return targets[number] + np.uint64(place - number * np.uint32(unit)) * np.uint64(row_bytes)


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
