"""How a CSV file is written: the spellings of pandas and of Polars in, one set of options out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowmill.errors import ArgumentError, closest

# Options that change how other readers read, not what they give.
_MEANINGLESS = {
    "blocksize",
    "chunksize",
    "low_memory",
    "engine",
    "assume_missing",
    "sample",
    "index",
    "batch_size",
    "dtype_backend",
    "infer_schema_length",
}


@dataclass(frozen=True)
class CsvOptions:
    """The separator, the quote, whether the first line holds names, names to use instead, and what means null."""

    separator: str | None = None
    quote: str | None = '"'
    has_header: bool = True
    names: tuple[str, ...] | None = None
    null_values: Any = None

    def separator_of(self, path: str) -> str:
        return self.separator or ("\t" if path.lower().endswith(".tsv") else ",")


def csv_options(given: Mapping[str, Any]) -> CsvOptions:
    """`sep`, `delimiter`, `names`, `header`, `na_values` as pandas has them; `separator`, `has_header`, ...
    as Polars.
    """
    left = {key: value for key, value in given.items() if key not in _MEANINGLESS}
    separator = _one(left, "sep", "delimiter", "separator")
    names = left.pop("names", None)
    renamed = left.pop("new_columns", None)
    header = left.pop("header", "infer")
    if header not in ("infer", None, 0, True, False):
        raise ArgumentError(f"header is {header!r}; wanted None (no names in the file) or 0 (names in the first line)")
    # As pandas: where names are given and nothing is said of a header, the file has none.
    has_header = names is None if header == "infer" else header is not None and header is not False
    has_header = bool(left.pop("has_header", has_header))
    nulls = _null_values(_one(left, "null_values", "na_values"))
    quote = _one(left, "quote_char", "quotechar", default='"')
    if left:
        name = next(iter(left))
        known = [
            "sep",
            "delimiter",
            "separator",
            "names",
            "new_columns",
            "header",
            "has_header",
            "null_values",
            "na_values",
        ]
        raise ArgumentError(f"unknown argument {name!r} for CSV files; wanted one of {known}{closest(name, known)}")
    if separator is not None and len(separator) != 1:
        raise ArgumentError(f"separator is {separator!r}; wanted one character such as ',' or '\\t'")
    chosen = names if names is not None else renamed
    return CsvOptions(separator, quote or None, has_header, _names(chosen), nulls)


def _null_values(given: Any) -> Any:
    """Texts that mean null in all columns, as a list, or column to text."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {str(name): _null_text(name, text) for name, text in given.items()}
    texts = [given] if isinstance(given, str | int | float) else given
    if not isinstance(texts, Sequence | set | frozenset) or not all(isinstance(t, str | int | float) for t in texts):
        raise ArgumentError(
            f"null_values is {given!r}; wanted a text, a list of texts or a dict of column to text; pass ['NA', '?']"
        )
    found = [str(text) for text in texts]
    return sorted(found) if isinstance(texts, set | frozenset) else found


def _null_text(name: object, given: Any) -> str:
    texts = [given] if isinstance(given, str | int | float) else list(given)
    if len(texts) != 1:
        raise ArgumentError(
            f"null_values has {len(texts)} texts for column {name!r}; wanted one for each column; pass a list of "
            f"texts, which holds for all columns"
        )
    return str(texts[0])


def _names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(set(names)) != len(names):
        raise ArgumentError(f"names are not unique: {list(names)}; wanted each name once")
    return tuple(str(n) for n in names)


def _one(left: dict[str, Any], *spellings: str, default: Any = None) -> Any:
    found = [left.pop(s) for s in spellings if s in left]
    return found[-1] if found else default
