"""The errors that Rowmill raises, and the texts that several modules share, such as that for a missing column.

Every message has three parts: what was found, what was wanted, what to do. Each class is also the built-in type that
people already catch (`ValueError`, `FileNotFoundError`, ...), so an `except` written for another library still works.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import functools
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path

_PACKAGE = str(Path(__file__).parent) + os.sep
_BETWEEN = (functools.__file__, contextlib.__file__)  # modules through which Rowmill calls itself
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_LONG = 200  # letters of a name that is worth comparing with others
_SCARCE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


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


class StartedError(RowmillError, RuntimeError):
    """A setting that cannot change any more, because iteration has begun."""


class ForkedError(RowmillError, RuntimeError):
    """A running feed was used in a process forked from the one that started it."""


class NotFittedError(RowmillError, RuntimeError):
    """An operator has to learn from data before it can transform any."""


class LeakageError(RowmillError, ValueError):
    """Statistics of rows from after a cut in time are about to be used for data that were cut there."""


class OverlapError(RowmillError, ValueError):
    """Two datasets that should have no row in common have one."""


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


class FittedRowsWarning(UserWarning):
    """Data that may be the rows a workflow was fitted on, and could not be told from others."""


class LeakageWarning(UserWarning):
    """Statistics that may be of rows from after a cut in time."""


class PartitionWarning(UserWarning):
    """Rows that belong together are in several partitions, and an operator looks at one partition at a time."""


def describe_os_error(error: BaseException) -> tuple[str, str]:
    """What went wrong and what to do about it, in words: a full disk, too many open files, or what the system says."""
    number = error_number(error)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on device", "free some space, or write to another disk"
    if number in (errno.EMFILE, errno.ENFILE):
        return f"too many open files (the limit is {_open_files()})", "raise the limit (ulimit -n), or close some files"
    said = getattr(error, "strerror", None) or str(error).split("\n")[0] or type(error).__name__
    return said, "check that the disk works, and that you have the right to do this"


def error_number(error: BaseException) -> int | None:
    """The system's number of an error, or None. PyArrow and Polars pass some errors on as text, so that is read too."""
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return number
    text = str(error)
    if found := re.search(r"(?:os error|errno) (\d+)", text):
        return int(found[1])
    return next((number for number in _SCARCE if os.strerror(number) in text), None)


def is_scarcity(error: BaseException) -> bool:
    """Whether the machine has run out of something: room on the disk, or file handles."""
    return error_number(error) in _SCARCE


def system_error(error: BaseException, doing: str) -> DataFileError:
    """The error for something that the system refused to do, such as "writing table/part_0.parquet"."""
    reason, advice = describe_os_error(error)
    made = DataFileError(f"{reason} while {doing}; {advice}")
    made.errno = error_number(error)
    return made


def writing(what: object) -> AbstractContextManager[None]:
    """Turn what the system says against writing (a full disk, no more file handles) into a `DataFileError`."""
    return _doing(f"writing {what}")


def reading(what: object) -> AbstractContextManager[None]:
    """Turn what the system says against reading (a broken disk, no more file handles) into a `DataFileError`."""
    return _doing(f"reading {what}")


@contextmanager
def _doing(what: str) -> Iterator[None]:
    try:
        yield
    except RowmillError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and error_number(error) is None:
            raise
        raise system_error(error, what) from error


def _open_files() -> str:
    try:
        import resource

        return f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}"
    except ImportError:
        return "unknown"


def closest(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'C26'?"`, or nothing: the end of a message about an unknown name."""
    if name == "" or _PANDAS_INDEX.fullmatch(name):
        return f"; an index of pandas is a column only where it is named: open Dataset(..., columns=[..., {name!r}])"
    if len(name) > _LONG:
        return ""
    candidates = [each for each in islice(known, 10_000) if len(each) <= _LONG]  # comparing takes time
    near = difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing_column(name: str, where: str, known: Iterable[str]) -> ColumnError:
    """The error for a name that is no column: `where` says of what, such as "in train.parquet"."""
    return ColumnError(f"no column {name!r} {where}{closest(name, known)}")


def unknown_column(argument: str, name: str, known: Iterable[str]) -> ColumnError:
    """The error for an argument that names a column which is not there, such as `pad`."""
    return ColumnError(f"{argument} names {name!r}, which is no column{closest(name, known)}")


def os_reason(error: BaseException) -> str:
    """One line that says why something could not be read, and what to do where the machine has run out of something."""
    if is_scarcity(error):
        return "; ".join(describe_os_error(error))
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the line outside of Rowmill that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, *_BETWEEN)):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
