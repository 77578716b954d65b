"""Results as JSON lines: one file a run, one line a reading, each with the facts of its machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from clock import Reading

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("rowmill", "torch", "polars", "pyarrow", "numpy", "tensordict", "tensorflow", "keras")


class Journal:
    """Where a run writes its readings."""

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self.facts = {**machine(), "quick": quick}
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{self.facts['date'].replace(':', '')}.jsonl"

    def add(self, question: str, contestant: str, number: int, reading: Reading, **condition: Any) -> None:
        """Append one reading of round `number`; `condition` is what the question varies."""
        line = {"question": question, "contestant": contestant, "round": number, **condition}
        with self.path.open("a") as out:
            out.write(json.dumps({**line, **asdict(reading), "machine": self.facts}) + "\n")


def newest(question: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The readings of the newest run that asked this question; empty if none did."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        if found := [record for record in _records(path) if record["question"] == question]:
            return found
    return []


def machine() -> dict[str, Any]:
    """What a figure depends on besides the code."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cores": cores(),
        "cpu": _cpu_name(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        yield from (json.loads(line) for line in lines)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
