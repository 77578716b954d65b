"""Rows in memory of any kind as a frame, and a frame as that kind again: `transform` gives back what it got."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError
from rowmill.schema import Schema
from rowmill.sources.frames.frame_source import as_frame, as_pandas


@dataclass(frozen=True)
class InMemoryRows:
    """A frame, and how to give another the form that this one came in."""

    frame: pl.DataFrame
    like: Callable[[pl.DataFrame], Any]
    index: Any = None  # of a pandas frame

    def form(self, made: pl.DataFrame, *, same_rows: bool) -> Any:
        """A frame in the form that this one came in; with its index, if the rows are the same."""
        result = self.like(made)
        if self.index is not None and same_rows and len(result) == len(self.index):
            result.index = self.index
        return result


def as_rows(given: Any, schema: Schema | None = None) -> InMemoryRows:
    """A frame from anything that holds rows: a frame of any kind, a dict, or a list of dicts.

    `schema`: the columns that matter. A dict holds columns if a value of it is an array or a list (and not of a list
    column, in which a single row has a list too).
    """
    if isinstance(given, pl.DataFrame):
        return InMemoryRows(given, lambda frame: frame)
    if isinstance(given, pl.LazyFrame):
        return InMemoryRows(given.collect(), lambda frame: frame.lazy())
    if type(given).__name__ == "Series" and type(given).__module__.startswith("pandas"):
        given = given.to_dict()  # a row of a pandas frame
    if isinstance(given, Mapping):
        given = given if schema is None else {name: value for name, value in given.items() if name in schema}
        if any(
            _is_many(value) for name, value in given.items() if schema is None or not schema[name].as_list().is_list
        ):
            frame = as_frame(given)
            assert frame is not None
            return InMemoryRows(frame, lambda made: {name: made.get_column(name).to_numpy() for name in made.columns})
        return InMemoryRows(pl.DataFrame([_plain(given)]), lambda made: made.row(0, named=True) if made.height else {})
    if isinstance(given, list):
        if not all(isinstance(row, Mapping) for row in given):
            raise ArgumentError("cannot transform a list of something else than dicts; wanted one dict for each row")
        return InMemoryRows(
            pl.DataFrame([_plain(row) for row in given], infer_schema_length=None), lambda made: made.to_dicts()
        )
    frame = as_frame(given)
    if frame is None:
        raise ArgumentError(
            f"cannot transform {type(given).__name__}; wanted a Dataset, a frame, a dict, or a list of dicts"
        )
    if type(given).__module__.split(".")[0] == "pandas":
        return InMemoryRows(frame, as_pandas, given.index)
    if type(given).__module__.split(".")[0] == "pyarrow":
        return InMemoryRows(frame, lambda made: made.to_arrow())
    return InMemoryRows(frame, lambda made: made)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of Python's values: what pandas has for a missing one is None."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.astype("datetime64[us]").item() if isinstance(value, np.datetime64) else value


def _is_many(value: Any) -> bool:
    """Whether a value of a dict is a column, not the value of a single row."""
    return isinstance(value, np.ndarray | pl.Series | list | tuple) or hasattr(value, "__arrow_c_stream__")
