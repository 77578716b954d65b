"""What each compiled function does, in a few lines of NumPy and Python. Slow; the tests compare the two.

Arguments and results are those of `core`, except that columns and destinations are the arrays they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def mix(z: int) -> int:
    """The mixing function of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def lost(values: Array, target: np.dtype[Any]) -> bool:
    """Whether any value does not fit a dtype."""
    if values.dtype.kind in "iu" and target.kind in "iu":
        limits = np.iinfo(target)
        return any(not limits.min <= int(value) <= limits.max for value in values.ravel())
    if values.dtype.kind == target.kind == "f" and values.itemsize > target.itemsize:
        return bool(np.any(np.isfinite(values) & (np.abs(values) > np.finfo(target).max)))
    return False


def pack(
    columns: Sequence[Array], numbers: Sequence[int], slots: Sequence[int], first: int, matrices: Sequence[Array]
) -> int | None:
    """Write rows of columns to matrices; the number of a column that does not fit."""
    found = None
    for index, (column, number, slot) in enumerate(zip(columns, numbers, slots, strict=True)):
        target = matrices[number]
        values = column[first : first + len(target)].reshape(len(target), int(np.prod(column.shape[1:])))
        with np.errstate(all="ignore"):
            target[:, slot : slot + values.shape[1]] = values.astype(target.dtype)
        if found is None and lost(values, target.dtype):
            found = index
    return found


def copy_rows(matrices: Sequence[Array], rows: Array, plan: Array, places: Array, outputs: Sequence[Array]) -> None:
    """Copy rows of packed matrices by their numbers to rows of the outputs; consecutive numbers for `copy_rows`."""
    for output, number, offset, size, widen in plan.tolist():
        taken = matrices[number].view(np.uint8)[rows, offset : offset + size]
        if widen == 2:
            taken = np.ascontiguousarray(taken).view(np.int32).astype(np.int64)
        outputs[output].view(np.uint8)[places] = np.ascontiguousarray(taken).view(np.uint8)


def copy_lists(source: Array, starts: Array, places: Array, offsets: Array, values: Array) -> None:
    """Copy each list to where it begins."""
    for place, start, stop in zip(places, starts[:-1], starts[1:], strict=True):
        values[offsets[place] : offsets[place] + stop - start] = source[start:stop]


def shuffle(items: Array, key: int) -> None:
    """Fisher-Yates."""
    for step, i in enumerate(range(len(items) - 1, 0, -1), 1):
        drawn = float(mix((key + step * GOLDEN) & MASK) >> 11) * 2.0**-53
        j = int(drawn * (i + 1))
        items[i], items[j] = items[j], items[i]


def shuffle_segments(items: Array, segment: int, key: int) -> None:
    """Fisher-Yates for each segment, with a key of its own."""
    for number, start in enumerate(range(0, len(items), segment), 1):
        shuffle(items[start : start + segment], mix(key ^ number))


def random_places(places: Array, bins: int, key: int) -> None:
    """Rao-Sandelius: rows draw bins, bins stand one after another, and each is shuffled."""
    draws = [mix((key + (i + 1) * GOLDEN) & MASK) for i in range(-(-len(places) // 4))]
    drawn = np.array([(z >> (16 * part) & 0xFFFF) * bins >> 16 for z in draws for part in range(4)])[: len(places)]
    begin = 0
    for number in range(bins):
        members = np.flatnonzero(drawn == number)
        shuffled = np.arange(begin, begin + len(members), dtype=np.uint32)
        shuffle(shuffled, mix(key ^ (number + 1)))
        places[members] = shuffled
        begin += len(members)


def feistel_rows(rows: Array, first: int, total: int, height: int, width: int, keys: Array) -> None:
    """Six rounds on the grid, again while the cell is beyond the table."""

    def amount(other: int, key: int, limit: int) -> int:
        z = (other ^ key) * 0x85EBCA6B & 0xFFFFFFFF
        z = (z ^ (z >> 15)) * 0xC2B2AE35 & 0xFFFFFFFF
        return z * limit >> 32

    for i in range(len(rows)):
        cell = first + i
        while True:
            y, x = divmod(cell, width)
            for even, odd in zip(keys[::2].tolist(), keys[1::2].tolist(), strict=True):
                y = (y + amount(x, even, height)) % height
                x = (x + amount(y, odd, width)) % width
            cell = y * width + x
            if cell < total:
                break
        rows[i] = cell


def power_sums(values: Array) -> tuple[int, int, int, int]:
    """The sum of the finite values in units of 2^-1074, of their squares in units of 2^-2148; finite, infinite."""
    finite = [value for value in values.tolist() if value == value and abs(value) != float("inf")]
    parts = [value.as_integer_ratio() for value in finite]
    total = sum(above * (1 << 1074) // below for above, below in parts)
    squares = sum(above * above * (1 << 2148) // (below * below) for above, below in parts)
    return total, squares, len(finite), int(np.isinf(values.astype(np.float64)).sum())


def hash_numbers(values: Array, hashes: Array) -> None:
    """Mix each value into its hash so far."""
    for i, value in enumerate(values.tolist()):
        hashes[i] = mix((int(hashes[i]) * GOLDEN + value + GOLDEN) & MASK)


def hash_bytes(strings: Sequence[bytes], hashes: Array) -> None:
    """Mix each string into its hash so far, eight bytes at a time."""
    for i, text in enumerate(strings):
        state = (int(hashes[i]) * GOLDEN + len(text) + GOLDEN) & MASK
        for start in range(0, len(text), 8):
            state = mix(state ^ int.from_bytes(text[start : start + 8], "little")) * GOLDEN & MASK
        hashes[i] = mix(state)


def draw_folds(rows: Array, seed: int, folds: int) -> list[int]:
    """The fold of each row."""
    return [mix(((row + 1) * GOLDEN ^ seed) & MASK) % folds for row in rows.tolist()]
