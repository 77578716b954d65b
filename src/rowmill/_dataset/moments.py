"""Dates and times that conditions compare with, written as text: `("day", ">=", "2024-01-31")` in, constants of the
column's own type out. Called by `row_choices` and `choose_rows`.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.saved.expressions import save_expression
from rowmill.schema import Schema
from rowmill.sources.types import polars_type

_COMPARING = ("<", "<=", ">", ">=", "==", "!=", "is_between", "is_in", "eq_missing", "ne_missing")


def moment(text: str, dtype: str) -> date:
    """A date or time from ISO form, in the time zone of a column of this type."""
    try:
        found = date.fromisoformat(text) if len(text) == len("2024-01-31") else datetime.fromisoformat(text)
    except ValueError as error:
        wanted = "a date or time, such as '2024-01-31' or '2024-01-31T12:00'"
        raise ArgumentError(f"found {text!r}; wanted {wanted}") from error
    zone = getattr(polars_type(dtype), "time_zone", None)
    if zone is None:
        return found
    timed = found if isinstance(found, datetime) else datetime.combine(found, datetime.min.time())
    return timed if timed.tzinfo is not None else timed.replace(tzinfo=ZoneInfo(zone))


def with_moments(data: Any, schema: Schema) -> Any:
    """A condition as `save_expression` writes it, whose texts are dates and times where they are compared with some."""
    if isinstance(data, list):
        return [with_moments(one, schema) for one in data]
    if not isinstance(data, dict):
        return data
    made = {key: with_moments(value, schema) for key, value in data.items()}
    if made.get("call") in _COMPARING:
        names = [one["column"] for one in made["of"] if isinstance(one, dict) and "column" in one]
        dtypes = [schema[name].dtype for name in names if name in schema]
        if len(dtypes) == 1 and dtypes[0].startswith("date"):
            made["of"] = [_parsed(one, dtypes[0]) for one in made["of"]]
    return made


def _parsed(part: Any, dtype: str) -> Any:
    if not isinstance(part, dict) or part.get("dtype") != "string":
        return part
    if isinstance(part.get("literal"), str):
        return save_expression(pl.lit(moment(part["literal"], dtype)))
    if isinstance(part.get("list"), list):
        values = [None if text is None else moment(text, dtype) for text in part["list"]]
        data = save_expression(pl.element().is_in(values))
        return data["of"][1]
    return part
