"""Errors of Polars, NumPy and Python in a workflow's own work, as errors of Rowmill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pyarrow as pa

from rowmill.errors import RowmillError, TransformError

# What can go wrong inside: a panic of Polars is no subclass of Exception.
UNEXPECTED: tuple[type[BaseException], ...] = (
    pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, ArithmeticError, AttributeError,
    LookupError, TypeError, ValueError, RecursionError, OSError, AssertionError, MemoryError,
)  # fmt: skip


@contextmanager
def typed(what: str) -> Iterator[None]:
    """Whatever goes wrong is a `RowmillError` that says where; the original error is its cause."""
    try:
        yield
    except RowmillError:
        raise
    except UNEXPECTED as error:
        if isinstance(error, OSError) and not isinstance(error, RowmillError) and error.errno is not None:
            raise
        raise TransformError(f"{what} failed: {type(error).__name__}: {str(error)[:1000]}") from error
