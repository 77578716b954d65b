"""How many rows are shuffled together: the size of the first chunk and of the later ones. Called by `run.planner`."""

from __future__ import annotations

FIRST_BYTES = 96 << 20  # of small fragments, read in some 50 ms; a smaller table is shuffled as a whole
UNSHUFFLED_ROWS = 65_536  # rows that stay in order are passed on in pieces of about this size


def first_chunk_rows(largest_fragment: int, row_bytes: float) -> int:
    """Rows of the first chunk, so that the first batch comes soon: half a large fragment, or some small ones."""
    few = int(FIRST_BYTES / row_bytes)
    return largest_fragment // 2 if largest_fragment >= few // 2 else few


def chunk_rows(chunk_bytes: float, row_bytes: float, *, shuffled: bool, partition_bytes: float | None = None) -> int:
    """Rows of a later chunk: as many as `chunk_bytes` hold, or fewer where the user asked for smaller partitions."""
    fitting = int(chunk_bytes / row_bytes)
    if not shuffled:
        return min(UNSHUFFLED_ROWS, fitting)
    return fitting if partition_bytes is None else int(min(chunk_bytes, partition_bytes) / row_bytes)
