"""Bytes of a row of a table: as it is read, and as it is counted against the memory setting. Called by `run.stream`."""

from __future__ import annotations

from dataclasses import dataclass

from rowmill.feed.memory.budget import row_bytes
from rowmill.feed.pack.selection import Selection
from rowmill.sources.source import Source

_OBJECT_BYTES = 64  # of a string as a Python object, besides its letters


@dataclass(frozen=True, slots=True)
class RowSizes:
    """Bytes of a row. Lists and strings are counted with their expected sizes."""

    read: float  # as the source decodes it
    packed: float  # in the matrices of a batch, with its lists and strings
    planned: float  # in matrices of the widest dtypes of any loader, so that all loaders plan the same chunks
    unshuffled: float  # in a chunk whose rows stay in order
    in_chunk: float  # in a chunk of this stream
    fixed: float  # the share of `in_chunk` that the matrices take

    @classmethod
    def of(cls, source: Source, selection: Selection, *, shuffled: bool) -> RowSizes:
        layout = selection.layout
        variable = source.row_bytes(layout.variable) + _OBJECT_BYTES * len(layout.objects) if layout.variable else 0.0
        packed = max(1.0, layout.row_bytes + variable)
        planned = selection.planned_bytes
        in_chunk = row_bytes(packed, planned, variable, shuffled=shuffled)
        return cls(
            read=max(1.0, source.row_bytes(selection.columns)),
            packed=packed,
            planned=planned,
            unshuffled=row_bytes(packed, planned, variable, shuffled=False),
            in_chunk=in_chunk,
            fixed=layout.row_bytes / in_chunk,
        )
