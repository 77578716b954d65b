"""Other orders and shapes of a table: partitions cut anew, rows grouped by key, two tables joined.

A `Source` in, a `Source` out. None of them needs a table in memory, except the smaller side of a join.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from rowmill._system.progress import progress_bar
from rowmill.errors import ArgumentError, DtypeError
from rowmill.sinks.scatter import Buckets
from rowmill.sources.files.paths import Files
from rowmill.sources.files.temporary_files import Keeper, temporary_folder
from rowmill.sources.ipc.ipc_source import IpcSource
from rowmill.sources.names import columns as columns_of
from rowmill.sources.source import Fragment, Source
from rowmill.sources.wrap.repartitioned import JoinedSource

_MOST = 256  # files open at once


def recut(source: Source, pieces: int) -> JoinedSource:
    """The rows in their order, in `pieces` partitions of equal size (within a row)."""
    total = sum(f.rows for f in source.fragments)
    edges = [total * i // pieces for i in range(pieces + 1)]
    return JoinedSource(source, source.fragments, [b - a for a, b in pairwise(edges)])


def group_by_hash(source: Source, keys: Sequence[str], pieces: int, progress: bool | None) -> Source:
    """All rows with the same key in the same partition; rows are dealt to temporary files by the hash of the key."""
    pieces = max(1, min(pieces, _MOST))
    columns = source.schema.column_names
    total = sum(f.rows for f in source.fragments)
    keeper = Keeper()
    folder = temporary_folder(keeper)
    with Buckets(folder, pieces) as buckets, progress_bar("grouping", total, progress) as advance:
        for fragment in source.fragments:
            frame = source.read(fragment, columns)
            hashes = frame.select(columns_of(keys)).hash_rows(seed=0).to_numpy()
            buckets.add(frame, hashes % np.uint64(pieces))
            advance(frame.height)
    written = buckets.written()
    if not written:
        return source
    files = IpcSource(Files(tuple(str(p) for p in written), "ipc"))
    rows = [0] * len(written)
    for fragment in files.fragments:
        rows[fragment.unit] += fragment.rows
    return JoinedSource(files, [Fragment(i, 0, n) for i, n in enumerate(rows)], rows, keeper)


def group_by_folder(source: Any, keys: Sequence[str], pieces: int | None) -> JoinedSource | None:
    """Rows grouped by keys that `key=value` folders hold already, without moving one; None where they do not."""
    files: Files | None = getattr(source, "files", None)
    if files is None or not files.hive or not all(k in values for values in files.hive for k in keys):
        return None
    groups: dict[tuple[str | None, ...], list[Fragment]] = {}
    for fragment in source.fragments:
        groups.setdefault(tuple(files.hive[fragment.unit][k] for k in keys), []).append(fragment)
    ordered = list(groups.values())
    rows = [sum(f.rows for f in group) for group in ordered]
    if pieces is not None and pieces < len(rows):
        total, joined, before = sum(rows), [0] * pieces, 0
        for n in rows:  # whole groups, binned by where their middle row falls
            joined[min(pieces - 1, math.floor((before + n / 2) / total * pieces))] += n
            before += n
        rows = joined
    return JoinedSource(source, [f for group in ordered for f in group], rows)


def lazy(source: Source) -> pl.LazyFrame:
    """A source as a lazy Polars table that reads fragment by fragment, only the columns a query needs."""
    empty = source.read(Fragment(0, 0, 0), source.schema.column_names)

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for fragment in source.fragments:
            if rows is not None and rows <= 0:
                return
            part = fragment if rows is None else fragment.slice(0, min(rows, fragment.rows))
            frame = source.read(part, columns or empty.columns)
            rows = None if rows is None else rows - part.rows
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(frames, schema=empty.schema, is_pure=True)


def _kind_of_time(dtype: str) -> str:
    """ "date", "time", "duration", "datetime" or "datetime with a zone"; empty for other types. Units do not matter."""
    name, _, options = dtype.partition("[")
    if name not in ("date", "time", "duration", "datetime"):
        return ""
    return f"{name} with a zone" if "," in options else name


def join(left: Source, right: Source, **options: Any) -> pl.LazyFrame:
    """The join of two tables, spelled as pandas spells it: `on`, `left_on`, `right_on`, `how`, `suffixes`."""
    on = options.pop("on", None)
    left_on, right_on = options.pop("left_on", on), options.pop("right_on", on)
    how = options.pop("how", "inner")
    suffixes = options.pop("suffixes", ("_x", "_y"))
    if options:
        raise ArgumentError(
            f"unknown argument {next(iter(options))!r} for merge; wanted on, left_on, right_on, how, suffixes"
        )
    a = [left_on] if isinstance(left_on, str) else left_on
    b = [right_on] if isinstance(right_on, str) else right_on
    if not a and not b:
        a = b = [c for c in left.schema.column_names if c in right.schema]
    if how not in ("inner", "left", "right", "outer"):
        raise ArgumentError(f"how is {how!r}; wanted 'inner', 'left', 'right' or 'outer'")
    if not a or not b or len(a) != len(b):
        raise ArgumentError(
            f"cannot join on {left_on!r} and {right_on!r}; wanted as many columns on both sides; give on="
        )
    for names, schema in ((a, left.schema), (b, right.schema)):
        for name in names:
            schema[name]
    for x, y in zip(a, b, strict=True):
        texts = [
            schema[name].dtype in ("string", "categorical", "enum")
            for schema, name in ((left.schema, x), (right.schema, y))
        ]
        if texts[0] != texts[1] or _kind_of_time(left.schema[x].dtype) != _kind_of_time(right.schema[y].dtype):
            raise DtypeError(
                f"cannot join {x!r}, which is {left.schema[x].dtype}, and {y!r}, which is {right.schema[y].dtype}; "
                f"wanted one type; open one of the two with Dataset(..., dtypes=)"
            )
    shared = {c for c in left.schema.column_names if c in right.schema} - {
        x for x, y in zip(a, b, strict=True) if x == y
    }
    one = lazy(left).rename({c: c + suffixes[0] for c in shared})
    two = lazy(right).rename({c: c + suffixes[1] for c in shared})
    a = [c + suffixes[0] if c in shared else c for c in a]
    b = [c + suffixes[1] if c in shared else c for c in b]
    kind: Any = {"outer": "full"}.get(how, how)
    same = a == b
    return one.join(
        two,
        left_on=columns_of(a),
        right_on=columns_of(b),
        how=kind,
        coalesce=same,
        nulls_equal=True,
        maintain_order="left_right",
    )
