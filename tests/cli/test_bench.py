import re
from dataclasses import MISSING, fields, replace

import polars as pl
import pytest

from rowmill._system.sizes import cores
from rowmill.cli.bench import CEILING, OURS, costly, limit
from rowmill.dataset import Dataset
from rowmill.feed.report.run_stats import RunReport
from rowmill.report.report import Report
from rowmill.report.table import measure_table
from rowmill.tools.throughput import Pace


def paces(ours, bound):
    """Decoding at 100 rows a second, and Rowmill at `ours`, limited by this."""
    return {CEILING: Pace(100, 1.0, cores()), OURS: Pace(ours, 1.0, 0.9 * cores(), bound, cores())}


@pytest.mark.parametrize(
    ("ours", "bound", "told"),
    [
        (90, "cpu", "the processor limits it: .* Load fewer columns"),
        (90, "storage", "storage limits it, or other programs .* Use a faster disk"),
        (30, "cpu", "the processor limits it: .* Text and lists cost most; load only the columns"),
        (30, "model", "taking batches from the loader limits it, not reading them"),
    ],
)
def test_it_says_what_limits(ours, bound, told):
    assert re.match(f"Rowmill reaches {ours}% of decoding alone; {told}", limit(paces(ours, bound), costly=True))


def test_text_and_lists_are_named_only_where_they_are():
    assert "Text and lists cost most" in limit(paces(30, "cpu"), costly=True)
    assert "Text" not in limit(paces(30, "cpu"), costly=False)
    assert "--columns" in limit(paces(30, "cpu"), costly=False)


@pytest.mark.parametrize("bound", ["cpu", "storage", "model"])
def test_the_report_says_the_same_of_a_run_that_was_limited_so(bound):
    run = RunReport(**{f.name: _figure(f.name) for f in fields(RunReport) if f.default is MISSING})
    waited = 0.0 if bound == "model" else run.seconds
    busy = run.seconds * run.cores if bound == "cpu" else 0.0
    run = replace(run, waited=waited, cpu_seconds=busy)
    assert run.bound == bound
    table = measure_table(Dataset({"a": [1]}), "", sample=1)
    said = Report(table, None, run, trained=False).verdict[0].split("; ", 1)[1]
    assert f"; {said}." in limit(paces(90, bound), costly=False)


def _figure(name):
    return {"cores": cores(), "timeline": ()}.get(name, 10)


def test_costly_columns_are_text_and_lists():
    assert not costly(Dataset({"a": [1], "b": [1.5]}).schema, ["a", "b"])
    schema = Dataset(pl.DataFrame({"a": [1], "s": ["x"], "l": [[1]]})).schema
    assert costly(schema, ["a", "s"]) and costly(schema, ["l"]) and not costly(schema, ["a"])
