"""Where rows are stored: numbers of rows in, a frame with `file`, `row_group` and `row` for each of them out.

Called by `feed.run.batch_rows`, for `loader.rows(step)`. No value of the table is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill.errors import ArgumentError
from rowmill.sources.source import Source

PLACE = {"file": pl.String, "row_group": pl.Int64, "row": pl.Int64}
Rows = NDArray[np.int64]


@runtime_checkable
class LocatingSource(Protocol):
    """A source that knows where its rows are stored."""

    def locate(self, unit: int, rows: Rows) -> pl.DataFrame:
        """For rows of a unit by their numbers, in this order: `file`, `row_group`, and `row` within the row group.

        CSV files have no row groups: `row` counts the rows of the file. A frame in memory has no file either.
        """
        ...


def locate(source: Source, unit: int, rows: Rows) -> pl.DataFrame:
    """Where rows of a unit are stored (see `LocatingSource`)."""
    if not isinstance(source, LocatingSource):
        raise ArgumentError(
            "these rows are made of several rows of a table (by Groupby, DifferenceLag or the like), so no row of a "
            "file is theirs; write them with to_parquet() and open the files"
        )
    return source.locate(unit, rows)


def places(file: str | None, rows: Rows, group_starts: Sequence[int] | None = None) -> pl.DataFrame:
    """Rows of one file by their numbers; `group_starts`: the first row of each of its row groups."""
    if group_starts is None:
        columns = {"file": [file] * len(rows), "row_group": [None] * len(rows), "row": rows}
    else:
        starts = np.asarray(group_starts, np.int64)
        groups = np.searchsorted(starts, rows, "right") - 1
        columns = {"file": [file] * len(rows), "row_group": groups, "row": rows - starts[groups]}
    return pl.DataFrame(columns, schema=PLACE)


def locate_parts(numbers: Rows, find: Callable[[int, Rows], pl.DataFrame], of_row: Rows) -> pl.DataFrame:
    """Rows of several parts (units, pieces, spans), in their own order: `numbers` says which part each is of, and
    `find` locates the rows of one part, which are given as `of_row`."""
    found = [pl.DataFrame(schema={**PLACE, "at": pl.Int64})]
    for number in np.unique(numbers):
        at = np.flatnonzero(numbers == number)
        found.append(find(int(number), of_row[at]).with_columns(pl.Series("at", at, pl.Int64)))
    return pl.concat(found).sort("at").drop("at")


def stored_table(source: Source) -> Source:
    """The source below casts and workflows: the same rows in the same fragments, as they are stored."""
    while (below := getattr(source, "same_fragments_as", None)) is not None:
        source = below
    return source
