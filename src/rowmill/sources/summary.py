"""What is known of a source without reading a row: its files, and its rows if they are counted already.

Called by `dataset`, to show itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rowmill._system.display import plural
from rowmill.schema import Schema
from rowmill.sources.files.paths import Files
from rowmill.sources.frames.frame_source import FrameSource
from rowmill.sources.source import Source

_COUNTED_BY = {
    "CsvSource": "_lines.counted",
    "JsonSource": "_lines.counted",
    "LazySource": "_rows",
    "SpooledSource": "_rows",
    "DaskSource": "fragments",
    "FilteredSource": "_pieces",
}


def known_rows(source: Source) -> int | None:
    """The rows of a source; None if counting them would read files or run a query."""
    for part in _chain(source):
        name = _COUNTED_BY.get(type(part).__name__)
        if name == "_lines.counted":
            if not part._lines.counted:
                return None
        elif name is not None and part.__dict__.get(name) is None:
            return None
    return sum(fragment.rows for fragment in source.fragments)


def file_names(source: Source) -> tuple[str, ...]:
    """The files that a source reads; none if it is a frame in memory or the result of a query."""
    *_, last = _chain(source)
    files = getattr(last, "files", None)
    return files.paths if isinstance(files, Files) else ()


def innermost(source: Source) -> Source:
    """The source that others wrap: the one that reads files or a frame."""
    *_, last = _chain(source)
    found: Source = last
    return found


def is_in_memory(source: Source) -> bool:
    """Whether the rows of a source are in memory, so that a look at them costs little."""
    return isinstance(innermost(source), FrameSource)


def version_text(source: Source) -> str | None:
    """The version of a table that a source reads, in words; None if it has no versions."""
    found = next((one for part in _chain(source) if (one := getattr(part, "version", None)) is not None), None)
    return None if found is None else str(found)


def table_summary(source: Source, schema: Schema) -> tuple[str, list[tuple[str, ...]]]:
    """A title with rows, columns and files, and a line for each column."""
    rows, files = known_rows(source), file_names(source)
    counted = "rows not counted yet" if rows is None else plural(rows, "row")
    where = f" ({files[0]}{', ...' if len(files) > 1 else ''})" if files else ""
    place = plural(len(files), "file") + where if files else "in memory or computed"
    place = version_text(source) or place
    return f"Dataset: {counted}, {plural(len(schema), 'column')}, {place}", column_rows(schema)


def column_rows(schema: Schema) -> list[tuple[str, ...]]:
    """Name, type and tags of each column."""
    return [(c.name, _type(c), ", ".join(sorted(map(str, c.tags)))) for c in schema]


def _type(column: Any) -> str:
    if not column.is_list:
        return str(column.dtype)
    return f"list of {column.width} {column.dtype}" if column.width is not None else f"list of {column.dtype}"


def _chain(source: Any) -> Iterator[Any]:
    """A source, and those that it reads, outermost first."""
    while source is not None:
        yield source
        source = next((v for n in ("_source", "base", "_base") if (v := getattr(source, n, None)) is not None), None)
