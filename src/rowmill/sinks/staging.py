"""Writing a folder so that a reader sees all of it or nothing: a hidden folder beside the target, renamed at the end.

Files are written and flushed to disk under a name that every reader passes over (it starts with a dot).
Only when all is there does the folder take the target's name, in one step; a folder that Rowmill wrote
earlier is exchanged for it, so until then it stays whole. What a killed process leaves behind is removed
by the next write to the same target.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rowmill._system.handles import HAS_FOLDER_HANDLES, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, lock, open_handle
from rowmill._system.threads import run_apart
from rowmill.errors import ArgumentError, DataFileError, RowmillError, is_scarcity, system_error
from rowmill.sources.files.saved_workflows import WORKFLOW, read_manifest

_OURS = {"_metadata", "_metadata.json", "_file_list.txt", ".rowmill"}
_ENDING = ".rowmill-part"
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
_HERE = -100  # AT_FDCWD


@contextmanager
def staged_folder(target: Path, *, workflow: bool = False) -> Iterator[Path]:
    """A folder to fill; it becomes `target` when the block ends well, and disappears when it does not.

    `workflow`: it will hold a saved workflow, and not a table.
    """
    target = Path.cwd() / target
    check_target(target, workflow=workflow)
    folder = target.parent / f".{target.name}.{secrets.token_hex(6)}{_ENDING}"
    try:
        _make(folder, target)
        with _locked(folder):
            yield folder
            check_target(target, workflow=workflow)
            _keep_workflows(target, folder)
            flush_tree(folder)
            _publish(folder, target)
    except BaseException as error:
        run_apart(partial(shutil.rmtree, folder, ignore_errors=True))  # to the end, whatever interrupts
        if not isinstance(error, RowmillError) and is_scarcity(error):
            raise system_error(error, f"writing {target}") from error
        raise


def _make(folder: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        folder.mkdir()
    except OSError as error:
        if is_scarcity(error):
            raise system_error(error, f"writing {target}") from error
        raise DataFileError(f"cannot write beside {target}: {error}; wanted a writable folder; check it") from error


def check_target(target: Path, *, workflow: bool = False) -> None:
    """Refuse to replace anything that Rowmill did not write, a workflow by a table, and a table by a workflow."""
    if target.is_file():
        raise ArgumentError(f"{target} is a file; wanted a folder to write to; choose another name")
    if not target.is_dir():
        return
    earlier = read_manifest(target)
    if earlier and (earlier.get("format") == WORKFLOW) != workflow:
        held, new = ("a table", "workflow") if workflow else ("a saved workflow", "table")
        raise ArgumentError(
            f"{target} holds {held}, which the {new} would replace; choose another folder, such as {target / new}"
        )
    inside = {p.name for p in target.iterdir() if not p.name.endswith(_ENDING)}
    strange = sorted(inside - _OURS - _written_before(target) - _workflows(target))
    if strange:
        raise ArgumentError(
            f"{target} holds {strange[0]!r}, which no earlier to_parquet wrote; wanted a new or empty folder, or one "
            f"that holds only an earlier result; choose another folder or remove what is in it"
        )


def _written_before(target: Path) -> set[str]:
    """First parts of the file names that the manifest of an earlier write lists."""
    try:
        return {str(entry["file_name"]).split("/")[0] for entry in read_manifest(target)["file_stats"]}
    except (KeyError, TypeError):
        return set()


def _workflows(target: Path) -> set[str]:
    """The folders inside a folder that hold a saved workflow: people keep it beside the table it has made."""
    inside = [path for path in target.iterdir() if path.is_dir() and not path.is_symlink()]
    return {path.name for path in inside if read_manifest(path).get("format") == WORKFLOW}


def _keep_workflows(target: Path, folder: Path) -> None:
    """Take the saved workflows of the folder that is replaced along into the new one."""
    for name in _workflows(target) - _written_before(target) if target.is_dir() else ():
        if (folder / name).exists():
            raise ArgumentError(f"{target / name} holds a saved workflow and would be replaced; choose another folder")
        shutil.copytree(target / name, folder / name, symlinks=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder, by which others see that its writer is alive."""
    if not HAS_FOLDER_HANDLES:
        yield
        return
    with open_handle(folder, os.O_RDONLY) as handle:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            lock(handle)
        yield


def _sweep(target: Path) -> None:
    """Remove what killed writers of the same target left behind."""
    for folder in target.parent.glob(f".{_escaped(target.name)}.*{_ENDING}"):
        flags = os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK
        with contextlib.suppress(OSError), open_handle(folder, flags) as handle:
            lock(handle)
            shutil.rmtree(folder, ignore_errors=True)


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def flush(path: Path) -> None:
    """Make sure that a file, or a folder where one can be opened, is on the disk."""
    if path.is_dir() and not HAS_FOLDER_HANDLES:
        return
    with open_handle(path, os.O_RDONLY if HAS_FOLDER_HANDLES else os.O_RDWR) as handle:
        os.fsync(handle.fileno())


def flush_tree(folder: Path) -> None:
    """Make sure that all files of a folder, and their names, are on the disk."""
    for here, _, names in os.walk(folder, topdown=False):
        for name in names:
            flush(Path(here) / name)
        flush(Path(here))


def _publish(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)  # a new name, or an empty folder
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        _exchange(folder, target)
        shutil.rmtree(folder, ignore_errors=True)  # the earlier result, now under the hidden name
    flush(target.parent)


def _exchange(a: Path, b: Path) -> None:
    """Let two folders swap names in one step; in two where the system cannot."""
    rename = None if os.name == "nt" else getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None and rename(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0:
        return
    aside = a.with_name(a.name.removesuffix(_ENDING) + ".rowmill-old")  # not an ending that is swept: nothing is lost
    b.rename(aside)
    a.rename(b)
    aside.rename(a)
