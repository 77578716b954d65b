"""Which rows go to which file: partitions and what a user says of files in, a plan of (name, fragments) out.

Pure arithmetic; nothing is read or written here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from rowmill.errors import ArgumentError, warn
from rowmill.sources.files.paths import ENGINES, Files
from rowmill.sources.source import Fragment

Plan = list[tuple[str, list[Fragment]]]


class Shuffle(IntEnum):
    """How `to_parquet` orders rows.

    PER_PARTITION: partitions in random order, and the rows within each. PER_WORKER: all rows of each file
    as well. FULL: every row may come to stand anywhere in the table. None of them needs the table in
    memory.
    """

    PER_PARTITION = 0
    PER_WORKER = 1
    FULL = 2


def parse_shuffle(shuffle: Any) -> Shuffle | None:
    """None and False: keep the order. True, the old spelling: PER_WORKER."""
    if shuffle is None or shuffle is False:
        return None
    if shuffle is True:
        warn("shuffle=True is deprecated; say rowmill.io.Shuffle.PER_WORKER", DeprecationWarning)
        return Shuffle.PER_WORKER
    if isinstance(shuffle, Shuffle):
        return shuffle
    raise ArgumentError(f"shuffle is {shuffle!r}; wanted None or one of {[str(s) for s in Shuffle.__members__]}")


def equal_files(fragments: Sequence[Fragment], names: Sequence[str]) -> Plan:
    """The rows in order, in as many files as names, each with the same number of rows (within one)."""
    total = sum(f.rows for f in fragments)
    plan: Plan = []
    left = list(fragments)[::-1]
    for i, name in enumerate(names):
        rows = total * (i + 1) // len(names) - total * i // len(names)
        spans: list[Fragment] = []
        while rows > 0:
            fragment = left.pop()
            if fragment.rows > rows:
                left.append(fragment.slice(rows, fragment.rows - rows))
                fragment = fragment.slice(0, rows)
            spans.append(fragment)
            rows -= fragment.rows
        plan.append((name, spans))
    return plan


def file_per_partition(fragments: Sequence[Fragment], suffix: str) -> Plan:
    """One file a partition; one empty file where there is none, so that the columns are kept."""
    return [(f"part_{i}{suffix}", [f]) for i, f in enumerate(fragments)] or [(f"part_0{suffix}", [])]


def named_files(fragments: Sequence[Fragment], wanted: Any, suffix: str) -> Plan:
    """`output_files`: a number of files, a list of names, or a mapping of names to partition numbers."""
    if isinstance(wanted, Mapping):
        plan: Plan = []
        for key, indices in wanted.items():
            bad = [i for i in indices if not 0 <= i < len(fragments)]
            if bad:
                raise ArgumentError(f"output_files names partition {bad[0]}; wanted 0 to {len(fragments) - 1}")
            names = [key] if isinstance(key, str) else list(key)
            plan.extend(equal_files([fragments[i] for i in indices], [_with(n, suffix) for n in names]))
        return _checked(plan)
    if isinstance(wanted, int):
        if wanted < 1:
            raise ArgumentError(f"output_files is {wanted}; wanted at least 1")
        return equal_files(fragments, [f"part_{i}{suffix}" for i in range(wanted)])
    if not isinstance(wanted, str | bytes) and all(isinstance(n, str) for n in wanted) and wanted:
        return _checked(equal_files(fragments, [_with(n, suffix) for n in wanted]))
    raise ArgumentError(
        f"output_files is {wanted!r}; wanted a number, a list of names, or a dict of name to partitions"
    )


def preserved_files(fragments: Sequence[Fragment], files: Files | None, suffix: str) -> Plan:
    """One output file for each input file, under its name; empty input files too."""
    if files is None:
        raise ArgumentError("preserve_files=True without input files; wanted a dataset of files; use output_files=")
    places: dict[int, list[Fragment]] = {unit: [] for unit in range(len(files.paths))}
    for fragment in fragments:
        places[fragment.unit].append(fragment)
    names = [PurePosixPath(p).name for p in files.paths]
    if len(set(names)) < len(names):  # the same name in several folders: keep the folders
        root = os.path.commonpath([str(PurePosixPath(p).parent) for p in files.paths])
        names = [os.path.relpath(p, root) for p in files.paths]
    return _checked([(_replaced(names[unit], suffix), spans) for unit, spans in places.items()])


def _replaced(name: str, suffix: str) -> str:
    endings = [e for ends in ENGINES.values() for e in ends if name.lower().endswith(e)]
    return (name[: -len(endings[0])] if endings else name) + suffix


def _with(name: str, suffix: str) -> str:
    return name if PurePosixPath(name).suffix else name + suffix


def _checked(plan: Plan) -> Plan:
    names = [name for name, _ in plan]
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or any(p[0] in "._" for p in path.parts):
            raise ArgumentError(f"output file {name!r}; wanted a plain name below the folder, not starting with _ or .")
        if names.count(name) > 1:
            raise ArgumentError(f"two output files named {name!r}; wanted unique names; give output_files=")
    return plan


def hive_folder(keys: Sequence[str], values: Sequence[Any]) -> str:
    """`day=3/kind=a%2Fb`: the folder of these values."""
    return "/".join(f"{quote(k, safe='')}={_spelled(v)}" for k, v in zip(keys, values, strict=True))


def _spelled(value: Any) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else quote(str(value), safe=" ")
