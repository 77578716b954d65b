"""List columns in a batch: which become sparse or padded, and which stay values and offsets.

Comes in: names and limits, then values and offsets of a batch. Goes out: what the framework's `Tensors` makes of them.
Called by the loaders of all frameworks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rowmill.errors import ArgumentError, ColumnError, closest
from rowmill.feed.block import Array
from rowmill.loader.tensors import Tensors
from rowmill.schema import Schema

Form = Literal["ragged", "offsets"]
LIST_ENDINGS = ("__values", "__offsets")  # of the two arrays of a list column


def checked_limits(schema: Schema, names: Sequence[str] | None, limits: Mapping[str, int] | None) -> dict[str, int]:
    """The longest row allowed of each list column in `names`."""
    found = {}
    for name in limits or ():
        if name not in schema:
            raise ColumnError(f"sparse_max names {name!r}, which is no column{closest(name, schema.column_names)}")
    for name in names or ():
        if not schema[name].is_list:
            raise ColumnError(f"sparse_names holds {name!r}, which is {schema[name].dtype}; wanted a list column")
        if name not in (limits or {}):
            raise ArgumentError(f"no limit for list column {name!r}; add it to sparse_max={{{name!r}: ...}}")
        found[name] = (limits or {})[name]
    return found


def check_made_names(
    names: Sequence[str], ragged: Collection[str], mask: str | None = None, targets: Sequence[str] = ()
) -> None:
    """Refuse a column whose name the loader gives to another array of the same batch.

    `names` are all columns of a batch, `ragged` those that come as values and offsets, `mask` the name of the padding
    mask if there is one.
    """
    if lists := [name for name in targets if name in ragged]:
        raise ColumnError(f"target {lists[0]!r} is a list column; wanted one value a row; name another with targets=")
    own = {name for name in names if name not in ragged}
    made = {name + ending: f"list column {name!r} is delivered as" for name in ragged for ending in LIST_ENDINGS}
    made |= {} if mask is None else {mask: "last='pad' marks padding rows in"}
    if taken := [name for name in names if name in own and name in made]:
        raise ColumnError(
            f"{made[taken[0]]} {taken[0]!r}, and the table has a column of that name; rename the column, or leave it "
            f"out by naming the others"
        )


@dataclass(frozen=True)
class Lists:
    """What becomes of the list columns of a batch."""

    limits: Mapping[str, int]
    dense: bool
    form: Form
    fill: int = 0  # what dense rows are filled up with

    def tensors(self, name: str, column: tuple[Array, Array], make: Tensors) -> dict[str, Any]:
        """One tensor under its name, or its values and offsets under two."""
        values, offsets = column
        if name in self.limits:
            return {name: self._limited(name, values, offsets, make)}
        if self.form == "ragged":
            return {name: make.ragged(values, offsets)}
        return dict(zip((name + ending for ending in LIST_ENDINGS), map(make.array, column), strict=True))

    def as_offsets(self, ragged: Sequence[str]) -> list[str]:
        """Those of these list columns that come as values and offsets."""
        return [name for name in ragged if self.form == "offsets" and name not in self.limits]

    def _limited(self, name: str, values: Array, offsets: Array, make: Tensors) -> Any:
        limit, lengths = self.limits[name], np.diff(offsets)
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > limit:
            raise ArgumentError(
                f"a row of {name!r} has {longest} values; sparse_max allows {limit}: raise it or cut the lists"
            )
        rows = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(len(values)) - np.repeat(offsets[:-1], lengths)
        if not self.dense:
            return make.sparse(np.stack([rows, places], axis=1), values, (len(lengths), limit))
        padded = np.full((len(lengths), limit), self.fill, values.dtype)
        padded[rows, places] = values
        return make.rows(padded)


def checked_form(form: str | None, default: Form, make: Tensors) -> Form:
    """How list columns without a limit are delivered: as asked for, if the framework can, else by default."""
    if form is None:
        return default
    if form == "offsets" or (form == "ragged" and make.ragged_name is not None):
        return form  # type: ignore[return-value]
    raise ArgumentError(
        f"lists={form!r}; wanted 'offsets' (two arrays, `name__values` and `name__offsets`)"
        + (f", or 'ragged' (a {make.ragged_name})" if make.ragged_name else "; this framework has no ragged tensors")
    )
