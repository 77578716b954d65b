"""The copy plan: which bytes of a packed row go to which matrix, when two layouts differ.

Comes in: two layouts of the same columns. Goes out: a line of integers for each matrix that is wanted, as
`_native.copy_rows` takes them.
Called by `pack_columns`, and by the store.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rowmill.feed.memory.block import Layout

NUMBER, MATRIX, OFFSET, SIZE, TIMES = range(5)  # what stands where in a line


@lru_cache(maxsize=64)
def parts(packed: Layout, wanted: Layout) -> NDArray[np.int64]:
    """For each matrix that is wanted: its number, the packed matrix it stands in, from which byte of a row on, how many
    bytes of it, and how many times as many they become. Those of one packed matrix follow each other, front to back.

    Columns that stand side by side in a wanted matrix must do so in the packed one. They are found by their names,
    unless the layouts are the same.
    """
    if packed == wanted:
        same = [[number, number, 0, matrix.row_bytes, 1] for number, matrix in enumerate(wanted.matrices)]
        return np.array(same, np.int64).reshape(-1, 5)
    lines: list[list[int]] = []
    places: dict[str, tuple[int, int]] = {}
    for number, held in enumerate(packed.matrices):
        offset = 0
        for column, width in held.of_width:
            places[column] = (number, offset)
            offset += width * held.dtype.itemsize
    for number, matrix in enumerate(wanted.matrices):
        if matrix.columns:
            inside, offset = places[matrix.columns[0]]
            itemsize = packed.matrices[inside].dtype.itemsize
            lines.append([number, inside, offset, matrix.width * itemsize, matrix.dtype.itemsize // itemsize])
    lines.sort(key=lambda line: (line[MATRIX], line[OFFSET]))
    return np.array(lines, np.int64).reshape(-1, 5)
