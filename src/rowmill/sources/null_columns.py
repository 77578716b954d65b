"""Which columns of a table hold nulls: from the statistics in footers where they are stored, else from the rows.

A source and column names in, the names of those with nulls out. Called by `Dataset.to_ddf`, whose partitions must all
have the types that Dask is told beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from rowmill.sources.source import Source

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@runtime_checkable
class CountsNulls(Protocol):
    """A source that knows of some columns whether they hold nulls without reading them."""

    def known_nulls(self, columns: Sequence[str]) -> dict[str, bool]:
        """Whether each of these columns holds nulls; columns of which this is not known are left out."""
        ...


def columns_with_nulls(source: Source, columns: Iterable[str]) -> frozenset[str]:
    """Those of these columns that hold a null. What the source does not know is read, partition by partition."""
    names = list(columns)
    known = source.known_nulls(names) if isinstance(source, CountsNulls) else {}
    found = {name for name, null in known.items() if null}
    left = [name for name in names if name not in known]
    for fragment in source.fragments:
        if not left:
            break
        frame = source.read(fragment, left)
        found.update(name for name in left if frame.get_column(name).null_count())
        left = [name for name in left if name not in found]
    return frozenset(found)


def footer_nulls(path: str, filesystem: FileSystem | None, columns: Collection[str]) -> dict[str, bool | None]:
    """What the footer of a Parquet file says of these columns, none of them nested; None: it does not say."""
    with (filesystem or LocalFileSystem()).open_input_file(path) as file:
        footer = pq.read_metadata(file)
        places = {footer.schema.column(i).path: i for i in range(len(footer.schema))}
        found: dict[str, bool | None] = dict.fromkeys(columns, False)
        for name in columns:
            place = places.get(name)
            for group in range(footer.num_row_groups):
                if found[name] is not False:
                    break
                statistics = None if place is None else footer.row_group(group).column(place).statistics
                count = statistics.null_count if statistics is not None and statistics.has_null_count else None
                found[name] = None if count is None else count > 0
        return found
