"""Counters of a run: where time goes and how much comes through. `verdict` says in words what limits it.

`Stats` is written by `run.pipeline` while it runs (a few additions for each fragment and batch); `Stats.report` makes
of it what a person reads: was the training loop waiting for data, and if so, for the processor or for storage.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field

from rowmill.feed.report.text_table import TextTable, bytes_text
from rowmill.feed.report.verdict import verdict_text

MOMENTS = 256  # kept of a pass; when there are more, every other one is dropped


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a pass was at one time: seconds since it began, rows handed out, seconds waited, rows ready."""

    seconds: float
    rows: int
    waited: float
    ready_rows: int


@dataclass
class Stats:
    """Seconds and rows of one pass over the data."""

    rows: int = 0
    batches: int = 0
    padding: int = 0  # padding rows of the latest batch
    padding_rows: int = 0  # and of all batches
    waited: float = 0.0  # seconds the training loop waited for data
    read_seconds: float = 0.0  # seconds of reading and decoding, all threads together
    pack_seconds: float = 0.0  # seconds of packing and shuffling, all threads together
    room_seconds: float = 0.0  # seconds that threads waited until the training loop had taken a chunk
    rows_read: int = 0
    ready_rows: int = 0  # packed rows that wait for the training loop now
    threads: int = 0
    row_bytes: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    ended: float | None = None
    _cpu: float = field(default_factory=time.process_time, repr=False)
    _cpu_ended: float | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _moments: list[Moment] = field(default_factory=list, repr=False)
    _every: int = field(default=1, repr=False)

    def begin(self) -> None:
        """The first batch has been asked for; what was before is neither loading nor training."""
        self.started, self._cpu = time.perf_counter(), time.process_time()

    def count(self, rows: int, padding: int) -> None:
        self.rows += rows - padding
        self.batches += 1
        self.padding = padding
        self.padding_rows += padding
        if self.batches % self._every == 0:
            self._note()

    def _note(self) -> None:
        """Remember this moment, at even distances however long the pass: 2 microseconds, of ever fewer batches."""
        seconds = time.perf_counter() - self.started
        self._moments.append(Moment(seconds, self.rows, self.waited, max(0, self.ready_rows)))
        if len(self._moments) >= MOMENTS:
            self._moments = self._moments[1::2]
            self._every *= 2

    def wait(self, seconds: float) -> None:
        self.waited += seconds

    def read(self, seconds: float, rows: int) -> None:
        with self._lock:
            self.read_seconds += seconds
            self.rows_read += rows

    def pack(self, seconds: float) -> None:
        with self._lock:
            self.pack_seconds += seconds

    def room(self, seconds: float) -> None:
        with self._lock:
            self.room_seconds += seconds

    def ready(self, rows: int) -> None:
        with self._lock:
            self.ready_rows += rows

    def end(self) -> None:
        self.ended, self._cpu_ended = time.perf_counter(), time.process_time()

    def report(self) -> RunReport:
        """The figures so far, and the verdict."""
        seconds = max(1e-9, (self.ended or time.perf_counter()) - self.started)
        cpu = (self._cpu_ended or time.process_time()) - self._cpu
        return RunReport(
            seconds=seconds,
            rows=self.rows,
            batches=self.batches,
            padding_rows=self.padding_rows,
            rows_per_second=self.rows / seconds,
            bytes_per_second=self.rows_read * self.row_bytes / seconds,
            waited=self.waited,
            read_seconds=self.read_seconds,
            pack_seconds=self.pack_seconds,
            room_seconds=self.room_seconds,
            ready_rows=max(0, self.ready_rows),
            cpu_seconds=cpu,
            cores=os.cpu_count() or 1,
            threads=self.threads,
            timeline=tuple(self._moments),
        )


@dataclass(frozen=True)
class RunReport(TextTable):
    """One pass in figures. `verdict` says what limits it and what to try."""

    seconds: float
    rows: int
    batches: int
    padding_rows: int
    rows_per_second: float
    bytes_per_second: float
    waited: float
    read_seconds: float
    pack_seconds: float
    room_seconds: float
    ready_rows: int
    cpu_seconds: float
    cores: int
    threads: int
    timeline: tuple[Moment, ...] = ()

    @property
    def bound(self) -> str:
        """What limits this pass: "model", "cpu" or "storage"; "unknown" before the first batch."""
        if not self.batches:
            return "unknown"
        if self.waited < 0.1 * self.seconds:
            return "model"
        busy = self.cpu_seconds / (self.seconds * self.cores)
        return "cpu" if busy > 0.6 else "storage"

    @property
    def verdict(self) -> str:
        return verdict_text(self.bound, self.waited, self.seconds)

    def table(self) -> tuple[str, list[tuple[str, str]]]:
        rows = [
            ("rows", f"{self.rows:,} in {self.batches:,} batches, {self.seconds:.2f} s"),
            ("rate", f"{self.rows_per_second:,.0f} rows/s, {bytes_text(self.bytes_per_second)}/s decoded"),
            ("waited for data", f"{self.waited:.2f} s ({self.waited / self.seconds:.0%})"),
            ("reading", f"{self.read_seconds:.2f} s in {self.threads} threads"),
            ("packing", f"{self.pack_seconds:.2f} s"),
            ("threads held up", f"{self.room_seconds:.2f} s, by a training loop that had enough"),
            ("ready now", f"{self.ready_rows:,} rows"),
            ("processor", f"{self.cpu_seconds:.2f} s of {self.seconds * self.cores:.2f} s"),
            ("verdict", self.verdict),
        ]
        if self.padding_rows:
            rows.insert(1, ("padding", f"{self.padding_rows:,} rows"))
        return "Run", rows
