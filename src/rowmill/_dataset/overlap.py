"""Whether two datasets have a row of a table in common: two sources in, the place of such a row out.

Rows are compared by where they are stored (file, row group and number), not by their values. Called by `choose_rows`,
for `Dataset.check_disjoint` and for splits by conditions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rowmill._system.progress import progress_bar
from rowmill.sources.locate import locate
from rowmill.sources.source import Source
from rowmill.sources.summary import innermost

_GROUP = 40  # bits of a row's number within its row group
_AT_ONCE = 1 << 20  # rows that are located at once


def common_row(left: Source, right: Source, progress: bool | None = None) -> str | None:
    """Where a row is stored that both have; None if there is none. Takes 8 bytes of memory for each row of the
    smaller one."""
    fewer, more = sorted((left, right), key=_rows)
    with progress_bar("Comparing rows", _rows(left) + _rows(right), progress) as done:
        held: dict[str, list[NDArray[np.int64]]] = {}
        for file, numbers in _stored_rows(fewer):
            held.setdefault(file, []).append(numbers)
            done(len(numbers))
        known = {file: np.sort(np.concatenate(parts)) for file, parts in held.items()}
        for file, numbers in _stored_rows(more):
            there = known.get(file)
            if there is not None:
                at = np.minimum(np.searchsorted(there, numbers), len(there) - 1)
                both = numbers[there[at] == numbers]
                if len(both):
                    return _place(file, int(both[0]))
            done(len(numbers))
    return None


def _rows(source: Source) -> int:
    return sum(fragment.rows for fragment in source.fragments)


def _stored_rows(source: Source) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The rows of a source as numbers within their files. A table in memory counts as a file."""
    memory = ""
    for fragment in source.fragments:
        for start in range(fragment.start, fragment.stop, _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, fragment.stop), dtype=np.int64)
            for (file,), part in locate(source, fragment.unit, rows).group_by("file", maintain_order=True):
                if file is None:
                    memory = memory or f"the table in memory {innermost(source).fingerprint()}"
                groups = part.get_column("row_group").fill_null(0).to_numpy()
                yield file or memory, (groups << _GROUP) + part.get_column("row").to_numpy()


def _place(file: str, number: int) -> str:
    group, row = divmod(number, 1 << _GROUP)
    return f"row {row} of row group {group} of {file}" if file.endswith(".parquet") else f"row {row} of {file}"
