"""What a pass has cost so far: where time went, and how much came through. Written by `feed`, read by anybody."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Stats:
    """Seconds and rows of one pass over the data."""

    rows: int = 0
    batches: int = 0
    padding: int = 0  # rows of the latest batch that stand for nothing
    padding_rows: int = 0  # and of all batches
    waited: float = 0.0  # seconds the training loop waited for data
    read_seconds: float = 0.0  # seconds of reading and decoding, all threads together
    pack_seconds: float = 0.0  # seconds of packing and shuffling, all threads together
    rows_read: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def count(self, rows: int, padding: int) -> None:
        self.rows += rows - padding
        self.batches += 1
        self.padding = padding
        self.padding_rows += padding

    def wait(self, seconds: float) -> None:
        self.waited += seconds

    def read(self, seconds: float, rows: int) -> None:
        with self._lock:
            self.read_seconds += seconds
            self.rows_read += rows

    def pack(self, seconds: float) -> None:
        with self._lock:
            self.pack_seconds += seconds
