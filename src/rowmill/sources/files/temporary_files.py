"""Temporary folders that live as long as the object that needs them, and are gone at the latest when Python exits."""

from __future__ import annotations

import _thread
import atexit
import os
import secrets
import shutil
import tempfile
import weakref
from pathlib import Path

_folders: dict[str, int] = {}  # those that are there, and the process that made each


class Keeper:
    """Owns a temporary folder where nothing else would; whoever needs the files holds on to it."""


def temporary_folder(owner: object) -> Path:
    """A new folder under the system's place for temporary files (`TMPDIR`), removed together with `owner`."""
    folder = str(Path(tempfile.gettempdir()) / f"rowmill-{secrets.token_hex(8)}")
    weakref.finalize(owner, _remove_apart, folder).atexit = False
    _folders[folder] = os.getpid()  # before it is there: whatever interrupts, it is known
    Path(folder).mkdir(0o700)
    return Path(folder)


def _remove_apart(folder: str) -> None:
    """Remove a folder on a thread that no signal reaches: here Ctrl-C would be lost, and a message printed."""
    try:
        _thread.start_new_thread(_remove, (folder,))
    except RuntimeError:  # the interpreter is ending
        _remove(folder)


def _remove(folder: str) -> None:
    if _folders.pop(folder, None) == os.getpid():  # a forked child must not take the folder away from its parent
        shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _remove_all() -> None:
    for folder in list(_folders):
        _remove(folder)
