"""The check that the columns asked for are there and can be read. Called by every source before it reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rowmill.errors import missing_column
from rowmill.sources.arrow_types import Unreadable, refusal


def check_columns(columns: Sequence[str], known: Collection[str], where: str) -> None:
    """Refuse a name that is no column, and say which one was probably meant; and a column that cannot be read."""
    for name in columns:
        if name not in known:
            raise missing_column(name, f"in {where}", known)
        if isinstance(known, Mapping) and isinstance(known[name], Unreadable):
            raise refusal(name, known[name])
