"""The pages of a table in a workflow folder: how large they say they are, before anything is decompressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowmill.errors import WorkflowFileError
from rowmill.sources.parquet.thrift import Page, page_header

_ENCODINGS = {0, 2, 3, 4, 5, 8, 9}  # not those that write a value as what it shares with the one before
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_HEADER = 512  # bytes looked at first: many short pages must not each cost a copy of the file


@dataclass(frozen=True)
class PageSize:
    """What a page declares: bytes once decompressed, and number of values."""

    size: int
    values: int
    dictionary: bool


def pages(content: bytes, start: int, size: int) -> Iterator[PageSize]:
    """The pages of a column chunk, which has to lie within the file and be made of whole pages."""
    end = start + size
    if start < 4 or size < 0 or end > len(content):
        raise damaged("a column lies outside of the file")
    while start < end:
        page = _header(content, start, end)
        start += page.header
        if page.kind not in (_DATA, _DICTIONARY, _DATA_V2) or page.values < 0:
            raise damaged("a page without a number of values")
        if page.uncompressed < 0 or not 0 <= page.compressed <= end - start:
            raise damaged("a page that is larger than its column")
        if page.encoding not in _ENCODINGS:
            raise damaged(f"a page in encoding {page.encoding}")
        start += page.compressed
        dictionary = page.kind == _DICTIONARY
        yield PageSize(page.uncompressed, 0 if dictionary else page.values, dictionary or page.encoding in (2, 8))


def _header(content: bytes, start: int, end: int) -> Page:
    size = _HEADER
    while True:
        try:
            return page_header(content[start : min(end, start + size)])
        except IndexError:
            if start + size >= end:
                raise damaged("a page header is cut off") from None
            size *= 16
        except ValueError as error:
            raise damaged(str(error)) from None


def damaged(what: str) -> WorkflowFileError:
    """The error for a table that Workflow.save did not write."""
    return WorkflowFileError(f"cannot read a table of the workflow: {what}; save the workflow again")
