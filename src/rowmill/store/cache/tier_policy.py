"""Tier policy of a cache: whether the rows of a table are kept in memory, kept on disk, or read from their source.

Called by `table_cache` when a cache is bound to a table.
"""

from __future__ import annotations

from pathlib import Path

from rowmill.errors import ArgumentError
from rowmill.feed.report.text_table import bytes_text
from rowmill.feed.run.cache_protocol import Request
from rowmill.store.cache.cache_directory import default_folder, free_bytes


def choose_tier(request: Request, folder: Path | None, limit: int | None) -> tuple[str, str]:
    """Where the rows will be ("memory", "disk" or "source"), and why not somewhere better."""
    need = request.nbytes
    if request.problem and folder is not None:
        raise ArgumentError(f"cache= with {request.problem}; wanted a loader without; leave one of them out")
    if request.problem:
        return "source", request.problem
    if not request.rows:
        return "source", "the table has no rows"
    if folder is not None:
        return "disk", ""
    if need <= request.memory // 4:  # batches and decoding take the other three, see feed/memory/budget.py
        return "memory", ""
    room = free_bytes(default_folder())
    if need * 1.05 > room:
        return "source", f"{bytes_text(need)} fit neither in memory nor in the {bytes_text(room)} free on disk"
    if limit is not None and need > limit:
        return "source", f"{bytes_text(need)} are more than cache_size"
    return "disk", ""
