"""Schema unification: the column types of all files become one set, or an error that names the file that differs.

Order of columns, nullability, dictionary encoding and the width of offsets are storage and may differ.
Numbers may differ where one type holds every value of the other exactly. Anything else is refused when the
dataset is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from rowmill.errors import SchemaDriftError, closest
from rowmill.sources.types import leaf_type, type_name

_SIGNED: list[pl.DataType] = [pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64()]
_UNSIGNED: list[pl.DataType] = [pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64()]
_FLOATS: list[pl.DataType] = [pl.Float16(), pl.Float32(), pl.Float64()]
_EXACT_BITS = [11, 24, 53]  # integers up to this many bits are exact in float16, float32, float64


def widest(a: pl.DataType, b: pl.DataType) -> pl.DataType | None:
    """The smallest type that holds every value of both exactly; None where there is none."""
    if a == b or isinstance(b, pl.Null):
        return a
    if isinstance(a, pl.Null):
        return b
    if isinstance(a, pl.List) and isinstance(b, pl.List):
        leaf = widest(leaf_type(a), leaf_type(b))
        return None if leaf is None else pl.List(leaf)
    if isinstance(a, pl.Array) and isinstance(b, pl.Array) and a.size == b.size:
        leaf = widest(leaf_type(a), leaf_type(b))
        return None if leaf is None else pl.Array(leaf, a.size)
    for family in (_SIGNED, _UNSIGNED, _FLOATS):
        if a in family and b in family:
            return family[max(family.index(a), family.index(b))]
    if b in _FLOATS or (a in _UNSIGNED and b in _SIGNED):
        a, b = b, a
    if a in _SIGNED and b in _UNSIGNED:  # uint8 needs int16, and so on
        wide = max(_SIGNED.index(a), _UNSIGNED.index(b) + 1)
        return _SIGNED[wide] if wide < len(_SIGNED) else None
    if a in _FLOATS:
        bits = 8 << _SIGNED.index(b) if b in _SIGNED else 8 << _UNSIGNED.index(b) if b in _UNSIGNED else 99
        fits = [
            f
            for f, exact in zip(_FLOATS, _EXACT_BITS, strict=True)
            if bits <= exact and _FLOATS.index(a) <= _FLOATS.index(f)
        ]
        return fits[0] if fits else None
    return None


def unify(tables: Sequence[tuple[str, Mapping[str, pl.DataType]]]) -> dict[str, pl.DataType]:
    """One type a column, in the order of the first table. `tables` are (file name, types) in file order."""
    first_name, first = tables[0]
    for name, types in tables[1:]:
        if types.keys() != first.keys():
            _refuse_names(name, types, first_name, first)
    return {column: _unify_column(column, [(name, types[column]) for name, types in tables]) for column in first}


def _unify_column(column: str, found: Sequence[tuple[str, pl.DataType]]) -> pl.DataType:
    # Floats first: uint32 with int32 would become int64, which no float holds, though a float64 holds all three.
    result: pl.DataType | None = found[0][1]
    for dtype in sorted({dtype for _, dtype in found}, key=lambda d: d not in _FLOATS):
        result = result if result is None else widest(result, dtype)
    if result is not None:
        return result
    so_far = found[0][1]
    for name, dtype in found[1:]:
        step = widest(so_far, dtype)
        if step is None:
            raise SchemaDriftError(
                f"column {column!r} is {type_name(dtype)} in {name}; expected {type_name(so_far)} as in {found[0][0]}; "
                f"rewrite that file with the type of the others, or open the files as two datasets"
            )
        so_far = step
    return so_far


def _refuse_names(
    name: str, types: Mapping[str, pl.DataType], first_name: str, first: Mapping[str, pl.DataType]
) -> None:
    missing = [c for c in first if c not in types]
    extra = [c for c in types if c not in first]
    if missing:
        near = closest(missing[0], extra) or (f"; found {extra[0]!r} instead" if extra else "")
        expected = _known_type(first[missing[0]]) or "one"
        raise SchemaDriftError(
            f"no column {missing[0]!r} in {name}; expected {expected} as in {first_name}{near}; "
            f"rewrite that file, leave it out, or open it as a dataset of its own"
        )
    found = _known_type(types[extra[0]])
    raise SchemaDriftError(
        f"column {extra[0]!r}{f' ({found})' if found else ''} in {name}; expected no such column, as in {first_name}; "
        f"rewrite that file, leave it out, or open it as a dataset of its own"
    )


def _known_type(dtype: pl.DataType) -> str:
    """The name of a type; nothing for a column of which only the name is known."""
    return "" if isinstance(dtype, pl.Null) else type_name(dtype)
