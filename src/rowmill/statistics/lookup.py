"""Finding values in a table of keys: built once, asked for every fragment. The heart of Categorify and of every join.

Whole numbers are found in a hash table directly. Everything else, and combinations of columns, is found by its hash
and then compared with what is there, so that two values are never taken for one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rowmill import _native
from rowmill.errors import ColumnError
from rowmill.statistics.values import hashes, is_whole, whole, without_nan

_INT32 = np.iinfo(np.int32)


class Lookup:
    """The place of each row among the rows of `keys`, which differ from each other; -1 for one that is not there.

    A null among the keys is found like a value.
    """

    def __init__(self, keys: pl.DataFrame) -> None:
        self._names = keys.columns
        self.keys = pl.DataFrame([without_nan(c).alias(f"key {n}") for n, c in enumerate(keys.get_columns())])
        self._null = -1
        self._whole = keys.width == 1 and is_whole(keys.dtypes[0])
        if self._whole:
            column = self.keys.to_series()
            if column.null_count():
                self._null = int(column.is_null().arg_max() or 0)
            numbers = whole(column).fill_null(0).to_numpy()
            self._build(numbers, skip=self._null)
        else:
            self._build(self._distinct(), skip=-1)

    def _distinct(self) -> NDArray[np.int64]:
        """A hash for each key, by a seed with which no two are the same."""
        if self.keys.height and self.keys.to_struct().n_unique() != self.keys.height:
            raise ColumnError(f"the table of {self._names} has keys twice; fit the workflow again")
        for self._seed in range(1 << 16):
            found = hashes(self.keys.get_columns(), self._seed).view(np.int64)
            if len(np.unique(found)) == len(found):
                return found
        raise AssertionError("keys that are there twice")

    def _build(self, numbers: NDArray[np.int64], skip: int) -> None:
        if skip >= 0:  # the null's place: a key that nothing else has is as good as none
            numbers = numbers.copy()
            numbers[skip] = _unused(numbers)
        self._spare = numbers[skip] if skip >= 0 else None
        low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        self._narrow = _INT32.min <= low and high <= _INT32.max
        slots = 1 << max(4, (2 * len(numbers) - 1).bit_length())
        self._table = np.zeros(slots if self._narrow else 2 * slots, np.int64)
        (_native.build_narrow_index if self._narrow else _native.build_wide_index)(numbers, self._table)

    def find(self, columns: Sequence[pl.Series]) -> NDArray[np.int32]:
        """The places of these rows. The columns are those of the keys, in their order and of a type that fits."""
        fitted = [
            _as_key(column.alias("values"), key, name)
            for column, key, name in zip(columns, self.keys, self._names, strict=True)
        ]
        cast = [column for column, _ in fitted]
        if self._whole:
            places = self._find_whole(whole(cast[0]))
        else:
            places = _verified(self._places(hashes(cast, self._seed).view(np.int64)), cast, self.keys)
        for _, lost in fitted:
            if lost is not None:
                places[lost] = -1
        return places

    def _find_whole(self, numbers: pl.Series) -> NDArray[np.int32]:
        nulls = numbers.null_count()
        if nulls == 0:
            return self._places(numbers.to_numpy())
        if nulls == len(numbers):  # a single row, as when serving; every call of Polars counts there
            return np.full(nulls, self._null, np.int32)
        places = self._places(numbers.fill_null(0).to_numpy())
        places[numbers.is_null().to_numpy()] = self._null
        return places

    def _places(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        places = np.empty(len(numbers), np.int32)
        (_native.find_narrow if self._narrow else _native.find_wide)(numbers, self._table, places)
        if self._spare is not None:
            places[numbers == self._spare] = -1
        return places


def _as_key(column: pl.Series, key: pl.Series, name: str) -> tuple[pl.Series, NDArray[np.bool_] | None]:
    """The column in the type of the keys, and which of its values that type cannot hold, if there may be any."""
    column = without_nan(column)
    if column.dtype == key.dtype:
        return column, None
    if column.dtype == pl.Null or (column.dtype in (pl.Categorical, pl.Enum) and key.dtype == pl.String):
        return column.cast(key.dtype), None
    if column.dtype.is_numeric() and key.dtype.is_numeric():
        cast = column.cast(key.dtype, strict=False)
        same = cast.cast(column.dtype, strict=False).eq_missing(column)
        return cast, None if same.all() else (~same).to_numpy()
    ours, theirs = column.dtype, key.dtype
    if (
        isinstance(ours, pl.Datetime)
        and isinstance(theirs, pl.Datetime)
        and (not ours.time_zone) == (not theirs.time_zone)
    ):  # other units, or another zone's name for the same moments
        cast = column.cast(theirs)
        same = cast.cast(ours).eq_missing(column)
        return cast, None if same.all() else (~same).to_numpy()
    raise ColumnError(
        f"column {name!r} is {column.dtype}, and {key.dtype} in the table in which it is looked up (an external one, "
        f"or the one that the workflow was fitted on); cast one of them, with Dataset(..., dtypes={{{name!r}: ...}})"
    )


def _unused(numbers: NDArray[np.int64]) -> np.int64:
    """A number that is not among these."""
    low = -(1 << 31)
    taken = np.unique(numbers[(numbers >= low) & (numbers <= low + len(numbers))])
    gaps = np.flatnonzero(taken != low + np.arange(len(taken)))
    return np.int64(low + (int(gaps[0]) if len(gaps) else len(taken)))


def _verified(places: NDArray[np.int32], columns: Sequence[pl.Series], keys: pl.DataFrame) -> NDArray[np.int32]:
    """Places without those where the value only has the same hash."""
    if not keys.height:
        return places
    found = pl.Series(np.maximum(places, 0))
    same = pl.Series(places >= 0)
    for column, key in zip(columns, keys, strict=True):
        same &= key.gather(found).eq_missing(column)
    return np.where(same.to_numpy(), places, np.int32(-1))
