"""Rows added to a table: what was known of its files in, the fragments of files that came since out.

`table_state` says what is known of a table now, as JSON. A later opening of the table is compared with it. Rows can be
told to be new only if all older files are still there, unchanged. Called by `rowmill._dataset.growing_table`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, cast, runtime_checkable

from rowmill.errors import ArgumentError, StateError
from rowmill.sources.files.fingerprint import of_values
from rowmill.sources.locate import stored_table
from rowmill.sources.source import Fragment, Source
from rowmill.sources.summary import version_text
from rowmill.sources.wrap.repartitioned import JoinedSource

VERSION = 1

FileKey = tuple[str, int, str]  # name below the folder of the table, bytes, digest of its end


@runtime_checkable
class PinnedSource(Protocol):
    """A source of files, each of which can be told from others."""

    def file_keys(self) -> list[FileKey]:
        """For each unit its name below the folder of the table, its size, and the digest of its end."""
        ...


def table_state(source: Source) -> dict[str, Any]:
    """What is known of a table of files now, ready for JSON: for `Dataset(..., since=state)`."""
    return {
        "table_state": VERSION,
        "table": version_text(source),
        "files": [list(key) for key in _keys(source, "state_dict() of a dataset")],
    }


def added_fragments(source: Source, since: Any) -> list[Fragment]:
    """The fragments of the files that a table has beyond those that a state names."""
    found = _keys(source, "since=")
    old = Counter(_known(source, since, found))
    added: set[int] = set()
    for unit, key in enumerate(found):
        if old[key]:
            old[key] -= 1
        else:
            added.add(unit)
    missing = sorted(old.elements())
    if missing:
        same_name = any(key[0] == missing[0][0] for unit, key in enumerate(found) if unit in added)
        what = "was changed" if same_name else "is no longer there"
        raise StateError(
            f"{missing[0][0]}, one of {len(missing)} files known before, {what}: rows were deleted, updated or "
            f"compacted, so those added since cannot be told from others; open the table without since="
        )
    return [fragment for fragment in source.fragments if fragment.unit in added]


def _keys(source: Source, what: str) -> list[FileKey]:
    table = stored_table(source)
    if not isinstance(table, PinnedSource):
        raise ArgumentError(f"{what} is for tables of files; this one is in memory or computed")
    return table.file_keys()


def _known(source: Source, since: Any, found: list[FileKey]) -> list[FileKey]:
    """The files that a state names: a dataset's, or a loader's, which holds their number and fingerprint only."""
    if not isinstance(since, Mapping):
        raise StateError(f"since is {type(since).__name__}; wanted what state_dict() of a dataset or loader returned")
    reading = since.get("reading")
    if isinstance(reading, Mapping):
        return _known_to_loader(source, reading, found)
    files = since.get("files")
    if since.get("table_state") != VERSION or not isinstance(files, list) or not all(map(_is_key, files)):
        raise StateError("since= is no state of a dataset; wanted what state_dict() of a dataset or loader returned")
    return [cast("FileKey", tuple(key)) for key in files]


def _is_key(key: Any) -> bool:
    return isinstance(key, list | tuple) and len(key) == 3 and list(map(type, key)) == [str, int, str]


def _known_to_loader(source: Source, reading: Mapping[str, Any], found: list[FileKey]) -> list[FileKey]:
    digests = reading.get("files")
    if not isinstance(digests, list) or len(digests) != 2 or not isinstance(digests[0], int):
        raise StateError("this state does not tell which files were read; pass since= the dataset's own state_dict()")
    count, digest = digests
    if count <= len(found) and files_digest(found[:count])[1] == digest:
        return found[:count]
    by_name = sorted(found)
    if count <= len(by_name) and files_digest(by_name[:count])[1] == digest:
        return by_name[:count]
    raise StateError(
        "the files that this loader's state was saved with are not the first ones of the table any more; save the "
        "dataset's own state_dict() beside the loader's, which names each file, and pass that as since="
    )


def files_digest(keys: list[FileKey]) -> list[Any]:
    """The number of files, and one digest of them all: what a loader's state holds of them."""
    return [len(keys), of_values(*keys)]


def loader_files(source: Source) -> list[Any] | None:
    """What the state of a loader holds of the files of its table; None if there are none."""
    table = stored_table(source)
    whole = table.whole if isinstance(table, AddedRows) else table
    return files_digest(whole.file_keys()) if isinstance(whole, PinnedSource) else None


def digest_of_files(source: Source) -> tuple[int, str] | None:
    """The number of the files that have the rows of a source, and their digest; None if it has no files."""
    table = stored_table(source)
    if not isinstance(table, PinnedSource):
        return None
    count, digest = files_digest(table.file_keys())
    return count, digest


def digests_in_turn(source: Source, counts: Sequence[int]) -> list[tuple[int, str]]:
    """The digests of the first files of a source, the next ones, and so on; nothing if there are more or fewer."""
    table = stored_table(source)
    keys = table.file_keys() if isinstance(table, PinnedSource) else []
    if len(keys) != sum(counts):
        return []
    edges = [sum(counts[:number]) for number in range(len(counts) + 1)]
    return [(last - first, files_digest(keys[first:last])[1]) for first, last in pairwise(edges)]


class AddedRows(JoinedSource):
    """The rows of the files that a table has beyond those of an earlier state. `whole` has all its rows."""

    def __init__(self, whole: Source, since: Any) -> None:
        self._added = added_fragments(whole, since)
        super().__init__(whole, self._added, [fragment.rows for fragment in self._added])
        self.whole = whole

    def file_keys(self) -> list[FileKey]:
        keys = _keys(self.whole, "since=")
        return [keys[unit] for unit in dict.fromkeys(fragment.unit for fragment in self._added)]
