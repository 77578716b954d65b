"""Nulls that are written as text: "NA", "null", "?", "-". Values of a text column in, the likely nulls among them out.

Called by `csv_head` for error messages and by the report for advice. Nothing is read as null because of it: that is for
`null_values=` to say.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

# Compared in lower case and without spaces around. What pandas takes for null by default is among them.
_TEXTS = frozenset(
    (
        "na", "n/a", "#na", "#n/a", "#n/a n/a", "<na>", "nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
        "null", "<null>", "(null)", "#null!", "none", "nil", "\\n", "missing", "unknown", "undefined", "not available",
        "?", "??", "-", "--", "---", ".", "..", "*",
    )
)  # fmt: skip
_VAGUE = frozenset({"unknown", "undefined", "none", "missing", "*", "."})  # may be a category of its own among words
_FLAGS = ("true", "false")


@dataclass(frozen=True, slots=True)
class NullTexts:
    """The likely nulls of a text column, as they are written. `numeric`: all other values are numbers or flags."""

    texts: tuple[str, ...] = ()
    numeric: bool = False


def is_null_text(text: str) -> bool:
    """Whether a value looks like a null that is written as text."""
    return text.strip().lower() in _TEXTS


def find_null_texts(values: pl.Series) -> NullTexts:
    """The likely nulls among the values of a text column; none where it has no such value."""
    if values.dtype != pl.String:
        return NullTexts()
    distinct = values.alias("values").drop_nulls().unique()
    plain = distinct.str.strip_chars().str.to_lowercase()
    null = plain.is_in(list(_TEXTS)) | (plain == "")
    texts = sorted(distinct.filter(null & (plain != "")).to_list())
    if not texts:
        return NullTexts()
    rest = plain.filter(~null)
    parsed = rest.cast(pl.Float64, strict=False).is_not_null()
    if bool((parsed | rest.is_in(list(_FLAGS))).all()):
        return NullTexts(tuple(texts), numeric=True)
    return NullTexts(tuple(text for text in texts if text.strip().lower() not in _VAGUE))


def as_option(texts: Sequence[str]) -> str | None:
    """These texts as `--null-values` takes them in a shell; None where one has a comma or spaces around it."""
    if any("," in text or text != text.strip() for text in texts):
        return None
    return f"--null-values={shlex.quote(','.join(texts))}"


def null_values_hint(texts: Sequence[str]) -> str:
    """What to write so that these texts are read as nulls."""
    option = as_option(texts)
    command = f" (rowmill convert: {option})" if option else ""
    return f"null_values={list(texts)!r}{command}"
