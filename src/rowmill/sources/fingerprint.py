"""Data in, a few letters out that change when the data do: what saved positions and stored epochs are checked against.

A file counts with its name below the dataset's folder, its size, and its first and last 64 KB; the footer of a Parquet
file, with the place and statistics of every column of every row group, is there. Times of change are left out, so that
a copy of the data on another machine is the same data. A change in the middle of a CSV file that keeps its size is not
seen.

A stamp is stricter, for stores on this machine: it holds whole paths, times of change, and every byte of a Parquet
footer, so that a file that was written again is another, even where its ends are the same.
"""

from __future__ import annotations

import hashlib
import io
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from rowmill.sources.paths import Files

_ENDS = 65_536


def of_values(*values: object) -> str:
    """The fingerprint of anything whose `repr` says it all."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def of_files(files: Files, *values: object) -> str:
    """The fingerprint of the files of a dataset, and of how they are read."""
    root = os.path.commonpath([os.path.dirname(path) for path in files.paths])  # noqa: PTH120

    def one(unit: int) -> tuple[str, int, int, int]:
        with files.open(unit) as file:
            head = file.read(_ENDS)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _ENDS))
            return os.path.relpath(files.paths[unit], root or "."), size, zlib.crc32(head), zlib.crc32(file.read(_ENDS))

    with ThreadPoolExecutor(16, "rowmill-fingerprint") as pool:
        return of_values(list(pool.map(one, range(len(files.paths)))), *values)


def stamp_files(files: Files, *values: object) -> tuple[str, str]:
    """Where the files are, and what they are now: two fingerprints, of paths and of contents and times."""

    def one(unit: int) -> tuple[str, int, int, str]:
        local = files.filesystem is None
        changed = os.stat(files.paths[unit]).st_mtime_ns if local else 0  # noqa: PTH116
        with files.open(unit) as file:
            head = file.read(_ENDS)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8))
            footer = file.read(8)
            tail = int.from_bytes(footer[:4], "little") + 8 if footer[4:] == b"PAR1" else 0
            file.seek(max(0, size - max(_ENDS, tail)))
            ends = hashlib.sha256(head + file.read())
        path = str(Path(files.paths[unit]).absolute()) if local else files.paths[unit]
        return path, size, changed, ends.hexdigest()

    with ThreadPoolExecutor(16, "rowmill-fingerprint") as pool:
        found = list(pool.map(one, range(len(files.paths))))
    return of_values([path for path, *_ in found]), of_values(found, *values)


def stamp_frame(frame: pl.DataFrame) -> tuple[str, str]:
    """The same for a table in memory, which is nowhere: all of its values count."""
    try:
        content = hashlib.sha256(frame.hash_rows(seed=0).to_numpy().tobytes()).hexdigest()
    except pl.exceptions.PolarsError:
        held = io.BytesIO()
        frame.write_ipc(held)
        content = hashlib.sha256(held.getbuffer()).hexdigest()
    return "memory", of_values(frame.schema, frame.height, content)


def of_frame(frame: pl.DataFrame) -> str:
    """The fingerprint of a table in memory: of its types, and of its values where they can be hashed."""
    try:
        content = zlib.crc32(frame.hash_rows(seed=0).to_numpy().tobytes())
    except pl.exceptions.PolarsError:
        content = frame.height
    return of_values(frame.schema, frame.height, content)
