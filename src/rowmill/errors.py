"""The exception tree: what Rowmill raises, and nothing else.

Every message has three parts: what was found, what was wanted, what to do. Each class is also the built-in type that
people already catch (`ValueError`, `FileNotFoundError`, ...), so an `except` written for another library still works.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

_LONG = 200  # letters of a name that is worth comparing with others


class RowmillError(Exception):
    """The root of all errors that Rowmill raises on purpose."""


class ArgumentError(RowmillError, ValueError):
    """An argument has a value that cannot be meant."""


class ColumnError(RowmillError, ValueError):
    """A column that was asked for is not there, or cannot be used in the way it was asked for."""


class DtypeError(RowmillError, TypeError):
    """A column's type cannot be delivered exactly, so it is refused by name."""


class NullError(RowmillError, ValueError):
    """A column holds nulls and nobody said what they should become."""


class NoFilesError(RowmillError, FileNotFoundError):
    """A path, list or pattern that names no file."""


class DataFileError(RowmillError, OSError):
    """A file that is damaged, truncated, unreadable, or changed since it was opened."""


class SchemaDriftError(RowmillError, ValueError):
    """Two files of one dataset disagree about a column in a way that would lose or change values."""


class MemoryLimitError(RowmillError, ValueError):
    """The `memory` setting is too small for what has to be in memory at once."""


class StateError(RowmillError, ValueError):
    """A saved position that belongs to other data or other settings."""


class ForkedError(RowmillError, RuntimeError):
    """A running feed was used in a process forked from the one that started it."""


class NotFittedError(RowmillError, RuntimeError):
    """An operator has to learn from data before it can transform any."""


class UnseenValueError(RowmillError, ValueError):
    """A value that is not in the vocabulary, where that was said to be an error."""


class TransformError(RowmillError, RuntimeError):
    """A step of a workflow cannot be computed on the rows that it was given."""


class WorkflowFileError(RowmillError, ValueError):
    """A saved workflow that is damaged, not ours, of a later version, or not to be trusted."""


class UnknownFunctionError(RowmillError, ValueError):
    """A saved workflow uses a function that was not given at loading."""


class StoreError(RowmillError, RuntimeError):
    """A store that is not there, or not complete, where one is needed."""


class UncomparableError(StoreError):
    """A function of a workflow of which it cannot be told whether it has changed."""


class DamagedStoreError(StoreError):
    """A store whose bytes are not those that were written. Never reaches the training loop: the store is rebuilt."""


class ItemError(RowmillError, ValueError):
    """An item of a map-style dataset that cannot be stored beside the others; the message names its index."""


class MissingExtraError(RowmillError, ImportError):
    """Something that needs a package which is not installed; the message names the extra that brings it."""


class CacheWarning(UserWarning):
    """A cache could not be used, and rows are read from their source instead; or it was rebuilt."""


def closest(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'C26'?"`, or nothing: the end of a message about an unknown name."""
    if len(name) > _LONG:
        return ""
    candidates = [each for each in islice(known, 10_000) if len(each) <= _LONG]  # comparing takes time
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
