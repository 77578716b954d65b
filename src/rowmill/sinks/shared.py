"""A folder that this process and the workers of a cluster write to together, and the proof that they do.

A worker on another machine may have another disk under the same path, or none. So the folder holds a token: a worker
writes only where it reads the same token. Files are written to a folder of unfinished files and moved when they are
whole. Before the result is published, this process looks at every file itself. Called by `parquet`.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rowmill.errors import DataFileError, writing

VISIBLE_SECONDS = 5.0  # a network file system may show a new file to another machine after a moment
_TOKEN = ".token"

T = TypeVar("T")


@dataclass(frozen=True)
class SharedFolder:
    """The folder to fill, which will be `target`, and the token that whoever sees it can read. Can be pickled."""

    folder: Path
    target: Path
    token: str

    @classmethod
    def new(cls, folder: Path, target: Path) -> SharedFolder:
        """Prepare an empty folder: a token, and a place for unfinished files."""
        made = cls(folder, target, secrets.token_hex(16))
        with writing(target):
            made.unfinished.mkdir()
            (made.unfinished / _TOKEN).write_text(made.token)
        return made

    @property
    def unfinished(self) -> Path:
        """Where files are until they are whole; never published."""
        return self.folder / ".unfinished"

    def sees(self) -> bool:
        """Whether this process sees the folder that the token was written to."""
        return _soon(lambda: (self.unfinished / _TOKEN).read_text() == self.token) is True

    def check(self) -> None:
        """Raise `DataFileError` if this process does not see the folder."""
        if not self.sees():
            raise DataFileError(_unseen(self.target, "a process that was to write"))

    def check_workers(self, client: Any) -> None:
        """Raise `DataFileError` if a worker of a Dask client does not see the folder.

        A worker that does not answer may be dying. Whoever writes in its place checks again before it does.
        """
        blind = [worker for worker, sees in client.run(self.sees, on_error="return").items() if sees is False]
        if blind:
            raise DataFileError(_unseen(self.target, f"worker {blind[0]}"))

    def close(self, files: Mapping[str, int]) -> None:
        """Check that each file is there with as many rows as it should have, and remove what is unfinished."""
        for name, rows in files.items():
            found = _soon(lambda path=self.folder / name: pq.read_metadata(path).num_rows)  # type: ignore[misc]
            if found != rows:
                what = "is not there" if found is None else f"has {found} rows instead of {rows}"
                raise DataFileError(
                    f"{name} {what} after it was written for {self.target}; nothing was published; write again, "
                    f"to a folder that all workers share"
                )
        shutil.rmtree(self.unfinished)


def make_folders(folder: Path, name: str) -> None:
    """Make the folders that a relative file name has in it. The folder itself has to be there."""
    parents = list(Path(name).parents)[:-1]
    for parent in reversed(parents):
        (folder / parent).mkdir(exist_ok=True)


def _unseen(target: Path, who: str) -> str:
    return (
        f"{who} does not see the folder {target.parent} of this machine; nothing was published; write to a folder that "
        f"all workers share, or write without the client"
    )


def _soon(look: Callable[[], T]) -> T | None:
    """What a look at a file gives, tried for some seconds; None if it fails all the time."""
    end = time.monotonic() + VISIBLE_SECONDS
    while True:
        try:
            return look()
        except (OSError, pa.ArrowException):
            if time.monotonic() > end:
                return None
            time.sleep(0.05)
