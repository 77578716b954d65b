"""What the rows of a synthetic table look like: block number in, a `pyarrow.Table` of `BLOCK` rows out.

Each column of each block has a random stream of its own, a Philox generator keyed by seed and block. So a
block is made without the ones before it, a column does not change when another is added, and the table is the
same however it is cut into files and row groups. `rowmill.tools.row_group_writer` writes the blocks to disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowmill.tools.random_columns import hashed, levels, quantiles, skewed_ids, stream, vocabulary

# Rows made at once. Small, because a file that starts inside a block makes that block again; not smaller,
# because each column of a block takes 12 microseconds to seed, which is 6% of the time at this size.
BLOCK = 16_384

LABEL = "label"
CONTINUOUS = tuple(f"I{i}" for i in range(1, 14))
CATEGORICAL = tuple(f"C{i}" for i in range(1, 27))

# The embedding table sizes of the Criteo click logs with ten million ids at most, C1 to C26.
CARDINALITIES = dict(
    zip(
        CATEGORICAL,
        (
            10_000_000, 29_612, 15_050, 7_190, 19_547, 4, 6_492, 1_317, 63, 10_000_000, 707_291, 218_510, 11,
            2_209, 9_798, 72, 4, 954, 15, 10_000_000, 4_553_157, 10_000_000, 291_641, 10_904, 91, 35,
        ),
        strict=True,
    )
)  # fmt: skip
# About the share of missing values in the public Criteo sample; a column that is not named has none.
MISSING = {
    "I1": 0.45, "I3": 0.21, "I4": 0.22, "I5": 0.03, "I6": 0.22, "I7": 0.04, "I9": 0.04, "I10": 0.45,
    "I11": 0.04, "I12": 0.77, "I13": 0.22, "C3": 0.03, "C4": 0.03, "C6": 0.12, "C12": 0.03, "C16": 0.03,
    "C19": 0.44, "C20": 0.44, "C21": 0.03, "C22": 0.76, "C24": 0.03, "C25": 0.44, "C26": 0.44,
}  # fmt: skip
# What the label depends on: its log-odds are the weighted sum of these columns.
SIGNAL = {
    "I1": 0.5, "I2": -0.4, "I7": 0.3, "C6": 0.6, "C9": 0.5, "C13": 0.5, "C14": 0.4, "C17": -0.6, "C25": 0.4,
}  # fmt: skip
BASE_LOG_ODDS = -1.2
LIST_IDS = 5_000
WORDS = 1_000

_LISTS, _WORDS, _NULLS = 1_000, 2_000, 10_000  # where the streams of these begin


class Recipe(Protocol):
    """A table that can be made in blocks, in any order."""

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of every block."""
        ...

    @property
    def dictionary(self) -> list[str]:
        """The columns worth a dictionary in the file; the others have too many different values."""
        ...

    def block(self, index: int) -> Any:
        """The `BLOCK` rows from row `index * BLOCK` on, as a `pyarrow.Table`."""
        ...


@dataclass(frozen=True)
class Criteo:
    """Label, 13 counts and 26 skewed ids; raw as logged, or prepared as a model takes them."""

    raw: bool
    seed: int
    lists: int = 0
    strings: int = 0

    @property
    def schema(self) -> Any:
        count, ids, label = (pa.int32(),) * 3 if self.raw else (pa.float32(), pa.int64(), pa.float32())
        return pa.schema(
            [(LABEL, label)]
            + [(name, count) for name in CONTINUOUS]
            + [(name, ids) for name in CATEGORICAL]
            + [(f"L{i + 1}", pa.list_(ids)) for i in range(self.lists)]
            + [(f"S{i + 1}", pa.string()) for i in range(self.strings)]
        )

    @property
    def dictionary(self) -> list[str]:
        # One that is as long as its row group doubles the time to write and is given up half-way.
        return [name for name in self.schema.names if CARDINALITIES.get(name, 0) < 100_000]

    def block(self, index: int) -> Any:
        level = {name: levels(self.seed, index, 1 + i, BLOCK) for i, name in enumerate(CONTINUOUS)}
        ids = {
            name: skewed_ids(stream(self.seed, index, 20 + i), BLOCK, cardinality)
            for i, (name, cardinality) in enumerate(CARDINALITIES.items())
        }
        clicked = stream(self.seed, index, 0).random(BLOCK, dtype=np.float32) < _click_rate(level, ids)
        columns = [pa.array(clicked).cast(self.schema.field(LABEL).type)]
        columns += [self._count(index, i, drawn) for i, drawn in enumerate(level.values())]
        columns += [self._ids(index, 13 + i, column) for i, column in enumerate(ids.values())]
        columns += [self._list(index, i) for i in range(self.lists)]
        columns += [self._words(index, i) for i in range(self.strings)]
        return pa.table(columns, schema=self.schema)

    def _count(self, block: int, place: int, level: NDArray[np.uint16]) -> Any:
        counts, scaled = quantiles(place)
        return self._with_nulls(block, place, counts[level]) if self.raw else pa.array(scaled[level])

    def _ids(self, block: int, place: int, ids: NDArray[np.int64]) -> Any:
        return self._with_nulls(block, place, hashed(ids, place)) if self.raw else pa.array(ids)

    def _with_nulls(self, block: int, place: int, values: NDArray[Any]) -> Any:
        share = MISSING.get((CONTINUOUS + CATEGORICAL)[place], 0.0)
        if not share:
            return pa.array(values)
        missing = stream(self.seed, block, _NULLS + place).random(BLOCK, dtype=np.float32) < share
        return pa.array(values, mask=missing)

    def _list(self, block: int, number: int) -> Any:
        """0 to 12 ids a row, short lists more often; one row in four is empty, one in twenty null."""
        draw = stream(self.seed, block, _LISTS + number)
        lengths = (13 * draw.random(BLOCK, dtype=np.float32) ** 2).astype(np.int32)
        missing = draw.random(BLOCK, dtype=np.float32) < 0.05
        lengths[missing] = 0
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        ids = skewed_ids(draw, int(offsets[-1]), LIST_IDS)
        values = pa.array(hashed(ids, _LISTS + number) if self.raw else ids)
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(missing))

    def _words(self, block: int, number: int) -> Any:
        """Words of eight hexadecimal digits; one row in ten is null in the raw form."""
        draw = stream(self.seed, block, _WORDS + number)
        ids = skewed_ids(draw, BLOCK, WORDS)
        missing = draw.random(BLOCK, dtype=np.float32) < 0.1
        return pa.array(vocabulary(WORDS, _WORDS + number)).take(pa.array(ids, mask=missing if self.raw else None))


@dataclass(frozen=True)
class Wide:
    """`columns` columns: half are skewed int64 ids `C1`..., half float32: `label` and `I1`..."""

    columns: int
    seed: int
    ids: int = 1_000  # so few that a dictionary is small beside the values of any row group

    @property
    def schema(self) -> Any:
        floats = (self.columns - 1) // 2
        return pa.schema(
            [(LABEL, pa.float32())]
            + [(f"I{i + 1}", pa.float32()) for i in range(floats)]
            + [(f"C{i + 1}", pa.int64()) for i in range(self.columns - 1 - floats)]
        )

    @property
    def dictionary(self) -> list[str]:
        return list(self.schema.names)

    def block(self, index: int) -> Any:
        columns: list[NDArray[Any]] = []
        for place, name in enumerate(self.schema.names):
            if name.startswith("C"):
                columns.append(skewed_ids(stream(self.seed, index, place), BLOCK, self.ids))
            else:
                columns.append(quantiles(0)[1][levels(self.seed, index, place, BLOCK)])
        columns[0] = (columns[0] > 0).astype(np.float32)
        return pa.table(columns, schema=self.schema)


@cache
def _effect(column: str, weight: float) -> NDArray[np.float32]:
    """What each id of a column adds to the log-odds of a click: of both signs, unlike its neighbours'."""
    ids = np.arange(CARDINALITIES[column], dtype=np.float64)
    return (weight * 1.4 * np.sin(2.4 * ids + len(column) + weight)).astype(np.float32)


def _click_rate(level: dict[str, NDArray[np.uint16]], ids: dict[str, NDArray[np.int64]]) -> NDArray[np.float32]:
    odds = np.full(BLOCK, BASE_LOG_ODDS, dtype=np.float32)
    for column, weight in SIGNAL.items():
        if column in ids:
            odds += _effect(column, weight)[ids[column]]
        else:
            odds += np.float32(weight) * quantiles(CONTINUOUS.index(column))[1][level[column]]
    np.exp(-odds, out=odds)
    odds += 1
    return np.reciprocal(odds, out=odds)
