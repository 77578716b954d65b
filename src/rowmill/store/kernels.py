"""What writes every byte of a store: rows that are packed go to their places, to a checksum, and to files.

Comes in: columns, places in blocks, and open files. Goes out: a number. Called by `write` in the reading threads;
everything here releases the GIL.
"""

from __future__ import annotations

import errno
from typing import Any

from numba import njit, types
from numpy import empty, int64, uint32, uint64

from rowmill.feed.kernels import deal_strip
from rowmill.store import checksum

UNFIT, INTERRUPTED = -1, errno.EINTR  # no number of an error, and one that is none

_pwrite = types.ExternalFunction("pwrite", types.int64(types.int32, types.uint64, types.int64, types.int64))
_errno = types.ExternalFunction("__errno_location", types.CPointer(types.int32)())


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
