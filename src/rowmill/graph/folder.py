"""The files of a saved workflow, read without trusting the folder: regular files, no links, sizes checked first."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rowmill.errors import WorkflowFileError
from rowmill.handles import open_handle

DEFAULT_LIMIT = "512MB"
JSON_SHARE = 32  # parsed JSON takes up to some 25 times its size


class Budget:
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
            self._handle = open_handle(path, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ValueError) as error:
            raise self._unreadable("", error) from error

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def read(self, name: str, most: int, budget: Budget) -> bytes:
        """The content of a regular file of at most `most` bytes. `name` may have one folder before it."""
        *folders, last = name.split("/")
        directory = self._handle
        try:
            for part in folders:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                directory = open_handle(part, flags, dir_fd=directory.fileno())
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
            held = open_handle(last, flags, dir_fd=directory.fileno())
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

    def _unreadable(self, name: str, error: Exception) -> WorkflowFileError:
        return WorkflowFileError(f"cannot read {self.path / name}: {error}; pass a folder that Workflow.save wrote")
