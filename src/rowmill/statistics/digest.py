"""A digest of the rows of a table: whether another table has the same values in the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from rowmill.statistics.values import hashes

Seen = tuple[int, int]  # the number of rows, and the sum of their hashes modulo 2^64


@dataclass(frozen=True)
class RowDigest:
    """The number of rows, and a sum of hashes of each row's number and values, so pieces can come in any order."""

    row: str  # the column with the number of the row in its table
    values: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.row, *self.values)

    def start(self) -> Seen:
        return 0, 0

    def update(self, seen: Seen, frame: pl.DataFrame) -> Seen:
        if not frame.height:
            return seen
        summed = hashes([frame.get_column(name) for name in self.columns]).sum(dtype=np.uint64)
        return self.merge(seen, (frame.height, int(summed)))

    def merge(self, left: Seen, right: Seen) -> Seen:
        return left[0] + right[0], (left[1] + right[1]) % (1 << 64)

    def finish(self, seen: Seen) -> dict[str, int | str]:
        return {"count": seen[0], "digest": f"{seen[1]:016x}"}

    def kept(self, result: dict[str, int | str]) -> dict[str, int | str]:
        return result

    def resume(self, kept: dict[str, int | str]) -> Seen:
        return int(kept["count"]), int(str(kept["digest"]), 16)


def after(before: dict[str, int | str], both: dict[str, int | str]) -> dict[str, int | str]:
    """The digest of the rows that came after others, from that of the others and that of all."""
    difference = (int(str(both["digest"]), 16) - int(str(before["digest"]), 16)) % (1 << 64)
    return {"count": int(both["count"]) - int(before["count"]), "digest": f"{difference:016x}"}
