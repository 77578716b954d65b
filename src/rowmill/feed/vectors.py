"""What Numba has no words for: pointers made of addresses, asking the cache for a line or writing past it, and values
copied or turned in vectors.

Instructions that kernels are made of. Called by `kernels` and `rows`, and by those of the store.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes of the cache
VECTOR = 16  # bytes that are copied at once
UNROLLED = 16  # vectors that are copied without a loop


@intrinsic
def value_at(typing: Any, address: Any, like: Any) -> Any:
    """A pointer to values of the dtype of `like`, made from an address."""
    pointer = types.CPointer(like.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.uint64, like), generate


@intrinsic
def call_at(typing: Any, address: Any, numbers: Any) -> Any:
    """Call a C function by its address, with a tuple of numbers of 8 bytes; returns another."""
    given = types.UniTuple(types.uint64, len(numbers))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        kind = ir.FunctionType(number, [number] * len(given))
        called = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.call(called, cgutils.unpack_tuple(builder, arguments[1]))

    return types.int64(types.uint64, given), generate


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
def stream_line(typing: Any, target: Any, source: Any) -> Any:
    """Copy a line to where another begins, past the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = ir.VectorType(ir.IntType(64), LINE // 8).as_pointer()
        to, of = (builder.inttoptr(address, line) for address in arguments)
        stored = builder.store(builder.load(of, align=LINE), to, align=LINE)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64), generate


@intrinsic
def settle(typing: Any) -> Any:
    """Wait until all threads can see what was written past the cache."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic
def copy_bytes(typing: Any, target: Any, source: Any, count: Any) -> Any:
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


copy_half_vectors, copy_vectors, copy_wide_vectors = _vectors(VECTOR // 2), _vectors(VECTOR), _vectors(2 * VECTOR)
widen_vectors = _vectors(2 * VECTOR, widened=True)


@intrinsic(prefer_literal=True)
def copy_whole(typing: Any, target: Any, source: Any, size: Any, times: Any) -> Any:
    """Copy `size` bytes, at least 4, without a loop. Both numbers are known when this is compiled. With `times` 2 they
    are integers of 4 bytes, which become such of 8."""
    if not (isinstance(size, types.IntegerLiteral) and isinstance(times, types.IntegerLiteral)):
        return None
    count, wider = size.literal_value, times.literal_value
    most = 2 * VECTOR // wider
    each = min(most, 1 << (count.bit_length() - 1))  # bytes of a vector; the last overlaps others

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = 4 if wider == 2 else min(8, each)
        of = ir.VectorType(ir.IntType(8 * number), each // number)
        to = ir.VectorType(ir.IntType(8 * number * wider), each // number)
        for at in [*range(0, count - each, each), count - each]:
            value = builder.load(_before(builder, arguments[1], -at, of), align=1)
            room = _before(builder, arguments[0], -at * wider, to)
            builder.store(builder.sext(value, to) if wider == 2 else value, room, align=1)
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, size, times), generate


@intrinsic
def turn_four(
    typing: Any, a: Any, b: Any, c: Any, d: Any, first: Any, second: Any, third: Any, fourth: Any, source: Any, to: Any
) -> Any:
    """Copy four values of each of four columns to four rows, where they stand side by side.

    Integers of 8 bytes may go to such of 4: then returns not 0 if any does not fit.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _turn(builder, arguments[:4], arguments[4:8], source, to)

    return types.int64(*[types.uint64] * 8, source, to), generate


@intrinsic
def turn_eight(typing: Any, a: Any, b: Any, c: Any, d: Any, row: Any, row_bytes: Any, source: Any, to: Any) -> Any:
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
