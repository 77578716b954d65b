"""The files of a saved workflow, read without trusting the folder: regular files, no links, sizes checked first."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rowmill._system.handles import (
    HAS_FOLDER_HANDLES,
    O_DIRECTORY,
    O_NOCTTY,
    O_NOFOLLOW,
    O_NONBLOCK,
    Handle,
    open_handle,
)
from rowmill.errors import WorkflowFileError

DEFAULT_LIMIT = "512MB"
JSON_SHARE = 32  # parsed JSON takes up to some 25 times its size


class ByteBudget:
    """How many bytes loading may still take in memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._left = limit

    @property
    def json_bytes(self) -> int:
        """The largest JSON file that is parsed."""
        return self.limit // JSON_SHARE

    def take(self, count: int, what: str) -> None:
        """Count bytes, before they are used."""
        if count < 0 or count > self._left:
            raise too_large(what, self.limit)
        self._left -= count


def too_large(what: str, limit: int) -> WorkflowFileError:
    """The error for a workflow that needs more memory than the caller allows."""
    return WorkflowFileError(
        f"{what} needs more memory than max_bytes={limit:,} allows for loading a workflow; if you trust the folder, "
        f"pass a larger limit: Workflow.load(path, max_bytes='4GB')"
    )


class Folder:
    """A folder by its handle: what is put in its place later, or links out of it, are not followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = open_handle(path, os.O_RDONLY | O_DIRECTORY) if HAS_FOLDER_HANDLES else None
        except (OSError, ValueError) as error:
            raise self._unreadable("", error) from error

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.close()

    def read(self, name: str, most: int, budget: ByteBudget) -> bytes:
        """The content of a regular file of at most `most` bytes. `name` may have one folder before it."""
        last = name.rpartition("/")[2]
        try:
            held = self._open_by_path(name) if self._handle is None else self._open_inside(name, self._handle)
            with held, open(held.fileno(), "rb", closefd=False) as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise OSError(f"{last} is not a regular file")
                if found.st_size > most:
                    raise too_large(str(self.path / name), budget.limit)
                budget.take(found.st_size, str(self.path / name))
                return file.read(found.st_size)
        except (OSError, ValueError) as error:
            if isinstance(error, WorkflowFileError):
                raise
            raise self._unreadable(name, error) from error

    def _open_inside(self, name: str, directory: Handle) -> Handle:
        """A file, looked up from the open folder on, part by part."""
        *folders, last = name.split("/")
        for part in folders:
            directory = open_handle(part, os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW, dir_fd=directory.fileno())
        return open_handle(last, os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, dir_fd=directory.fileno())

    def _open_by_path(self, name: str) -> Handle:
        """A file by its path, where folders cannot be opened (Windows). A file that is replaced by a link between the
        check and the opening is not noticed."""
        parts = name.split("/")
        for count in range(1, len(parts) + 1):
            found = self.path.joinpath(*parts[:count]).lstat()
            is_wanted = stat.S_ISREG if count == len(parts) else stat.S_ISDIR
            if not is_wanted(found.st_mode):  # `lstat` shows a link as a link
                raise OSError(f"{parts[count - 1]} is not a regular file")
        return open_handle(self.path.joinpath(*parts), os.O_RDONLY)

    def _unreadable(self, name: str, error: Exception) -> WorkflowFileError:
        return WorkflowFileError(f"cannot read {self.path / name}: {error}; pass a folder that Workflow.save wrote")
