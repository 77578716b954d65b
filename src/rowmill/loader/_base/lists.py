"""List columns in a batch: which become sparse or padded, and which stay values and offsets.

Comes in: names and limits, then values and offsets of a batch. Goes out: what the framework's `Tensors` makes of them.
Called by the loaders of all frameworks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rowmill.errors import ArgumentError, ColumnError, closest
from rowmill.feed.memory.block import Array
from rowmill.loader._base.declared_shapes import DeclaredShapes
from rowmill.loader._base.tensors import Tensors
from rowmill.schema import Schema

ListFormat = Literal["ragged", "offsets"]
LIST_ENDINGS = ("__values", "__offsets")  # of the two arrays of a list column


@dataclass(frozen=True)
class Limits:
    """List columns that become tensors `[N, limit]`: the longest row allowed of each, and which of them are dense."""

    longest: Mapping[str, int]
    dense: frozenset[str]
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of one row, where the schema declares them


def checked_limits(
    shapes: DeclaredShapes,
    pad: Mapping[str, int] | None,
    sparse_names: Sequence[str] | None = None,
    sparse_max: Mapping[str, int] | None = None,
    sparse_as_dense: bool = False,
) -> Limits:
    """The limits that the settings of these names ask for, and those of shapes that the schema declares."""
    schema, sizes = shapes.schema, shapes.sizes
    sparse = _sparse_limits(schema, sparse_names, sparse_max)
    padded = {name: _padded_length(schema, name, length) for name, length in _pairs(pad)}
    if both := [name for name in padded if name in sparse]:
        raise ArgumentError(f"{both[0]!r} is in pad and in sparse_names; wanted one of the two")
    if both := [name for name in (*padded, *sparse) if name in sizes]:
        raise ArgumentError(
            f"{both[0]!r} has a fixed shape in the schema, and is to be padded; leave one of the two out"
        )
    exact = {name: math.prod(size) for name, size in sizes.items() if schema[name].is_list}
    dense_names = frozenset([*padded, *(sparse if sparse_as_dense else ()), *exact])
    return Limits({**sparse, **padded, **exact}, dense_names, sizes)


def _pairs(pad: Mapping[str, int] | None) -> list[tuple[str, int]]:
    if pad is not None and not isinstance(pad, Mapping):
        raise ArgumentError(f"pad={pad!r}; wanted the length by column, such as pad={{'genres': 20}}")
    return list((pad or {}).items())


def _padded_length(schema: Schema, name: str, length: int) -> int:
    if name not in schema:
        raise ColumnError(f"pad names {name!r}, which is no column{closest(name, schema.column_names)}")
    spec = schema[name]
    if not spec.is_list:
        raise ColumnError(f"pad names {name!r}, which is {spec.dtype}; wanted a list column")
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise ArgumentError(f"pad={{{name!r}: {length!r}}}; wanted a whole number of at least 1")
    if spec.width is not None and spec.width != length:
        raise ArgumentError(
            f"pad={{{name!r}: {length}}}, and all lists of {name!r} have {spec.width} values; leave it out of pad"
        )
    return length


def _sparse_limits(schema: Schema, names: Sequence[str] | None, limits: Mapping[str, int] | None) -> dict[str, int]:
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

    limits: Limits
    format: ListFormat = "offsets"  # of columns without a limit
    fill: int = 0  # what dense rows are filled up with

    def tensors(self, name: str, column: tuple[Array, Array], make: Tensors, padding: int = 0) -> dict[str, Any]:
        """One tensor under its name, or its values and offsets under two. `padding`: padding rows at the end."""
        if name in self.limits.longest:
            return {name: self.limited(name, column, make, padding)}
        if self.format == "ragged":
            return {name: make.ragged(*column)}
        return dict(zip((name + ending for ending in LIST_ENDINGS), map(make.array, column), strict=True))

    def as_offsets(self, ragged: Sequence[str]) -> list[str]:
        """Those of these list columns that come as values and offsets."""
        return [name for name in ragged if self.format == "offsets" and name not in self.limits.longest]

    def limited(self, name: str, column: tuple[Array, Array], make: Tensors, padding: int = 0) -> Any:
        """A column with a limit as a tensor `[N, limit]`, or of the shape that the schema declares.

        Values and offsets are NumPy arrays, or tensors of a batch that is on a GPU already.
        """
        (values, offsets), limit, size = column, self.limits.longest[name], self.limits.sizes.get(name)
        lengths = offsets[1:] - offsets[:-1]
        if size is not None:
            _check_sizes(name, lengths, size, padding)
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > limit:
            raise _too_long(name, longest, limit)
        if name not in self.limits.dense:
            return make.sparse(values, offsets, limit)
        padded = make.padded(values, offsets, limit, self.fill)
        return padded if size is None else make.shaped(padded, (-1, *size))


def _check_sizes(name: str, lengths: Any, size: tuple[int, ...], padding: int) -> None:
    """Refuse a batch with rows of another shape than the schema declares."""
    real = lengths[: len(lengths) - padding]
    if len(wrong := real[real != math.prod(size)]):
        raise ArgumentError(
            f"a row of {name!r} has {int(wrong[0])} values in lists of the right length, and its shape in the schema "
            f"is {(None, *size)}; declare another, such as with_shape((None, None)) for lists of any length"
        )


def _too_long(name: str, longest: int, limit: int) -> ArgumentError:
    """The error for a row that does not fit into its tensor."""
    return ArgumentError(
        f"a row of {name!r} has {longest} values, and {limit} are allowed; raise the limit in pad= (or sparse_max=), "
        f"or cut the lists"
    )


def checked_list_format(lists: str | None, default: ListFormat, make: Tensors) -> ListFormat:
    """How list columns without a limit are delivered: as asked for, if the framework can, else by default."""
    if lists is None:
        return default
    if lists == "offsets" or (lists == "ragged" and make.ragged_name is not None):
        return lists  # type: ignore[return-value]
    raise ArgumentError(
        f"lists={lists!r}; wanted 'offsets' (two arrays, `name__values` and `name__offsets`)"
        + (f", or 'ragged' (a {make.ragged_name})" if make.ragged_name else "; this framework has no ragged tensors")
    )
