"""Compiled loops: exact sums, counting and finding whole numbers. Imported when first needed, as compiling is slow.

Each releases the GIL and works on plain arrays; nothing here knows of columns or operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

_compiled = njit(nogil=True, cache=True, error_model="numpy")
_inlined = njit(nogil=True, cache=True, inline="always")

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_5 = np.uint64(5)
_31 = np.uint64(31)
# The golden ratio as a 64-bit fraction: consecutive keys are spread evenly by a multiplication with it.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@_inlined
def _add(limbs: Any, position: Any, value: Any, sign: Any) -> None:
    """limbs += sign * value * 2^position, where a limb counts 2^32 times the one before it."""
    limb = np.int64(position >> _5)
    shift = position & _31
    low = (value & _LOW) << shift
    high = ((value >> _32) << shift) + (low >> _32)
    limbs[limb] += sign * np.int64(low & _LOW)
    limbs[limb + 1] += sign * np.int64(high & _LOW)
    limbs[limb + 2] += sign * np.int64(high >> _32)


@_inlined
def _add_square(limbs: Any, position: Any, value: Any) -> None:
    """limbs += value^2 * 2^position."""
    low, high = value & _LOW, value >> _32
    _add(limbs, position, low * low, np.int64(1))
    if high:
        _add(limbs, position + np.uint64(33), low * high, np.int64(1))
        _add(limbs, position + np.uint64(64), high * high, np.int64(1))


def _digits(value: Any) -> Any:
    """A finite number as (sign, whole digits, the power of two that they count, plus 1074)."""
    raise NotImplementedError  # compiled only


@overload(_digits, inline="always")
def _digits_of(value: Any) -> Any:
    if isinstance(value, types.Float):

        def of_float(value: Any) -> Any:
            bits = np.float64(value).view(np.uint64)
            exponent = (bits >> np.uint64(52)) & np.uint64(0x7FF)
            digits = bits & np.uint64(0xFFFFFFFFFFFFF)
            sign = np.int64(-1) if bits >> np.uint64(63) else np.int64(1)
            if exponent:
                digits |= np.uint64(1) << np.uint64(52)
                exponent -= np.uint64(1)
            if not digits & np.uint64(0x1FFFFFFF):  # came from 32 bits: its square fits in 64
                digits >>= np.uint64(29)
                exponent += np.uint64(29)
            return sign, digits, exponent

        return of_float
    if isinstance(value, types.Integer) and not value.signed:

        def of_unsigned(value: Any) -> Any:
            return np.int64(1), np.uint64(value), np.uint64(1074)

        return of_unsigned

    def of_integer(value: Any) -> Any:
        if value < 0:
            return np.int64(-1), ~np.uint64(value) + np.uint64(1), np.uint64(1074)
        return np.int64(1), np.uint64(value), np.uint64(1074)

    return of_integer


@_compiled
def add_powers(values: NDArray[Any], low: NDArray[np.int64], high: NDArray[np.int64]) -> tuple[int, int]:
    """Add all finite values to `low` (units of 2^-1074) and their squares to `high` (2^-2148): (finite, infinite)."""
    finite = 0
    infinite = 0
    for value in values:
        if not np.isfinite(value):
            if np.isinf(value):
                infinite += 1
            continue
        finite += 1
        sign, digits, position = _digits(value)
        if digits:
            _add(low, position, digits, sign)
            _add_square(high, position + position, digits)
    return finite, infinite


@_compiled
def count_into(
    values: NDArray[np.int64], start: int, keys: NDArray[np.int64], counts: NDArray[np.int64], used: int, room: int
) -> tuple[int, int]:
    """Count values from `start` on in a table of keys, until `room` keys are used: (where it stopped, keys used)."""
    mask = np.uint64(len(keys) - 1)
    shift = np.uint64(64) - np.uint64(np.log2(len(keys)))
    for index in range(start, len(values)):
        value = values[index]
        slot = (np.uint64(value) * GOLDEN) >> shift
        while True:
            found = counts[slot]
            if found and keys[slot] == value:
                counts[slot] = found + 1
                break
            if not found:
                if used == room:
                    return index, used
                keys[slot] = value
                counts[slot] = 1
                used += 1
                break
            slot = (slot + np.uint64(1)) & mask
    return len(values), used


@_compiled
def put_counts(
    new_keys: NDArray[np.int64], new_counts: NDArray[np.int64], keys: NDArray[np.int64], counts: NDArray[np.int64]
) -> int:
    """Add counted keys (those with a count) to a table that has room for all of them: how many were new."""
    mask = np.uint64(len(keys) - 1)
    shift = np.uint64(64) - np.uint64(np.log2(len(keys)))
    used = 0
    for index in range(len(new_keys)):
        if new_counts[index] == 0:
            continue
        value = new_keys[index]
        slot = (np.uint64(value) * GOLDEN) >> shift
        while counts[slot] and keys[slot] != value:
            slot = (slot + np.uint64(1)) & mask
        if counts[slot] == 0:
            keys[slot] = value
            used += 1
        counts[slot] += new_counts[index]
    return used


@_compiled
def pack_keys(keys: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """A table of 2^bits slots that finds the place of each of these different keys in their array.

    Keys of 32 bits share a slot with their place (place + 1 in the low half, 0 for an empty slot); others take two.
    """
    size = 1 << bits
    table = np.zeros(size, np.int64)
    mask = np.uint64(size - 1)
    shift = np.uint64(64 - bits)
    for place in range(len(keys)):
        slot = (np.uint64(keys[place]) * GOLDEN) >> shift
        while table[slot]:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = (keys[place] << np.int64(32)) | np.int64(place + 1)
    return table


@_compiled
def find_packed(values: NDArray[Any], table: NDArray[np.int64], bits: int, places: NDArray[np.int32]) -> None:
    """The place of each value among the keys of `pack_keys`, or -1."""
    mask = np.uint64(len(table) - 1)
    shift = np.uint64(64 - bits)
    for index in range(len(values)):
        value = np.int64(values[index])
        slot = (np.uint64(value) * GOLDEN) >> shift
        place = np.int32(-1)
        while table[slot]:
            if table[slot] >> np.int64(32) == value:
                place = np.int32(table[slot] & np.int64(0xFFFFFFFF)) - np.int32(1)
                break
            slot = (slot + np.uint64(1)) & mask
        places[index] = place


@_compiled
def wide_keys(keys: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Like `pack_keys`, for keys of 64 bits: a slot is a key and its place + 1."""
    size = 1 << bits
    table = np.zeros((size, 2), np.int64)
    mask = np.uint64(size - 1)
    shift = np.uint64(64 - bits)
    for place in range(len(keys)):
        slot = (np.uint64(keys[place]) * GOLDEN) >> shift
        while table[slot, 1]:
            slot = (slot + np.uint64(1)) & mask
        table[slot, 0] = keys[place]
        table[slot, 1] = place + 1
    return table


@_compiled
def find_wide(values: NDArray[np.int64], table: NDArray[np.int64], bits: int, places: NDArray[np.int32]) -> None:
    """The place of each value among the keys of `wide_keys`, or -1."""
    mask = np.uint64(len(table) - 1)
    shift = np.uint64(64 - bits)
    for index in range(len(values)):
        value = values[index]
        slot = (np.uint64(value) * GOLDEN) >> shift
        while table[slot, 1] and table[slot, 0] != value:
            slot = (slot + np.uint64(1)) & mask
        places[index] = np.int32(table[slot, 1]) - np.int32(1)


@_inlined
def _mix(value: Any) -> Any:
    """SplitMix64's last step: every bit of the result depends on every bit of the value."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@_compiled
def hash_numbers(values: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """Mix each value into its hash so far."""
    for index in range(len(values)):
        hashes[index] = _mix(hashes[index] * GOLDEN + np.uint64(values[index]) + GOLDEN)


@_compiled
def hash_bytes(offsets: NDArray[np.int64], data: NDArray[np.uint8], hashes: NDArray[np.uint64]) -> None:
    """Mix each string (bytes `offsets[i]` to `offsets[i + 1]`) into its hash so far, eight bytes at a time."""
    for index in range(len(offsets) - 1):
        start, stop = offsets[index], offsets[index + 1]
        state = hashes[index] * GOLDEN + np.uint64(stop - start) + GOLDEN
        while start < stop:
            word = np.uint64(0)
            for byte in range(min(8, stop - start)):
                word |= np.uint64(data[start + byte]) << np.uint64(8 * byte)
            state = _mix(state ^ word) * GOLDEN
            start += 8
        hashes[index] = _mix(state)


@_compiled
def draw_folds(rows: NDArray[np.int64], seed: int, folds: int, drawn: NDArray[np.uint8]) -> None:
    """The fold of every row by its number: random by seed, the same wherever the row is read."""
    for index in range(len(rows)):
        mixed = _mix((np.uint64(rows[index]) + np.uint64(1)) * GOLDEN ^ np.uint64(seed))
        drawn[index] = mixed % np.uint64(folds)


@_compiled
def dot_rows(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    a: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    b: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    products: NDArray[np.float64],
) -> None:
    """The inner product of row left[i] of sparse matrix a with row right[i] of b; rows' columns are sorted."""
    for index in range(len(left)):
        row, other = left[index], right[index]
        total = 0.0
        if 0 <= row < len(a[0]) - 1 and 0 <= other < len(b[0]) - 1:
            i, stop = a[0][row], a[0][row + 1]
            j, end = b[0][other], b[0][other + 1]
            while i < stop and j < end:
                if a[1][i] == b[1][j]:
                    total += a[2][i] * b[2][j]
                    i += 1
                    j += 1
                elif a[1][i] < b[1][j]:
                    i += 1
                else:
                    j += 1
        products[index] = total
