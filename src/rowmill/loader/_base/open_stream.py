"""The one place where a loader's settings become a `Stream`. Called by all loaders, and by `map_style`."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from rowmill.feed.order.plan import Last
from rowmill.feed.order.ranks import Ranks
from rowmill.feed.pack.selection import Selection
from rowmill.feed.run.stream import Shuffle, Stream, Table
from rowmill.loader._base.arguments import ONE_RANK
from rowmill.loader._base.options import DEFAULTS, StreamOptions
from rowmill.store.cache.table_cache import open_cache


def open_stream(
    table: Table,
    selection: Selection,
    options: StreamOptions,
    *,
    batch_size: int,
    shuffle: Shuffle = False,
    seed_fn: Callable[[], int] | None = None,
    parts_per_chunk: int = 1,
    ranks: Ranks = ONE_RANK,
    last: Last = "short",
    elastic: int | None = None,
    column_major: bool = False,
) -> Stream:
    """The stream of a loader's NumPy batches. Options that are not given have their defaults.

    `column_major`: the framework takes contiguous columns, see `Stream`.
    """
    settings = cast("StreamOptions", {**DEFAULTS, **options})
    return Stream(
        table,
        selection,
        batch_size=batch_size,
        shuffle=shuffle,
        seed=settings["seed"],
        seed_fn=seed_fn,
        last=last,
        memory=settings["memory"],
        threads=settings["threads"],
        parts_per_chunk=parts_per_chunk,
        ranks=ranks,
        elastic=elastic,
        weights=settings["weights"],
        balance=settings["balance"],
        cache=open_cache(settings["cache"], settings["cache_size"]),
        column_major=column_major,
    )
