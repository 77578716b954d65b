"""Tables that grow: the base class of `Dataset` for `state_dict()`, `refresh()` and `Dataset(..., since=)`.

What a dataset was opened with is remembered, so that it can be opened again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rowmill._system.interrupts import interruptible
from rowmill.errors import ArgumentError
from rowmill.sources.files.added_files import added_fragments, table_state
from rowmill.sources.source import Source
from rowmill.sources.wrap.repartitioned import JoinedSource

if TYPE_CHECKING:
    from rowmill.dataset import Dataset

_PINNED = ("version", "snapshot_id", "timestamp")  # of a table that is opened again, the latest is wanted


class GrowingTable:
    """What `Dataset` knows of rows that are added to its table."""

    source: Source
    _whole: Source | None  # with the older rows, if this dataset has only those added since
    _opened: tuple[Any, str | None, dict[str, Any]]

    def _remember(
        self, given: Any, engine: str | None, options: dict[str, Any], since: Mapping[str, Any] | None
    ) -> None:
        """Note what this dataset was opened with, and leave out the rows that were there before."""
        self._opened, self._whole = (given, engine, options), None
        if since is not None:
            self._whole, added = self.source, added_fragments(self.source, since)
            self.source = JoinedSource(self._whole, added, [fragment.rows for fragment in added])

    def state_dict(self) -> dict[str, Any]:
        """What is known of the table's files now, ready for JSON: for `Dataset(..., since=state)` later on."""
        return table_state(self._whole or self.source)

    @interruptible
    def refresh(self: Any) -> Dataset:
        """The rows added to the table since this dataset was opened: those of new files, or of newer versions.

        Without new rows it is empty. `refresh()` of what it returns gives what was added after that. Files that were
        changed or removed are an error, because their rows cannot be told from new ones.
        """
        given, engine, options = self._opened
        if hasattr(given, "fragments") and hasattr(given, "read"):
            raise ArgumentError("this dataset is made of another one; call refresh() of the one that was opened")
        latest = {name: value for name, value in options.items() if name not in _PINNED}
        if hasattr(given, "refresh"):  # a table of pyiceberg, which holds the metadata as they were read
            given = given.refresh()
        elif hasattr(given, "table_uri"):  # a table of deltalake, which is pinned to a version
            given = f"delta://{given.table_uri}"
        other: Dataset = type(self)(given, engine, since=self.state_dict(), schema=self.schema, **latest)
        other.part_bytes, other.client = self.part_bytes, self.client
        return other

    def continues(self, older: Dataset) -> bool:
        """Whether this dataset has exactly the rows that were added to the table of another one."""
        if self._whole is None:
            return False
        added = added_fragments(self._whole, older.state_dict())
        return self.source.fingerprint() == JoinedSource(self._whole, added, [f.rows for f in added]).fingerprint()

    def with_older_rows(self: Any) -> Dataset:
        """The whole table, of which this dataset has the rows added since; itself if it is whole."""
        whole: Dataset = self if self._whole is None else self._like(self._whole)
        return whole
