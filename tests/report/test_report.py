import itertools
import json
import sys
import time
from dataclasses import replace

import pytest

import rowmill
from rowmill.errors import MissingExtraError
from rowmill.feed.report.run_stats import MOMENTS, Moment, RunReport, Stats
from rowmill.loader.torch import Loader, TorchAsyncItr
from rowmill.report import Report, of_dataset, of_loader, open_loader
from rowmill.report.loading import joined


def test_a_loader_reports_on_itself(folder, tmp_path):
    loader = TorchAsyncItr(rowmill.Dataset(folder), cats=["cat_a"], conts=["x1"], labels=["label"], batch_size=50)
    loader.peek()  # compiles
    for _ in loader:
        time.sleep(0.02)
    path = tmp_path / "deep" / "r.html"
    report = loader.report(path)
    assert path.read_text("utf-8") == report.html() and report.run.rows == 1003 and report.plan.steps == 21
    assert report.verdict[0] == "Model-bound" and "a faster loader would change little" in report.verdict[1]
    assert str(folder) in report.html()
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown
    told = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert told["run"]["bound"] == "model" and told["table"]["rows"] == 1003


def test_reporting_changes_nothing(folder):
    def loader():
        return Loader(rowmill.Dataset(folder), 100, shuffle=True)

    plain, asked = loader(), loader()
    next(iter(plain)), next(iter(asked))
    asked.report()
    assert [f["id"].tolist() for f, _ in asked] == [f["id"].tolist() for f, _ in plain]


def test_the_same_pictures_as_png(folder, tmp_path):
    pytest.importorskip("matplotlib")
    loader = open_loader(rowmill.Dataset(folder), 50)
    list(loader)
    report = of_loader(loader, trained=False)
    paths = report.write_png(tmp_path)
    assert [p.name[:2] for p in paths] == [f"{i:02d}" for i in range(1, len(list(report.pictures())) + 1)]
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in paths)
    titles = [picture.title for picture in report.pictures()]
    assert {"Distinct values", "Row groups", "Where time went", "Rows per second", "cat_a"} <= set(titles)
    for title in titles[:-6]:
        assert f'aria-label="{title}"' in report.html()


def test_png_without_matplotlib_names_the_extra(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report = of_loader(open_loader(rowmill.Dataset(folder), 50))
    with pytest.raises(MissingExtraError, match=r"rowmill\[demo\]"):
        report.write_png(tmp_path)


def test_a_loader_that_has_not_run_says_so(folder):
    report = Loader(rowmill.Dataset(folder), 50).report()
    assert report.verdict[0].startswith("No run yet") and list(report.pictures())


def test_jax_loaders_report_too(folder):
    jax = pytest.importorskip("rowmill.loader.jax")
    loader = jax.Loader(rowmill.Dataset(folder), 64, columns=["cat_a", "label"])
    list(loader)
    assert loader.report().run.rows == 1003


def test_a_timeline_stays_short_and_even():
    stats = Stats()
    for _ in range(10_000):
        stats.count(7, 0)
    line = stats.report().timeline
    assert MOMENTS / 2 - 1 <= len(line) < MOMENTS
    steps = {after.rows - before.rows for before, after in itertools.pairwise(line)}
    assert len(steps) == 1 and line[-1].rows <= 70_000
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(line))


def test_the_timeline_shows_the_queue(folder):
    loader = Loader(rowmill.Dataset(folder), 20, shuffle=True, memory="100KB")
    for _ in loader:
        time.sleep(0.001)
    line = loader.stats().timeline
    assert line[-1].rows == 1003 and len(line) == 51 and max(moment.ready_rows for moment in line) > 0


def run_of(seconds, waited, cpu):
    figures = {"padding_rows": 0, "read_seconds": 0.0, "pack_seconds": 0.0, "room_seconds": 0.0, "ready_rows": 0}
    return RunReport(
        seconds=seconds, rows=100, batches=2, rows_per_second=100 / seconds, bytes_per_second=0.0, waited=waited,
        cpu_seconds=cpu, cores=2, threads=2, **figures,
    )  # fmt: skip


@pytest.mark.parametrize("trained", [True, False])
def test_a_run_that_is_too_short_is_not_judged(folder, trained):
    table = of_dataset(rowmill.Dataset(folder)).table
    for cpu in (0.1, 0.5):
        short = Report(table, run=run_of(0.3, 0.2, cpu), trained=trained).verdict
        assert "too short to judge" in " ".join(short) and "storage" not in " ".join(short)
    long = Report(table, run=run_of(3.0, 2.0, 1.0), trained=trained).verdict
    assert "storage" in " ".join(long) and "too short" not in " ".join(long)
    page = Report(table, run=run_of(0.3, 0.2, 0.1), trained=trained).html()
    assert "too short to judge" in page and "by storage" not in page


def test_a_short_run_that_hardly_waited_is_judged(folder):
    table = of_dataset(rowmill.Dataset(folder)).table
    assert Report(table, run=run_of(0.3, 0.0, 0.1)).verdict[0] == "Model-bound"  # starting makes a loop wait more


def test_several_epochs_are_one_run():
    first = replace(run_of(1.0, 0.5, 0.5), timeline=(Moment(0.5, 50, 0.2, 5), Moment(1.0, 100, 0.5, 0)))
    whole = joined([first, first, first])
    assert (whole.seconds, whole.rows, whole.batches, whole.waited, whole.cores) == (3.0, 300, 6, 1.5, 2)
    assert whole.rows_per_second == pytest.approx(100)
    assert [(m.seconds, m.rows) for m in whole.timeline] == [(k / 2, 50 * k) for k in range(1, 7)]
    many = joined([first] * 1000)
    assert len(many.timeline) <= MOMENTS and many.timeline[-1].rows == 100_000
