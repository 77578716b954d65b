"""What every file of a dataset was when the dataset was opened, and the check that it still is.

A pin holds a file's size, modification time, change time and inode (on an object store: its ETag, or its modification
time), and a digest of its whole footer (Parquet, Arrow IPC) or of its first and last 64 KB (CSV). Sources check the pin
of a file before and after every read, so rows of a file that was rewritten or replaced are never delivered: the read
raises `DataFileError`. Fingerprints of a dataset come from its pins, not from what the files are later.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow.fs import FileSystem, LocalFileSystem

from rowmill._system.threads import map_threads
from rowmill.errors import DataFileError, RowmillError, os_reason
from rowmill.sources.files.paths import Files

ENDS = 65_536
_MAGIC = {"parquet": (b"PAR1", 8), "ipc": (b"ARROW1", 10)}  # the last bytes of a file; they follow the footer's length
_READ_ERRORS = (
    pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, OSError, ValueError, MemoryError,
)  # fmt: skip
_TICK = 20_000_000  # nanoseconds: timestamps of files are no finer than the kernel's tick


@dataclass(frozen=True, slots=True)
class Pin:
    """A file as it was opened. `version` is None where it has to be found again: after a move to another machine."""

    size: int
    digest: str
    version: tuple[Any, ...] | None


class Pins:
    """The pins of a dataset's files, in their order. Checked from any number of threads."""

    def __init__(self, files: Files, pins: Sequence[Pin]) -> None:
        self._files = files
        self._pins = list(pins)
        self._heads: str | None = None

    @classmethod
    def of(cls, files: Files) -> Pins:
        """Pin every file."""
        settle(files)
        system = files.filesystem or LocalFileSystem()

        def one(unit: int) -> Pin:
            path = files.name(unit)
            try:
                with system.open_input_file(path) as file:
                    return pin(file, path, files.filesystem, files.engine)
            except (OSError, pa.ArrowException) as error:
                raise DataFileError(f"cannot read {path}: {os_reason(error)}") from error

        units = range(len(files.paths))
        return cls(files, map_threads(one, units, min(16, len(units)), "rowmill-pins"))

    def __len__(self) -> int:
        return len(self._pins)

    def __getitem__(self, unit: int) -> Pin:
        return self._pins[unit]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "machine": platform.node()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.pop("machine") != platform.node() and state["_files"].filesystem is None:
            state["_pins"] = [replace(pinned, version=None) for pinned in state["_pins"]]
        self.__dict__.update(state)

    def check(self, unit: int, file: Any = None) -> None:
        """Raise `DataFileError` if the file is not the one that was opened. `file`: it, open, on an object store."""
        path, pinned, system = self._files.name(unit), self._pins[unit], self._files.filesystem
        try:
            if pinned.version is None or (system is not None and file is None):
                with (system or LocalFileSystem()).open_input_file(path) as opened:
                    if pinned.version is not None:
                        found: tuple[Any, ...] = (opened.size(), *version(opened, path, system))
                    else:
                        now = pin(opened, path, system, self._files.engine)
                        if (now.size, now.digest) != (pinned.size, pinned.digest):
                            raise changed(path, "its size or its footer differs")
                        self._pins[unit] = now
                        return
            elif file is not None:
                found = (file.size(), *version(file, path, system))
            else:
                status = os.stat(path)  # noqa: PTH116 - a Path object takes as long as the call
                found = (status.st_size, *_local_version(status))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise changed(path, "it is no longer there") from error
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, DataFileError):
                raise
            raise DataFileError(f"cannot read {path}: {os_reason(error)}") from error
        assert pinned.version is not None
        if found != (pinned.size, *pinned.version):
            raise changed(path, _difference(pinned, found))

    @contextmanager
    def unchanged(self, unit: int, describe: Callable[[], str]) -> Iterator[None]:
        """Read a file that must be the one that was opened, before and after. What fails becomes a `DataFileError`."""
        self.check(unit)
        try:
            yield
        except _READ_ERRORS as error:
            self.check(unit)
            if isinstance(error, RowmillError):
                raise
            raise DataFileError(
                f"cannot read {describe()}: {os_reason(error)}; if the file is damaged, write it again or leave it out"
            ) from error
        self.check(unit)

    def check_footer(self, unit: int, footer: bytes) -> None:
        """Raise `DataFileError` if these bytes are not the footer that the file was opened with."""
        if _digest(footer) != self._pins[unit].digest:
            raise changed(self._files.name(unit), "its footer differs")

    def fingerprint(self) -> list[tuple[str, int, str, str]]:
        """For each file its name below the folder they share, its size, and the digests of its end and its beginning.

        Equal for a copy of the files. Names no values in the middle of a file that its footer has no statistics of.
        """
        paths = self._files.paths
        root = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120
        names = [os.path.relpath(path, root or ".") for path in paths]
        heads = self._head_digests()
        return [(name, p.size, p.digest, head) for name, p, head in zip(names, self._pins, heads, strict=True)]

    def keys(self) -> list[tuple[str, int, str]]:
        """For each file its name below the folder of the table, its size, and the digest of its end."""
        root = self._files.root
        names = [
            os.path.basename(path) if root is None else os.path.relpath(path, root)  # noqa: PTH119
            for path in self._files.paths
        ]
        return [(name, p.size, p.digest) for name, p in zip(names, self._pins, strict=True)]

    def stamp(self) -> list[tuple[Any, ...]]:
        """For each file all that is known of it, its times included: a file that was written again is another."""
        heads = self._head_digests()
        return [(p.size, p.digest, p.version, head) for p, head in zip(self._pins, heads, strict=True)]

    def _head_digests(self) -> list[str]:
        if self._heads is None:
            units = range(len(self._pins))
            self._heads = " ".join(map_threads(self._head_digest, units, min(16, len(units)), "rowmill-pins"))
        return self._heads.split(" ")

    def _head_digest(self, unit: int) -> str:
        path, system = self._files.name(unit), self._files.filesystem
        try:
            with (system or LocalFileSystem()).open_input_file(path) as file:
                self.check(unit, file if system is not None else None)
                head = file.read(ENDS)
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, DataFileError):
                raise
            raise DataFileError(f"cannot read {path}: {os_reason(error)}") from error
        if system is None:
            self.check(unit)
        return _digest(head)


def pin(file: Any, path: str, system: FileSystem | None, engine: str) -> Pin:
    """The pin of an open file."""
    found = version(file, path, system)
    return Pin(file.size(), _digest(tail(file, engine)), found)


def tail(file: Any, engine: str) -> bytes:
    """What a pin's digest is of: the footer and all that follows it, or the first and last bytes of a CSV file."""
    size = file.size()
    if engine in _MAGIC:
        magic, length = _MAGIC[engine]
        last = file.read_at(min(length, size), max(0, size - length))
        if last.endswith(magic) and len(last) == length:
            footer = int.from_bytes(last[:4], "little")
            if footer + length <= size:
                return bytes(file.read_at(footer + length, size - footer - length))
    first = file.read_at(min(ENDS, size), 0) if engine in ("csv", "json", "avro") else b""
    return bytes(first + file.read_at(min(ENDS, size), max(0, size - ENDS)))


def version(file: Any, path: str, system: FileSystem | None) -> tuple[Any, ...]:
    """What changes when a file is written again."""
    if system is None:
        return _local_version(os.stat(path))  # noqa: PTH116
    try:
        known = {str(key).lower(): value for key, value in (file.metadata() or {}).items()}
    except NotImplementedError:
        known = {}
    if "etag" in known:
        return ("etag", known["etag"])
    return ("time", system.get_file_info(path).mtime_ns)


def _local_version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def settle(files: Files) -> None:
    """Wait until no local file can change without its time changing: a tick of the clock, if one was just written."""
    if files.filesystem is not None:
        return
    try:
        newest = max(os.stat(path).st_ctime_ns for path in files.paths)  # noqa: PTH116
    except OSError:
        return  # whoever opens that file says so
    if 0 <= time.time_ns() - newest < _TICK:
        time.sleep(_TICK / 1e9)


def changed(path: str, what: str) -> DataFileError:
    """The error for a file that is not what it was."""
    return DataFileError(
        f"{path} has changed since the dataset was opened: {what}; open the Dataset again, and write new files under "
        f"new names while others read"
    )


def _difference(pinned: Pin, found: tuple[Any, ...]) -> str:
    assert pinned.version is not None
    if found[0] != pinned.size:
        return f"it has {found[0]:,} bytes, and had {pinned.size:,}"
    if len(found) != 4:
        return "the object was written again"
    (_, time_now, _, inode_now), (time_then, _, inode_then) = found, pinned.version
    if inode_now != inode_then:
        return "it was replaced by another file"
    if time_now != time_then:
        return "its modification time differs"
    return "its change time (ctime) differs, though its modification time is the same"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
