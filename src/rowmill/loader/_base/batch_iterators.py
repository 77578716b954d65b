"""Iterators over batches that end what they iterate over. Called by the loaders of all frameworks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")


def map_batches(function: Callable[[T], U], batches: Iterator[T]) -> Iterator[U]:
    """Yield `function(batch)` for each batch. Closing this iterator closes `batches`, and so ends its threads."""
    with closing(cast("Any", batches)):
        for batch in batches:
            yield function(batch)


def prefetch(batches: Iterator[T], count: int) -> Iterator[T]:
    """Yield these batches, with `count` more taken in advance. Closing this iterator closes `batches`."""
    with closing(cast("Any", batches)):
        waiting: deque[T] = deque()
        for batch in batches:
            waiting.append(batch)
            if len(waiting) > count:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()


def first_batch(batches: Iterator[T]) -> T:
    """The first of these batches; the rest is given up."""
    with closing(cast("Any", batches)):
        return next(batches)
