"""What is kept of statistics, to go on with more rows after loading: as JSON data and tables, and back.

Each kind of result has a form of its own, from a closed list. Everything is checked when it is read, because native
functions add up what the tables hold. Called by `save` and `load`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import WorkflowFileError
from rowmill.graph.saved.codec import Tables, decode, encode
from rowmill.statistics.counts import COUNT, Values, frame_in
from rowmill.statistics.groups import Grouped
from rowmill.statistics.median import Sketch
from rowmill.statistics.moments import Sums

Read = Callable[[int], pl.DataFrame]

_MOST = 1 << 62  # rows that may have been counted
_MAX_DIGITS = 4_000  # of the hexadecimal form of a sum
_HIGH, _LOW = "__high__", "__low__"  # the halves of a number of 128 bits, which Parquet has no type for
_TWO_64 = 1 << 64


def encode_kept(kept: Mapping[str, Any], tables: Tables) -> dict[str, Any]:
    """By the name of the statistic; None for what was too large to be kept."""
    return {name: None if one is None else _encoded(one, tables) for name, one in kept.items()}


def decode_kept(given: Any, read: Read) -> dict[str, Any]:
    """What `encode_kept` wrote."""
    _check(isinstance(given, dict))
    return {name: None if one is None else _decoded(one, read) for name, one in given.items()}


def _encoded(one: Any, tables: Tables) -> dict[str, Any]:
    if isinstance(one, Sums):
        return {"sums": [one.count, hex(one.total), hex(one.squares), one.missing, one.infinite]}
    if isinstance(one, Sketch):
        frame = pl.DataFrame({"values": one.values, "counts": one.counts})
        return {"sketch": tables.add(frame), "cut": one.cut}
    if isinstance(one, Values):
        frames = [None if f is None else tables.add(frame_in(f)) for f in (one.frame, one.rest)]
        return {"values": frames, "numbers": [one.nulls, one.seen, one.kept]}
    if isinstance(one, Grouped):
        plain = [_numbered(frame, tables) for frame in one.plain]
        parts = [[name, [_numbered(_halved(f), tables) for f in frames]] for name, frames in one.parts.items()]
        return {"plain": plain, "parts": parts}
    return {"plainly": encode(one, tables, name=str)}


def _decoded(given: Any, read: Read) -> Any:
    _check(isinstance(given, dict))
    keys = set(given)
    if keys == {"sums"}:
        count, total, squares, missing, infinite = _list(given["sums"], 5)
        return Sums(_count(count), _whole(total), _whole(squares), _count(missing), _count(infinite))
    if keys == {"sketch", "cut"}:
        frame = read(given["sketch"])
        _check(frame.schema == {"values": pl.Float64, "counts": pl.Int64} and not sum(frame.null_count().row(0)))
        values, counts = frame["values"].to_numpy(), _counts(frame["counts"])
        _check(isinstance(given["cut"], bool) and bool(np.all(values[1:] > values[:-1])))
        return Sketch(values, counts, given["cut"])
    if keys == {"values", "numbers"}:
        frames = [None if number is None else _counted(read(number)) for number in _list(given["values"], 2)]
        nulls, seen, kept = map(_count, _list(given["numbers"], 3))
        return Values(frames[0], nulls, seen, kept, frames[1])
    if keys == {"plain", "parts"}:
        plain = [_named(frame, read) for frame in _list(given["plain"])]
        for frame in plain:
            _counts(_column(frame, "rows"))
        parts = {name: [_joined(_named(f, read)) for f in _list(held)] for name, held in _pairs(given["parts"])}
        return Grouped(plain, parts, sum(frame.height for frame in plain))
    _check(keys == {"plainly"})
    return decode(given["plainly"], read, {})


def _numbered(frame: pl.DataFrame, tables: Tables) -> dict[str, Any]:
    """A frame with numbers for names: those of some columns are no names of columns in a file."""
    numbered = frame.clone()
    numbered.columns = [str(number) for number in range(frame.width)]
    return {"table": tables.add(numbered), "names": frame.columns}


def _named(given: Any, read: Read) -> pl.DataFrame:
    _check(isinstance(given, dict) and set(given) == {"table", "names"})
    frame, names = read(given["table"]), _list(given["names"])
    _check(len(names) == frame.width == len(set(map(str, names))) and all(isinstance(name, str) for name in names))
    named = frame.clone()
    named.columns = names
    return named


def _halved(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame of parts of sums, with each number of 128 bits as two of 64."""
    part = pl.col("__part__")
    high = part // pl.lit(_TWO_64, pl.Int128)
    low = part - high * pl.lit(_TWO_64, pl.Int128)
    return frame.with_columns(high.cast(pl.Int64).alias(_HIGH), low.cast(pl.UInt64).alias(_LOW)).drop("__part__")


def _joined(frame: pl.DataFrame) -> pl.DataFrame:
    _check(_column(frame, _HIGH).dtype == pl.Int64 and _column(frame, _LOW).dtype == pl.UInt64)
    _check(_column(frame, "__bin__").dtype == pl.Int16)
    whole = pl.col(_HIGH).cast(pl.Int128) * pl.lit(_TWO_64, pl.Int128) + pl.col(_LOW).cast(pl.Int128)
    return frame.with_columns(whole.alias("__part__")).drop(_HIGH, _LOW)


def _counted(frame: pl.DataFrame) -> pl.DataFrame:
    _check(frame.width >= 2)
    _counts(_column(frame, COUNT))
    return frame


def _counts(series: pl.Series) -> Any:
    """Counts, none of them negative, and not too many to be added up."""
    _check(series.dtype == pl.Int64 and not series.null_count())
    counts = series.to_numpy()
    _check(not len(counts) or (int(counts.min()) >= 0 and float(counts.astype(np.float64).sum()) < _MOST))
    return counts


def _column(frame: pl.DataFrame, name: str) -> pl.Series:
    _check(name in frame.columns)
    return frame.get_column(name)


def _whole(text: Any) -> int:
    _check(isinstance(text, str) and len(text) <= _MAX_DIGITS)
    try:
        return int(text, 16)
    except ValueError as error:
        raise _damaged() from error


def _count(value: Any) -> int:
    _check(type(value) is int and 0 <= value < _MOST)
    return int(value)


def _list(value: Any, size: int | None = None) -> list[Any]:
    _check(isinstance(value, list) and (size is None or len(value) == size))
    return list(value)


def _pairs(value: Any) -> list[Any]:
    _check(all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in _list(value)))
    return list(value)


def _check(holds: bool) -> None:
    if not holds:
        raise _damaged()


def _damaged() -> WorkflowFileError:
    return WorkflowFileError(
        "cannot load the workflow: what is kept of its statistics is not as Workflow.save writes it; save it again"
    )
