"""Data in, a few letters out that change when the data do: what saved positions and stored epochs are checked against.

Files are known by their pins (see `pins`): as they were when the dataset was opened. A fingerprint leaves times of
change out, so that a copy of the data on another machine is the same data. A stamp is stricter, for stores on this
machine: it holds whole paths and times, so that a file that was written again is another.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rowmill.sources.files.paths import Files
from rowmill.sources.files.pins import Pins

if TYPE_CHECKING:
    from rowmill.sources.source import Source


def of_values(*values: object) -> str:
    """The fingerprint of anything whose `repr` says it all."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def of_rows(source: Source) -> str:
    """The fingerprint of a source's rows, however it cuts them into partitions and whatever types it casts them to."""
    inner: Source | None = getattr(source, "same_rows_as", None)
    return source.fingerprint() if inner is None else of_rows(inner)


def stamp_pins(files: Files, pins: Pins, *values: object) -> tuple[str, str]:
    """Where the files are, and what they were when they were opened: two fingerprints."""
    local = files.filesystem is None
    paths = [str(Path(path).absolute()) if local else path for path in files.paths]
    return of_values(paths), of_values(paths, pins.stamp(), *values)


def stamp_frame(frame: pl.DataFrame) -> tuple[str, str]:
    """Stamp of a table in memory: its schema and a hash of all values."""
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
