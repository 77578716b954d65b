"""What runs over every value on its way into a batch: from columns to rows, from any place to any other.

Comes in: addresses of columns, and places in blocks. Goes out: the bits of values that may not fit. Called by `pack`,
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
    typing: Any, a: Any, b: Any, c: Any, d: Any, first: Any, second: Any, third: Any, fourth: Any, like: Any
) -> Any:
    """Copy four values of each of four columns to four rows, where they stand side by side."""
    size = np.dtype(str(like.dtype)).itemsize

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8 * size), 4).as_pointer()
        columns = [builder.load(builder.inttoptr(address, vector), align=size) for address in arguments[:4]]

        def mixed(one: Any, other: Any, *order: int) -> Any:
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), 4), list(order)))

        for half, targets in (((0, 4, 1, 5), arguments[4:6]), ((2, 6, 3, 7), arguments[6:8])):
            left, right = mixed(*columns[:2], *half), mixed(*columns[2:], *half)
            for target, pairs in zip(targets, ((0, 1, 4, 5), (2, 3, 6, 7)), strict=True):
                builder.store(mixed(left, right, *pairs), builder.inttoptr(target, vector), align=size)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 8, like), generate


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
    """Write rows `first` and on to their places. Returns all bits that are set in values that may not fit."""
    rows, bits, share = places.size, 0, 1.0 / unit
    addresses = np.empty(TILE_ROWS, np.uint64)
    for start in range(0, rows, TILE_ROWS):
        count = min(TILE_ROWS, rows - start)
        for i in range(count):
            addresses[i] = address_of(places[start + i], unit, share, targets, row_bytes)
            fetch(addresses[i])
        bits |= _write_tile(columns, slots, first + start, addresses, count, source_like, target_like)
    return bits


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
    bits, size = 0, np.uint64(row_bytes)
    addresses = np.empty(TILE_ROWS, np.uint64)
    for start in range(0, rows, TILE_ROWS):
        count = min(TILE_ROWS, rows - start)
        for i in range(count):
            addresses[i] = np.uint64(target) + np.uint64(start + i) * size
        bits |= _write_tile(columns, slots, first + start, addresses, count, source_like, target_like)
    return bits


@njit(nogil=True, cache=True)
def _write_tile(
    columns: Any, slots: Any, first: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
) -> int:
    """Write rows to their addresses, four columns at a time where they stand side by side: the last four overlap others
    rather than leave up to three to be written one by one."""
    offset, size = np.uint64(first) * np.uint64(source_like.itemsize), np.uint64(target_like.itemsize)
    bits, column, width = 0, 0, columns.size
    while column < width:
        four = min(column, width - 4)
        if four >= 0 and slots[four + 3] - slots[four] == np.uint64(3):
            a, b = columns[four] + offset, columns[four + 1] + offset
            c, d = columns[four + 2] + offset, columns[four + 3] + offset
            slot = slots[four] * size
            bits |= _write_four(a, b, c, d, slot, addresses, count, source_like, target_like)
            column = four + 4
        else:
            source, slot = value_at(columns[column] + offset, source_like), slots[column] * size
            for i in range(count):
                bits |= _move(value_at(addresses[i] + slot, target_like), source[i], target_like)
            column += 1
    return bits


def _write_four(
    a: Any, b: Any, c: Any, d: Any, slot: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
) -> int:
    """Write the values of four columns to four places side by side, `slot` bytes into each row."""
    raise NotImplementedError  # compiled only


@overload(_write_four)
def _compile_four(
    a: Any, b: Any, c: Any, d: Any, slot: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
) -> Any:
    in_vectors = source_like.dtype == target_like.dtype

    def write(
        a: Any, b: Any, c: Any, d: Any, slot: Any, addresses: Any, count: Any, source_like: Any, target_like: Any
    ) -> int:
        size, bits, done, at = np.uint64(target_like.itemsize), 0, 0, np.uint64(0)
        if in_vectors:
            while done + 4 <= count:
                first, second = addresses[done] + slot, addresses[done + 1] + slot
                third, fourth = addresses[done + 2] + slot, addresses[done + 3] + slot
                _turn_four(a + at, b + at, c + at, d + at, first, second, third, fourth, target_like)
                done, at = done + 4, at + np.uint64(4) * size
        source_a, source_b = value_at(a, source_like), value_at(b, source_like)
        source_c, source_d = value_at(c, source_like), value_at(d, source_like)
        for i in range(done, count):
            row = addresses[i] + slot
            bits |= _move(value_at(row, target_like), source_a[i], target_like)
            bits |= _move(value_at(row + size, target_like), source_b[i], target_like)
            bits |= _move(value_at(row + size + size, target_like), source_c[i], target_like)
            bits |= _move(value_at(row + size + size + size, target_like), source_d[i], target_like)
        return bits

    return write


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
    bits, share = 0, 1.0 / unit
    addresses = np.empty(places.size, np.uint64)
    for i in range(places.size):
        addresses[i] = address_of(places[i], unit, share, targets, target_size)
    for column in range(columns.size):
        source = value_at(columns[column] + np.uint64(first) * source_size, source_like)
        offset = slots[column] * np.uint64(step)
        for i in range(places.size):
            bits |= _move(value_at(addresses[i] + offset, target_like), source[i], target_like)
    return bits


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
    rows, start, bits, share = np.uint64(places.size), np.uint64(0), 0, 1.0 / unit
    addresses = np.empty(TILE_ROWS, np.uint64)
    while start < rows:
        count = min(np.uint64(TILE_ROWS), rows - start)
        for i in range(count):
            addresses[i] = address_of(places[start + i], unit, share, targets, row_bytes)
        for column in range(np.uint64(columns.size)):
            stride, slot = strides[column], slots[column] * target_size
            source = value_at(columns[column] + (np.uint64(first) + start) * stride * source_size, source_like)
            for i in range(count):
                bits |= _move(value_at(addresses[i] + slot, target_like), source[i * stride], target_like)
        start += count
    return bits


@njit(nogil=True, cache=True)
def address_of(place: Any, unit: Any, share: Any, targets: Any, row_bytes: Any) -> Any:
    """Where the row at a place begins: in a unit of so many rows, of which a row is this share (1 / unit).

    Multiplied, because dividing takes ten times as long. Exact: half a row is far more than the product is off by.
    """
    number = np.uint32((place + 0.5) * share)
    return targets[number] + np.uint64(place - number * np.uint32(unit)) * np.uint64(row_bytes)


def _move(pointer: Any, value: Any, like: Any) -> int:
    """Write a value; return its bits (of a float 1) if it may not fit, else 0."""
    raise NotImplementedError  # compiled only


@overload(_move)
def _compile_move(pointer: Any, value: Any, like: Any) -> Any:
    source, target = np.dtype(str(value)), np.dtype(str(like.dtype))
    if _may_not_fit(source, target):

        def doubtful(pointer: Any, value: Any, like: Any) -> int:
            pointer[0] = value
            return np.int64(value)  # type: ignore[return-value]  # numba sees an int

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


def _may_not_fit(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    return source.kind in "iu" and target.kind in "iu" and not np.can_cast(source, target)
