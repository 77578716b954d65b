"""Schema files that NVTabular and Merlin leave beside a table: tags, domains, lengths of lists and embedding sizes.

`.merlin/schema.json` and the older `schema.pbtxt` hold a `Schema` message of TensorFlow Metadata, as JSON and in the
text format of protocol buffers. Types are not taken from them: the table has its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rowmill.errors import RowmillError, warn
from rowmill.schema import ColumnSchema, Schema, Tags

_JSON, _TEXT = Path(".merlin") / "schema.json", Path("schema.pbtxt")
_MAX_BYTES = 64 << 20
_MAX_DEPTH = 64  # of messages in messages
_TOKEN = re.compile(
    r"""(?:[\s,;]|\#[^\n]*(?:\n|\Z))*  # separators and comments say nothing
    (?: (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
      | (?P<sign> [{}<>\[\]:] ) | (?P<word> [\w.+-]+ ) | (?P<end> \Z ) )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def merlin_schema(folder: Path) -> Schema | None:
    """The columns that a schema file in this folder describes; None without one, or if it cannot be read."""
    for name, parse in ((_JSON, json.loads), (_TEXT, _parsed_text)):
        if not (folder / name).is_file():
            continue
        try:
            if (folder / name).stat().st_size > _MAX_BYTES:
                raise ValueError(f"it has more than {_MAX_BYTES >> 20} MB")
            return Schema([_column(feature) for feature in _many(parse((folder / name).read_text()), "feature")])
        except (OSError, ValueError, ArithmeticError, TypeError, AttributeError, RecursionError, RowmillError) as error:
            warn(
                f"cannot use {folder / name}: {error}; the table is opened without its tags and properties, remove or "
                f"repair the file",
            )
    return None


def _column(feature: dict[str, Any]) -> ColumnSchema:
    name = _one(feature, "name")
    if not isinstance(name, str):
        raise ValueError(f"a feature is named {name!r}")
    note = _one(feature, "annotation") or {}
    tags = [tag for tag in _many(note, "tag") if isinstance(tag, str)]
    properties: dict[str, Any] = {}
    for kind, number in (("int_domain", int), ("float_domain", float)):
        if domain := _one(feature, kind):
            properties["domain"] = _limits(domain, number)
            if label := _one(domain, "name"):
                properties["domain"]["name"] = str(label)
            if _one(domain, "is_categorical") in (True, "true"):
                tags.append(Tags.CATEGORICAL)
    counts = _limits(_one(feature, "value_count") or {}, int)
    if counts.get("max"):
        properties["value_count"] = counts
    extra = _one(note, "extra_metadata")
    if isinstance(extra, dict) and isinstance(sizes := extra.get("embedding_sizes"), dict):
        properties["embedding_sizes"] = {key: int(size) for key, size in sizes.items()}
    return ColumnSchema.from_dict({"name": name, "tags": tags, "properties": properties})


def _limits(given: dict[str, Any], number: type[int] | type[float]) -> dict[str, Any]:
    """The numbers `min` and `max`, which JSON has as texts; 0 where protocol buffers leave it out."""
    return {key: number(_one(given, key) or 0) for key in ("min", "max")}


def _one(message: dict[str, Any], name: str) -> Any:
    found = _many(message, name)
    return found[0] if found else None


def _many(message: dict[str, Any], name: str) -> list[Any]:
    """What a message has under a name, which JSON writes in another way."""
    first, *others = name.split("_")
    found = message.get(name, message.get(first + "".join(map(str.title, others)), []))
    return found if isinstance(found, list) else [found]


def _parsed_text(text: str) -> dict[str, Any]:
    """A message in text format as a dict: for each name a list of its values."""
    tokens = _tokens(text)
    message: dict[str, Any] = {}
    _read_message(tokens, message, "end", 0)
    return message


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while True:
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"unexpected {text[place : place + 20]!r}")
        kind = str(found.lastgroup)
        yield kind, found[kind]
        if kind == "end":
            return
        place = found.end()


def _read_message(tokens: Iterator[tuple[str, str]], message: dict[str, Any], closing: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} messages in each other")
    for kind, name in tokens:
        if (kind if kind == "end" else name) == closing:
            return
        if kind != "word":
            raise ValueError(f"unexpected {name or 'end'!r} where a name was wanted")
        kind, value = next(tokens)
        if value == ":":
            kind, value = next(tokens)
        values = message.setdefault(name, [])
        if value == "[":
            values.extend(_read_list(tokens, depth))
        else:
            values.append(_read_value(tokens, kind, value, depth))


def _read_list(tokens: Iterator[tuple[str, str]], depth: int) -> Iterator[Any]:
    for kind, value in tokens:
        if value == "]":
            return
        yield _read_value(tokens, kind, value, depth)


def _read_value(tokens: Iterator[tuple[str, str]], kind: str, value: str, depth: int) -> Any:
    if value in ("{", "<"):
        inner: dict[str, Any] = {}
        _read_message(tokens, inner, "}" if value == "{" else ">", depth + 1)
        return inner
    if kind == "text":
        return _ESCAPE.sub(_unescaped, value[1:-1].encode()).decode(errors="replace")
    if kind != "word":
        raise ValueError(f"unexpected {value or 'end'!r} where a value was wanted")
    return value


def _unescaped(found: re.Match[bytes]) -> bytes:
    """The byte that an escape in a text stands for: octal, hexadecimal or a letter."""
    code: bytes = found[1]
    if code[:1].isdigit():
        return bytes([int(code, 8) & 255])
    return bytes([int(code[1:], 16)]) if len(code) > 1 else _LETTERS.get(code, code)
