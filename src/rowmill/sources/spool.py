"""Temporary folders that live as long as the object that needs them, and are gone at the latest when Python exits."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class Keeper:
    """Owns a temporary folder where nothing else would; whoever needs the files holds on to it."""


def temporary_folder(owner: object) -> Path:
    """A new folder under the system's place for temporary files (`TMPDIR`), removed together with `owner`."""
    folder = tempfile.mkdtemp(prefix="rowmill-")
    weakref.finalize(owner, _remove, folder, os.getpid())
    return Path(folder)


def _remove(folder: str, maker: int) -> None:
    if os.getpid() == maker:  # a forked child must not take the folder away from its parent
        shutil.rmtree(folder, ignore_errors=True)
