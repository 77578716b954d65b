"""Names in, files out: a path, list, glob pattern, directory or URL becomes a natural-sorted list of files.

Directories are searched to any depth, `key=value` folders become hive columns (see `hive_paths`), and names that
start with `_` or `.` (side files, unfinished writes) are passed over. Called once, when a dataset is
opened.
"""

# Paths stay strings: a Path object for each of 10,000 files would cost more than finding them.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH118, PTH120, PTH207

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rowmill.errors import ArgumentError, DataFileError, NoFilesError, system_error
from rowmill.sources.files.hive_paths import hive_top, hive_values, text_keys
from rowmill.sources.files.saved_workflows import holds_workflow, without_workflows

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

ENGINES: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq", ".parq"),
    "csv": (".csv", ".tsv", ".txt"),
    "ipc": (".arrow", ".feather", ".ipc"),
    "json": (".jsonl", ".ndjson"),  # other JSON files often stand beside a table
    "avro": (".avro",),
}
_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+)://")
_OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs", "http", "https", "ftp", "file")
_URL_IN_PATH = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]+):/")  # what pathlib leaves of one: Path("s3://b") is "s3:/b"
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Files:
    """Files of one kind, in order. `filesystem` is None on the local disk; `hive` holds a mapping per file,
    or nothing; the values of `hive_text` are text, whatever they look like.
    """

    paths: tuple[str, ...]
    engine: str
    filesystem: FileSystem | None = None
    hive: tuple[Mapping[str, str | None], ...] = ()
    root: str | None = None
    hive_text: frozenset[str] = frozenset()

    def name(self, unit: int) -> str:
        return self.paths[unit]

    def open(self, unit: int) -> Any:
        """One file, open for reading bytes; the caller closes it."""
        if self.filesystem is None:
            return Path(self.paths[unit]).open("rb")
        return self.filesystem.open_input_file(self.paths[unit])


class Found(NamedTuple):
    """A file, the folder or pattern's folder it was found under (None for a file that was named), and the folder that
    was named or that holds the file."""

    path: str
    root: str | None
    named: str


def natural_key(text: str) -> list[Any]:
    """Sorts `part_2` before `part_10`: digits compare as numbers, the rest as text."""
    return [int(p) if p.isdigit() else p for p in re.split(r"([0-9]+)", text)]


def find_files(given: Any, engine: str | None = None, storage_options: Mapping[str, Any] | None = None) -> Files:
    """All files named by `given` (one path, pattern, directory or URL, or a list of them)."""
    names = [given] if isinstance(given, str | os.PathLike) else list(given)
    if not names:
        raise NoFilesError("found an empty list of paths; wanted at least one file; check the glob that built the list")
    bad = [n for n in names if not isinstance(n, str | os.PathLike)]
    if bad:
        raise ArgumentError(f"found {type(bad[0]).__name__} in a list of paths; wanted str or Path; pass paths only")
    texts = [os.fspath(n) for n in names]
    schemes = {match[1] if (match := _URL.match(t)) else "file" for t in texts}
    if len(schemes) > 1:
        raise ArgumentError(f"paths on several file systems: {sorted(schemes)}; wanted one; open them as two datasets")
    if schemes == {"file"}:
        found = [one for text in texts for one in _local(text.removeprefix("file://"), engine)]
        system = None
    else:
        from rowmill.sources.files.remote import find_remote

        found, system = find_remote(texts, storage_options or {}, engine)
    found = sorted({one.path: one for one in found}.values(), key=lambda one: natural_key(one.path))
    kind = engine or _kind([one.path for one in found])
    top = hive_top({_folder(one) for one in found})
    tops = [top if top is not None else hive_top([_folder(one)]) or "" for one in found]
    hive = tuple(hive_values(one.path, above) for one, above in zip(found, tops, strict=True))
    paths = tuple(one.path for one in found)
    if any(hive):
        text = text_keys({one.named for one in found}, set(tops), hive, system)
        return Files(paths, kind, system, hive, "." if top == "" else top, text)
    roots = {os.path.dirname(os.path.abspath(p)) for p in paths} if system is None else set()
    root = next((one.root for one in found if one.root is not None), None) or (roots.pop() if len(roots) == 1 else None)
    return Files(paths, kind, system, (), root)


def _folder(found: Found) -> str:
    """The folder from which on the folders of a file were searched for, or the one that holds a named file."""
    return os.path.dirname(found.path) if found.root is None else found.root


def _local(text: str, engine: str | None) -> list[Found]:
    """All files of one local name."""
    text = os.path.expanduser(text)
    if os.path.isdir(text):
        _refuse_tables(text)
        return [Found(path, text, text) for path in choose(walk(text), engine, text)]
    if os.path.exists(text):
        if is_special(text):
            raise DataFileError(f"{text} is a pipe, a socket or a device; wanted a file of rows; write them to a file")
        if not os.access(text, os.R_OK):
            raise DataFileError(f"cannot read {text}: permission denied; wanted a readable file; check its mode")
        return [Found(text, None, os.path.dirname(text))]
    if not _MAGIC.search(text):
        raise NoFilesError(f"no such file or directory: {text}; wanted Parquet, CSV or Arrow files; check the path")
    root = fixed_prefix(text)
    hits = [h for h in glob.glob(text, recursive=True) if not hidden(os.path.relpath(h, root or "."))]
    files = without_workflows([h for h in hits if os.path.isfile(h)])
    for folder in (h for h in hits if os.path.isdir(h) and not holds_workflow(h)):
        files.extend(walk(folder))
    if not files:
        raise NoFilesError(f"no file matches {text!r}; wanted at least one; check the pattern")
    return [Found(path, root, os.path.dirname(path)) for path in choose(files, engine, text)]


def _refuse_tables(folder: str) -> None:
    """Refuse the folder of a table with versions: it also holds files of other versions, whose rows are deleted."""
    if os.path.isdir(os.path.join(folder, "_delta_log")):
        raise ArgumentError(
            f"{folder} is a Delta table, whose folder also holds files of older versions; open it as 'delta://{folder}'"
        )
    if glob.glob(os.path.join(glob.escape(folder), "metadata", "*.metadata.json")):
        raise ArgumentError(
            f"{folder} is an Iceberg table, whose folder also holds files of older snapshots; open it with pyiceberg "
            f"and pass its table: Dataset(catalog.load_table(name))"
        )


def walk(folder: str) -> list[str]:
    """All files below a folder that are not hidden; folders behind symbolic links too, each once. Folders inside it
    that hold a saved workflow are passed over, and so are pipes, sockets and devices, which hold no rows."""
    files: list[str] = []
    seen: set[str] = set()
    todo = [folder]
    while todo:
        here = todo.pop()
        real = os.path.realpath(here)
        if real in seen or (here != folder and holds_workflow(here)):
            continue
        seen.add(real)
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.name[0] in "_.":
                        continue
                    if entry.is_dir():
                        todo.append(entry.path)
                    elif entry.is_file() or not is_special(entry.path):  # a link to nowhere is an error when opened
                        files.append(entry.path)
        except PermissionError as error:
            raise DataFileError(f"cannot list {here}: permission denied; wanted a readable folder") from error
        except OSError as error:
            raise system_error(error, f"listing {here}") from error
    return files


def is_special(path: str) -> bool:
    """Whether there is something at this path that is neither a file nor a folder: opening it could block for ever."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def hidden(relative: str) -> bool:
    """Whether any folder or the file in a relative path is one that readers pass over."""
    return any(part[0] in "_." for part in relative.split("/") if part and part not in (".", ".."))


def fixed_prefix(pattern: str) -> str:
    """The folder above the first wildcard of a pattern."""
    match = _MAGIC.search(pattern)
    return pattern[: match.start()].rpartition("/")[0] if match else pattern


def choose(files: Sequence[str], engine: str | None, where: str) -> list[str]:
    """The data files among all files found below a folder or by a pattern: those with the engine's endings."""
    if engine is None:
        found = sorted({kind for kind, ends in ENGINES.items() if any(f.lower().endswith(ends) for f in files)})
        if len(found) > 1:
            raise ArgumentError(f"{where} holds {' and '.join(found)} files; wanted one kind; pass engine={found[0]!r}")
        engine = found[0] if found else None
    picked = [f for f in files if f.lower().endswith(ENGINES[engine])] if engine in ENGINES else []
    picked = picked or list(files)
    if not picked:
        raise NoFilesError(f"no data files in {where}; wanted .parquet, .csv or .arrow files; check the folder")
    return picked


def _kind(files: Iterable[str]) -> str:
    kinds = {next((k for k, ends in ENGINES.items() if f.lower().endswith(ends)), f) for f in files}
    odd = sorted(kinds - set(ENGINES))
    if odd:
        raise ArgumentError(
            f"cannot tell the format of {odd[0]} by its name; wanted an ending of {sum(ENGINES.values(), ())}; "
            f"pass engine='parquet', 'csv', 'ipc', 'json' or 'avro'"
        )
    if len(kinds) > 1:
        raise ArgumentError(f"files of several formats: {sorted(kinds)}; wanted one; open them as several datasets")
    return kinds.pop()


def local_path(given: str | os.PathLike[str], what: str) -> Path:
    """The local path of a file or folder that is read or written as a whole; `what` names the argument in errors.

    `file://` URLs are local paths. Any other URL is refused: taken as a path, it would name a folder such as `s3:`.
    """
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError(f"{what} is {type(given).__name__}; pass a path as str or Path")
    text = os.fspath(given)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ArgumentError(f"{what} is {text!r}, which is not a path; pass a path as str or Path")
    in_path = _URL_IN_PATH.match(text)  # a text such as "s3:/b" comes from a path, too, or names a local folder
    if in_path is not None and isinstance(given, str) and in_path[1].lower() not in _OBJECT_STORES:
        in_path = None
    url = _URL.match(text) or in_path
    if url is None:
        return Path(text)
    host, slash, path = text[url.end() :].partition("/")
    if url[1].lower() == "file" and text.startswith(url[0]) and url[0].endswith("//"):
        if host not in ("", "localhost") or not slash:
            raise ArgumentError(f"{what} is {text!r}; a file URL has three slashes: file:///folder/name")
        return Path(slash + path)
    raise ArgumentError(
        f"{what} is {text!r}, a URL, and only local paths are supported here; pass a local path, and copy from or to "
        f"{url[1]} with its own tool"
    )


def folder_of(files: Files) -> Path | None:
    """The local folder a dataset lives in, where its side files are looked for."""
    return Path(files.root) if files.filesystem is None and files.root is not None else None
