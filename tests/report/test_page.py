"""The page in a real browser: it opens with no error and no request, draws, sorts, fits a phone, can be dark."""

import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill.report import of_dataset, of_loader, open_loader
from tests.conftest import write_files
from tests.report.browser import look, needs_chromium, picture

HOSTILE = "<script>found.errors.push('ran')</script>\"'&"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = np.arange(20_000)
    frame = pl.DataFrame(
        {
            "many": rows,
            "few": rows % 3,
            "some": rows % 500,
            "x": np.sqrt(rows),
            "gaps": pl.Series(rows % 40, dtype=pl.Int32).replace(7, None),
            "tags": [[i % 5, 1] for i in range(20_000)],
            "text": [HOSTILE] * 19_999 + ["b"],
            HOSTILE: rows % 7,
            "a_name_that_is_much_longer_than_a_phone_is_wide_" * 3: rows % 11,
        }
    )
    write_files(folder, frame, files=2, row_group=2_000)
    loader = open_loader(rowmill.Dataset(folder), 512)
    for _ in loader:
        pass
    return of_loader(loader, column="few").html()


@needs_chromium
def test_it_opens_draws_and_sorts_with_no_error_and_no_request(page, tmp_path):
    found = look(page, tmp_path)
    assert found["errors"] == found["blocked"] == found["resources"] == found["console"] == []
    assert found["headings"] == ["Dataset", "Plan", "Run"]
    titles = [chart["title"] for chart in found["charts"]]
    for wanted in ("Nulls", "Distinct values", "Row groups", "Shuffle quality", "Where time went", "Rows per second"):
        assert wanted in titles
    assert all(chart["ink"] > 0 or "queue" in chart["title"] for chart in found["charts"]), found["charts"]
    assert found["sparks"] == 9
    down, up = found["distinct"]
    assert (down["sort"], up["sort"]) == ("descending", "ascending")
    assert down["order"][:3] == ["many", "x", "some"] or down["order"][:3] == ["x", "many", "some"]
    assert up["order"][-1] in ("many", "x") and up["order"][0] == "text"
    first, last = found["names"]
    assert first["sort"] == "ascending" and first["order"] == last["order"][::-1]
    assert sorted(first["order"]) == sorted(found["before"])


@needs_chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(page, dark, tmp_path):
    found = look(page, tmp_path, width=360, dark=dark)
    assert found["content"] <= found["width"] == 360
    assert all(chart["width"] < 360 for chart in found["charts"])
    assert sum(map(int, found["paper"][4:-1].split(","))) < 150 if dark else found["paper"] == "rgb(246, 247, 249)"


@needs_chromium
def test_what_is_seen_in_dark_differs(page, tmp_path):
    light, dark = picture(page, tmp_path), picture(page, tmp_path, dark=True)
    assert light.startswith(b"\x89PNG") and light != dark


@needs_chromium
def test_the_check_sees_a_request_and_an_error(page, tmp_path):
    bad = page.replace("<main>", '<main><img src="file:///x.png"><script>nothing.there()</script>')
    found = look(bad, tmp_path)
    assert found["blocked"] and any("nothing is not defined" in error for error in found["errors"])


def test_nothing_outside_is_named_and_data_are_escaped(page):
    assert "://" not in page and "@import" not in page and "url(" not in page
    assert "<script>found" not in page and "&lt;script&gt;found" in page
    assert page.count("<script") == 1 and "default-src 'none'" in page


def test_a_table_alone_has_a_page_too(tmp_path):
    write_files(tmp_path, pl.DataFrame({"a": [1, None, 3]}), files=1)
    text = of_dataset(rowmill.Dataset(tmp_path), "here").html()
    assert "No run yet" in text and 'id="run"' not in text and "Row groups" in text


@needs_chromium
def test_all_columns_of_the_table_are_seen_at_1200_pixels(tmp_path):
    """Long names, dates, text without a space, large numbers and several tags, side by side."""
    rows = np.arange(2_000)
    frame = pl.DataFrame(
        {
            "a_rather_long_name_of_a_column": rows * 10**12,
            "carrier": ["United Air Lines Inc.", "ExpressJet Airlines Inc."] * 1_000,
            "hash": ["0123456789abcdef" * 4, "fedcba9876543210" * 4] * 1_000,
            "time_hour": pl.datetime_range(pl.datetime(2013, 1, 1), pl.datetime(2014, 1, 1), "1h", eager=True)[:2_000],
            "distance": np.sqrt(rows) * -1234.5678,
            "genres": [[1, 2, 3]] * 2_000,
        }
    )
    data = rowmill.Dataset(frame).with_tags({"carrier": ["categorical", "item", "context"]})
    found = look(of_dataset(data, "flights").html(), tmp_path, width=1200)
    assert found["cut"] == [0] and found["content"] == 1200
