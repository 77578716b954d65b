"""Tables that grow: the base class of `Dataset` for `state_dict()`, `refresh()` and `Dataset(..., since=)`.

What a dataset was opened with is remembered, so that it can be opened again; so is the choice by which it was made of
another dataset, which is then made of the rows added to that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rowmill._system.interrupts import interruptible
from rowmill.errors import ArgumentError
from rowmill.sources.files.added_files import AddedRows, table_state
from rowmill.sources.source import Source, is_source
from rowmill.sources.wrap.filtered import FilteredSource, RowChoice

if TYPE_CHECKING:
    from rowmill.dataset import Dataset

_PINNED = ("version", "snapshot_id", "timestamp")  # of a table that is opened again, the latest is wanted


class GrowingTable:
    """What `Dataset` knows of rows that are added to its table."""

    source: Source
    _opened: tuple[Any, str | None, dict[str, Any]]
    _chosen_from: tuple[Dataset, RowChoice] | None  # the dataset that this one has some rows of, and which

    def _remember(
        self, given: Any, engine: str | None, options: dict[str, Any], since: Mapping[str, Any] | None
    ) -> None:
        """Note what this dataset was opened with, and leave out the rows that were there before."""
        self._opened, self._chosen_from = (given, engine, options), None
        if since is not None:
            self.source = AddedRows(self.source, since)

    def _choose(self: Any, choice: RowChoice, progress: bool | None = None) -> Dataset:
        """This dataset with the chosen rows only."""
        chosen: Dataset = self._like(FilteredSource(self.source, choice, progress))
        chosen._chosen_from = self, choice
        return chosen

    def state_dict(self) -> dict[str, Any]:
        """What is known of the table's files now, ready for JSON: for `Dataset(..., since=state)` later on."""
        if self._chosen_from is not None:
            return self._chosen_from[0].state_dict()
        return table_state(_whole(self.source))

    @interruptible
    def refresh(self: Any) -> Dataset:
        """The rows added to the table since this dataset was opened: those of new files, or of newer versions.

        Without new rows it is empty. `refresh()` of what it returns gives what was added after that. Files that were
        changed or removed are an error, because their rows cannot be told from new ones.
        """
        if self._chosen_from is not None:
            parent, choice = self._chosen_from
            if not choice.by_value:
                raise ArgumentError(
                    "these rows were chosen by their numbers in the table, which new files change; choose them by "
                    "their values (filter, or split and folds with by=), or call refresh() of the whole dataset"
                )
            added: Dataset = parent.refresh()._choose(choice)
            return added
        given, engine, options = self._opened
        if is_source(given):
            raise ArgumentError("this dataset is made of another one; call refresh() of the one that was opened")
        latest = {name: value for name, value in options.items() if name not in _PINNED}
        if hasattr(given, "refresh"):  # a table of pyiceberg, which holds the metadata as they were read
            given = given.refresh()
        elif hasattr(given, "table_uri"):  # a table of deltalake, which is pinned to a version
            given = f"delta://{given.table_uri}"
        other: Dataset = type(self)(given, engine, since=self.state_dict(), schema=self.schema, **latest)
        other.part_bytes, other.client, other.cuts = self.part_bytes, self.client, self.cuts
        return other

    def continues(self, older: Dataset) -> bool:
        """Whether this dataset has exactly the rows that were added to the table of another one."""
        if self._chosen_from is not None and older._chosen_from is not None:
            (parent, choice), (older_parent, older_choice) = self._chosen_from, older._chosen_from
            return choice.fingerprint() == older_choice.fingerprint() and parent.continues(older_parent)
        if not isinstance(self.source, AddedRows) or self._chosen_from is not None or older._chosen_from is not None:
            return False
        return self.source.fingerprint() == AddedRows(self.source.whole, older.state_dict()).fingerprint()

    def with_older_rows(self: Any) -> Dataset:
        """The whole table, of which this dataset has the rows added since; itself if it is whole."""
        if self._chosen_from is not None:
            parent, choice = self._chosen_from
            chosen: Dataset = parent.with_older_rows()._choose(choice)
            return chosen
        whole: Dataset = self._like(_whole(self.source)) if isinstance(self.source, AddedRows) else self
        return whole


def _whole(source: Source) -> Source:
    return source.whole if isinstance(source, AddedRows) else source
