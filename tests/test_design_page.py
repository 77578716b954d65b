"""The tree in docs/design.md and the table of layers in CONTRIBUTING.md say what the code says."""

import pytest

from tests.design_page import PARTS, ROOT, first_line, written


@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.name)
def test_generated_parts_are_up_to_date(page):
    assert page.read_text() == written(page), "run `python -m tests.design_page`"


def test_every_module_says_what_it_is():
    silent = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if not first_line(path)]
    assert not silent


def test_folders_are_small():
    counts = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) - 1 for folder in ROOT.rglob("*/")}
    large = {folder: count for folder, count in counts.items() if count > 14}
    assert not large
