"""The first rows of a CSV file: bytes in, column names, likely types and the offset of the first row out.

Called once a file, when a dataset is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rowmill.errors import ColumnError, DataFileError, SchemaDriftError, closest
from rowmill.sources.csv.options import CsvOptions
from rowmill.sources.files.paths import Files
from rowmill.sources.null_texts import find_null_texts, null_values_hint
from rowmill.sources.schema_unification import unify, widest
from rowmill.sources.types import type_name

_HEAD = 1 << 20  # enough for the names and a few thousand rows
_LINE = 64 << 10  # enough for the names alone
_COMPRESSED = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "bzip2": b"BZh", "xz": b"\xfd7zXZ"}
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Head:
    """Column names in the order of the file, types found so far (none where nobody looked), first byte of the rows.

    `null_texts`: for columns that are text only because of them, likely nulls such as "NA".
    """

    columns: tuple[str, ...]
    types: Mapping[str, pl.DataType]
    begin: int
    null_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_head(files: Files, unit: int, options: CsvOptions, infer: bool) -> Head:
    """Read the beginning of one file; the types too if `infer`."""
    name = files.name(unit)
    try:
        with files.open(unit) as file:
            data = _beginning(file, _HEAD if infer else _LINE, options)
    except OSError as error:
        raise DataFileError(f"cannot read {name}: {error}; wanted a readable CSV file; check it") from error
    for kind, mark in _COMPRESSED.items():
        if data.startswith(mark):
            raise DataFileError(
                f"{name} is compressed ({kind}), and CSV files are read in pieces, from any place; unpack it first, or "
                f"pass polars.scan_csv(path), which does"
            )
    begin = len(_BOM) if data.startswith(_BOM) else 0
    text = data[begin:]
    line = text[: _row_end(text, options.quote)]
    if not line.strip():
        raise DataFileError(f"{name} is empty; wanted at least a line of column names; leave it out")
    try:
        columns = _columns(line, options, name)
        if options.has_header:
            begin, text = begin + len(line), text[len(line) :]
        if not infer:
            return Head(columns, {}, begin)
        frame = _first_rows(text, columns, options, name)
        types = {c: pl.Null() if frame[c].null_count() == frame.height else frame[c].dtype for c in columns}
        found = {c: find_null_texts(frame[c]) for c in columns}
        return Head(columns, types, begin, {c: nulls.texts for c, nulls in found.items() if nulls.numeric})
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise DataFileError(
            f"cannot parse the first rows of {name}: {str(error).splitlines()[0]}; wanted CSV in UTF-8; "
            f"check sep=, names= and quote_char="
        ) from error


def _beginning(file: Any, size: int, options: CsvOptions) -> bytes:
    """The first bytes, up to the end of a row: more than `size` only where the first row is longer."""
    data = b""
    while more := file.read(size):
        data += more
        end = _last_row_end(data, options.quote) if len(more) == size else len(data)
        if end:
            return bytes(data[:end])
    return data


def _row_end(data: bytes, quote: str | None) -> int:
    """The offset after the first line end outside quotes, or the length where there is none."""
    mark, at, quotes = (quote or "").encode(), 0, 0
    while (end := data.find(b"\n", at) + 1) > 0:
        quotes += data.count(mark, at, end) if mark else 0
        if quotes % 2 == 0:
            return end
        at = end
    return len(data)


def _last_row_end(data: bytes, quote: str | None) -> int:
    mark, at = (quote or "").encode(), len(data)
    quotes = data.count(mark) if mark else 0  # before the line end that is looked at
    while (end := data.rfind(b"\n", 0, at)) >= 0:
        quotes -= data.count(mark, end, at) if mark else 0
        if quotes % 2 == 0:
            return end + 1
        at = end
    return 0


def _columns(line: bytes, options: CsvOptions, name: str) -> tuple[str, ...]:
    separator = options.separator_of(name)
    cells = pl.read_csv(line, has_header=False, separator=separator, quote_char=options.quote, infer_schema=False)
    found = [str(c) if c is not None else "" for c in cells.row(0)]
    if options.names is not None:
        if len(options.names) != len(found):
            raise DataFileError(
                f"{name} has {len(found)} columns; wanted {len(options.names)}, as names= says; check sep={separator!r}"
            )
        return options.names
    if not options.has_header:
        return tuple(f"column_{i}" for i in range(len(found)))
    twice = [c for c in found if found.count(c) > 1]
    if twice:
        raise DataFileError(
            f"{name} names column {twice[0]!r} twice; wanted unique names; pass names= and header=0 "
            f"(rowmill convert: --names and --header)"
        )
    return tuple(found)


def _first_rows(text: bytes, columns: Sequence[str], options: CsvOptions, name: str) -> pl.DataFrame:
    by_column = options.null_values if isinstance(options.null_values, Mapping) else {}
    for column in by_column:
        if column not in columns:
            raise ColumnError(f"null_values names {column!r}, which is no column in {name}{closest(column, columns)}")
    if not text.strip():
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Null()))
    frame = _parsed(text, columns, options, name, None if by_column else options.null_values)
    for column, null in by_column.items():  # Polars finds the types of all columns without looking at such a mapping
        frame = frame.with_columns(_parsed(text, columns, options, name, [null])[column])
    return frame


def _parsed(text: bytes, columns: Sequence[str], options: CsvOptions, name: str, null_values: Any) -> pl.DataFrame:
    return pl.read_csv(
        text,
        has_header=False,
        new_columns=list(columns),
        separator=options.separator_of(name),
        quote_char=options.quote,
        null_values=null_values,
        infer_schema_length=None,
    )


def unify_heads(heads: Sequence[tuple[str, Head]], given: Mapping[str, object]) -> dict[str, pl.DataType]:
    """One type a column for all files. Text of integers is text of floats too; what no row shows is a string."""
    names = [(name, {c: pl.Null() for c in head.columns}) for name, head in heads]
    found: dict[str, pl.DataType] = dict(unify(names))
    nulls: dict[str, tuple[str, ...]] = {}
    first = heads[0][0]
    for name, head in heads:
        for column, dtype in head.types.items():
            if column in given:
                continue
            joined = widest(found[column], dtype)
            if joined is None and found[column].is_numeric() and dtype.is_numeric():
                joined = pl.Float64()
            if joined is None:
                texts = head.null_texts.get(column) or nulls.get(column, ())
                hint = f"{null_values_hint(texts)} if that means null, or " if texts else ""
                raise SchemaDriftError(
                    f"column {column!r} looks like {type_name(dtype)} in {name}; expected {type_name(found[column])} "
                    f"as in {first}; pass {hint}dtypes={{{column!r}: 'string'}} or another type that fits both"
                )
            if column in head.null_texts:
                nulls.setdefault(column, head.null_texts[column])
            found[column] = joined
    return {c: pl.String() if isinstance(t, pl.Null) else t for c, t in found.items()}
