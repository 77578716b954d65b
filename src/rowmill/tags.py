"""What columns are for: the tags people use, sets of them, and which of them contradict each other.

A compound tag such as USER_ID stands for its parts (USER and ID): a column tagged USER_ID is found by either of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from rowmill.errors import ArgumentError


class Tags(StrEnum):
    """What a column is for. Loaders take their columns from CATEGORICAL, CONTINUOUS and TARGET."""

    CATEGORICAL = "categorical"
    CONTINUOUS = "continuous"
    TARGET = "target"
    LIST = "list"
    SEQUENCE = "sequence"
    TEXT = "text"
    TOKENIZED = "tokenized"
    EMBEDDING = "embedding"
    TIME = "time"
    ID = "id"
    USER = "user"
    ITEM = "item"
    SESSION = "session"
    CONTEXT = "context"
    USER_ID = "user_id"
    ITEM_ID = "item_id"
    SESSION_ID = "session_id"
    TEXT_TOKENIZED = "text_tokenized"
    BINARY = "binary"
    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    MULTI_CLASS = "multi_class"
    BINARY_CLASSIFICATION = "binary_classification"
    MULTI_CLASS_CLASSIFICATION = "multi_class_classification"
    TARGETS = "target"  # the older spelling of TARGET


COMPOUND_TAGS: Mapping[Tags, list[Tags]] = {
    Tags.USER_ID: [Tags.USER, Tags.ID],
    Tags.ITEM_ID: [Tags.ITEM, Tags.ID],
    Tags.SESSION_ID: [Tags.SESSION, Tags.ID],
    Tags.TEXT_TOKENIZED: [Tags.TEXT, Tags.TOKENIZED],
}

TAG_COLLISIONS: Mapping[Tags, list[Tags]] = {
    Tags.CATEGORICAL: [Tags.CONTINUOUS, Tags.EMBEDDING],
    Tags.CONTINUOUS: [Tags.CATEGORICAL, Tags.EMBEDDING, Tags.ID],
    Tags.EMBEDDING: [Tags.CONTINUOUS, Tags.CATEGORICAL, Tags.ID],
    Tags.ID: [Tags.CONTINUOUS, Tags.EMBEDDING],
}


_KNOWN: Mapping[str, Tags] = {tag.value: tag for tag in Tags}


def tag_of(tag: str) -> str:
    """The member of `Tags` that a text names in any case, or the text itself: a tag of the user's own."""
    return _KNOWN.get(str(tag).lower(), str(tag))


def parts_of(tag: str) -> list[str]:
    """The tags that a tag stands for: the parts of a compound one, or itself."""
    known = tag_of(tag)
    return list(COMPOUND_TAGS[known]) if isinstance(known, Tags) and known in COMPOUND_TAGS else [known]


def many(tags: Any) -> list[str]:
    """Tags given as one, as a collection, or as None."""
    return [] if tags is None else [tags] if isinstance(tags, str) else list(tags)


class TagSet(frozenset[str]):
    """Tags of one column: compound ones by their parts, and none that contradicts another.

    `a + b` and `a - b` give sets with more or fewer tags; `a.override(b)` adds tags and drops those they contradict.
    """

    def __new__(cls, tags: str | Iterable[str] | None = None) -> TagSet:
        if isinstance(tags, TagSet):
            return tags
        made = super().__new__(cls, (part for tag in many(tags) for part in parts_of(tag)))
        against = _collisions(made, made)
        if against:
            raise ArgumentError(
                f"tags {sorted(made)} are incompatible: {sorted(against)} contradict each other; leave one of them out"
            )
        return made

    def override(self, tags: str | Iterable[str] | None) -> TagSet:
        """These tags and the given ones, without those that contradict the given ones."""
        new = TagSet(tags)
        return TagSet((frozenset(self) - _collisions(self, new)) | new)

    def __contains__(self, tag: object) -> bool:
        return isinstance(tag, str) and all(super(TagSet, self).__contains__(part) for part in parts_of(tag))

    def __add__(self, tags: str | Iterable[str] | None) -> TagSet:
        return TagSet(frozenset(self) | TagSet(tags))

    def __sub__(self, tags: Any) -> TagSet:
        return TagSet(frozenset(self).difference(part for tag in many(tags) for part in parts_of(tag)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Iterable) or isinstance(other, str):
            return NotImplemented
        return frozenset(self) == frozenset(part for tag in other for part in parts_of(tag))

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = frozenset.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return TagSet, (sorted(map(str, self)),)

    def __repr__(self) -> str:
        return f"TagSet({sorted(map(str, self))})"


def _collisions(old: Iterable[str], new: Iterable[str]) -> frozenset[str]:
    """The tags of `old` that one of `new` contradicts."""
    kept = frozenset(old)
    against = (clash for tag in new if isinstance(tag, Tags) for clash in TAG_COLLISIONS.get(tag, ()))
    return frozenset(clash for clash in against if frozenset.__contains__(kept, clash))
