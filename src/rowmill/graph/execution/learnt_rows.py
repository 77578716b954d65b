"""The rows that a workflow has learnt from: what is noted of them when it is fitted, and how others compare.

A table comes in, `LearntRows` go out, which are saved with the workflow. By them later rows are recognised as those
that were fitted, and it is known up to which moment they go. Called by `Workflow`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowmill.errors import LeakageError, LeakageWarning, warn
from rowmill.sources.bounds import bounds_of, greatest_value
from rowmill.sources.files.added_files import digest_of_files, digests_in_turn
from rowmill.sources.files.fingerprint import of_rows
from rowmill.sources.source import Source
from rowmill.sources.summary import is_in_memory
from rowmill.sources.wrap.time_cut import Moment, TimeCut, are_alike, comparable


@dataclass(frozen=True)
class LearntPart:
    """The rows of one `fit` or `update`."""

    fingerprint: str
    rows: int | None  # None: saved by an earlier version
    files: tuple[int, str] | None = None  # how many files, and their digest


@dataclass(frozen=True)
class LearntRows:
    """The rows that a workflow has learnt from, in the order in which it did, and how far they go in time."""

    parts: tuple[LearntPart, ...] = ()
    latest: Mapping[str, Moment] = field(default_factory=dict)

    @property
    def rows(self) -> int | None:
        """How many rows there are in all; None if that is not known."""
        counts = [part.rows for part in self.parts if part.rows is not None]
        return sum(counts) if len(counts) == len(self.parts) else None

    @property
    def starts(self) -> list[int]:
        """The number of the first row of each part."""
        return [sum(part.rows or 0 for part in self.parts[:number]) for number in range(len(self.parts))]

    @property
    def counts(self) -> dict[int, int]:
        """How many rows there are in all and in each part, each with the number of the first of them."""
        known = {part.rows: start for start, part in zip(self.starts, self.parts, strict=True) if part.rows is not None}
        return known if self.rows is None else {**known, self.rows: 0}

    def first_row(self, source: Source) -> int | None:
        """The number of the first row of a table among the learnt rows, if the table is all of them or one part."""
        found = [of_rows(one) for one in _one_after_another(source)]
        known = [part.fingerprint for part in self.parts]
        if found == known or (len(known) > 1 and self._are_files_of(source)):
            return 0
        if len(found) == 1 and found[0] in known:
            return self.starts[known.index(found[0])]
        files = [part.files for part in self.parts]
        same = digest_of_files(_in_stored_partitions(source))
        return self.starts[files.index(same)] if same is not None and same in files else None

    def _are_files_of(self, source: Source) -> bool:
        """Whether the files of a table are those of the parts, one part after another."""
        files = [part.files for part in self.parts if part.files is not None]
        return len(files) == len(self.parts) and files == digests_in_turn(
            _in_stored_partitions(source), [count for count, _ in files]
        )

    def __add__(self, other: LearntRows) -> LearntRows:
        """These rows, and others after them."""
        both = [name for name in self.latest if are_alike(self.latest[name], other.latest.get(name))]
        later = {name: max(self.latest[name], other.latest[name]) for name in both}
        return LearntRows((*self.parts, *other.parts), later)

    def check_cut(self, cut: TimeCut) -> None:
        """Refuse statistics of rows at or after a cut, for data that were cut there."""
        if cut.later_statistics or not self.parts:
            return
        at, latest = cut.moment, self.latest.get(cut.column)
        known = are_alike(at, latest)
        text = (
            f"the workflow was fitted on rows whose {cut.column!r} is {cut.at} or later, past the cut of "
            f"split(time={cut.column!r}, at={cut.at}), so its statistics hold what was not known then; fit it on the "
            f"rows before the cut, or allow it with split(..., later_statistics=True)"
        )
        if any(part.fingerprint == cut.table for part in self.parts) if not known else latest >= at:  # type: ignore[operator]
            raise LeakageError(text)
        if not known:
            warn(f"it cannot be told whether {text}", LeakageWarning)


def note_rows(source: Source, cuts: Sequence[TimeCut]) -> LearntRows:
    """What is noted of a table that a workflow learns from."""
    rows = sum(fragment.rows for fragment in source.fragments)
    return LearntRows((LearntPart(of_rows(source), rows, digest_of_files(source)),), dict(_latest(source, cuts)))


def _latest(source: Source, cuts: Sequence[TimeCut]) -> Iterator[tuple[str, Moment]]:
    """The greatest value of columns of dates and times as far as cuts and statistics tell it without a pass over the
    table, and of the columns by which the table was cut."""
    told = {cut.column: cut.latest for cut in cuts if cut.before and cut.latest is not None}
    yield from told.items()
    temporal = [column.name for column in source.schema if column.dtype.startswith("date")]
    names = [name for name in dict.fromkeys([*temporal, *(cut.column for cut in cuts)]) if name not in told]
    looked_at = names if is_in_memory(source) else [cut.column for cut in cuts]
    known: Mapping[str, Any] = bounds_of(source, source.fragments, [name for name in names if name not in looked_at])
    for name in names:
        if name in looked_at or (name in known and not known[name][1].null_count()):
            value = comparable(greatest_value(source, name))
            if value is not None:
                yield name, value


def _one_after_another(source: Source) -> Sequence[Source]:
    """The tables that a table is made of, one after another; itself if there is one only."""
    inner = _in_stored_partitions(source)
    return getattr(inner, "one_after_another", (inner,))


def _in_stored_partitions(source: Source) -> Source:
    """The source whose rows another one only divides or casts."""
    inner: Source | None = getattr(source, "same_rows_as", None)
    return source if inner is None else _in_stored_partitions(inner)
