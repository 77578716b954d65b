"""What is known of a table: plain figures that a page, a terminal or a program (as JSON) can show. Made by `table`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ColumnFacts:
    """One column, as its sampled rows show it. Of a list column, the items; `length` is the mean of a list.

    `kind` says how `shape` is to be read: "numbers" (rows in bins of equal width between `low` and `high`, the outer
    ones holding what lies beyond), "logarithms" (the same with bins that widen, for a long tail), "values" (rows of the
    commonest values, named in `names`) or "none". `null_texts` are values of a text column that look like nulls, such
    as "NA"; with `numeric_text` all its other values are numbers.
    """

    name: str
    dtype: str
    is_list: bool
    tags: tuple[str, ...]
    nulls: float
    distinct: int
    top_share: float
    top_value: str
    minimum: str
    mean: float | None
    maximum: str
    skewness: float | None
    length: float | None
    kind: str
    low: float | None
    high: float | None
    shape: tuple[int, ...]
    names: tuple[str, ...]
    null_texts: tuple[str, ...] = ()
    numeric_text: bool = False


@dataclass(frozen=True)
class Advice:
    """Something that could be better, and what to do about it."""

    found: str
    do: str


@dataclass(frozen=True)
class TableFacts:
    """A table: what its footers say exactly, and what a sample of its rows shows."""

    path: str
    rows: int
    files: int
    file_bytes: int | None
    row_bytes: float
    fragment_rows: tuple[int, ...]
    sampled_rows: int
    columns: tuple[ColumnFacts, ...]
    advice: tuple[Advice, ...] = ()
    engine: str | None = None
    version: str | None = None  # of a table with versions

    @property
    def exact(self) -> bool:
        """Whether all rows were looked at, so that nulls and distinct values are counted and not estimated."""
        return self.sampled_rows == self.rows

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "exact": self.exact}
