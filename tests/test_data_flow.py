"""The files that rows pass through are the ones that docs/design.md lists, few, and in one direction."""

import re

import pytest

from tests.data_flow import BEGIN, END, MOST_FILES, PAGE, TITLES, traced


def documented(what: str) -> list[str]:
    text = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    paragraph = next(part for part in text.split("\n\n") if part.strip().startswith(TITLES[what]))
    return re.findall(r"`([\w/]+\.py)`", paragraph)


@pytest.mark.parametrize("what", TITLES)
def test_rows_pass_through_the_documented_files(what):
    files, pairs = traced(what)
    assert files == documented(what), "run `python -m tests.data_flow --write`"
    assert len(files) <= MOST_FILES[what]
    assert not pairs, f"these files call each other back and forth: {pairs}"
