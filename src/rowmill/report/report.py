"""A report: the figures of a table, its plan and a run in, a page, pictures or JSON out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowmill.dataset import Dataset
from rowmill.errors import writing
from rowmill.feed.report.run_stats import RunReport
from rowmill.feed.report.verdict import SHORT, limit_text
from rowmill.report import page, pictures, png
from rowmill.report.facts import TableFacts
from rowmill.report.table import SAMPLE_ROWS, measure_table
from rowmill.sources.files.paths import local_path

if TYPE_CHECKING:
    from rowmill.feed.report.plan_report import PlanReport
    from rowmill.loader._base.loader import Streamed


@dataclass(frozen=True)
class Report:
    """What is known of a table and of loading it. A notebook shows it as the page that `write` writes.

    `trained`: whether the run was somebody's training, and not a run that only loads.
    """

    table: TableFacts
    plan: PlanReport | None = None
    run: RunReport | None = None
    trained: bool = True
    made: str = ""

    @property
    def verdict(self) -> tuple[str, ...]:
        """What limits loading, in a headline and some sentences."""
        run = self.run
        if run is None or not run.batches:
            return ("No run yet: this is what the files say", "Iterate over a loader, then ask it for report().")
        short = run.seconds < SHORT and (not self.trained or run.bound != "model")  # starting makes a loop wait more
        if self.trained and short:
            return (
                "The run was too short to judge what limits it",
                f"It took {run.seconds:.2f} s, and starting is a large part of that. Train for at least {SHORT:.0f} s, "
                f"then ask again.",
            )
        if self.trained:
            headline, _, rest = run.verdict.partition(": ")
            return (f"{headline[:1].upper()}{headline[1:]}", f"{rest[:1].upper()}{rest[1:]}.")
        limit = limit_text(run.bound, run.cores)
        if short:
            limit = f"{run.seconds:.2f} s were too short to judge why not more"
        return (
            f"This machine loads {pictures.count(run.rows_per_second)} rows a second; {limit}",
            f"Nothing was trained: this is the most a model could be fed. One that takes fewer than "
            f"{run.rows_per_second:,.0f} rows a second, and leaves the cores to the loader, does not wait for data.",
        )

    def html(self) -> str:
        return page.build(self)

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the page; returns where."""
        target = local_path(path, "path")
        html = self.html()
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(html, "utf-8")
        return target

    def pictures(self) -> Iterator[pictures.Picture]:
        """All pictures of the page, and each column's distribution."""
        yield from pictures.of_table(self.table)
        yield from pictures.of_plan(self.table, self.plan)
        yield from pictures.of_run(self.run)
        for column in self.table.columns:
            if (picture := pictures.of_column(column)) is not None:
                yield picture

    def write_png(self, folder: str | PathLike[str]) -> list[Path]:
        """Write the pictures as PNG files in a folder, numbered in the page's order. Needs matplotlib."""
        target = local_path(folder, "folder")
        with writing(target):
            target.mkdir(parents=True, exist_ok=True)
        paths = []
        for number, picture in enumerate(self.pictures(), 1):
            name = re.sub(r"[^a-z0-9]+", "-", picture.title.lower()).strip("-")[:40]
            paths.append(target / f"{number:02d}-{name or 'column'}.png")
            with writing(paths[-1]):
                png.save(picture, paths[-1])
        return paths

    def to_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        plan, run = self.plan, self.run
        return {
            "made": self.made,
            "verdict": list(self.verdict),
            "table": self.table.to_dict(),
            "plan": None if plan is None else asdict(plan),
            "run": None if run is None else {**asdict(run), "bound": run.bound},
        }

    def _repr_html_(self) -> str:
        source = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{source}" style="width:100%;height:720px;border:0" title="Rowmill report"></iframe>'


def of_dataset(dataset: Dataset, path: str = "", *, sample: int = SAMPLE_ROWS, progress: bool | None = None) -> Report:
    """The report on a table alone."""
    return Report(measure_table(dataset, path, sample=sample, progress=progress), made=_now())


def of_loader(
    loader: Streamed,
    path: str | PathLike[str] | None = None,
    *,
    column: str | None = None,
    trained: bool = True,
    sample: int = SAMPLE_ROWS,
    progress: bool | None = None,
    place: str | None = None,
    run: RunReport | None = None,
) -> Report:
    """The report on a loader: its table, its next epoch and its latest iteration; written to `path` if there is one.

    `place`: what the table is called on the page; by default where its files are. `run`: another run than the latest.
    """
    table = loader.dataset
    dataset = table if isinstance(table, Dataset) else Dataset(table.source, schema=table.schema)
    facts = measure_table(dataset, _place(dataset) if place is None else place, sample=sample, progress=progress)
    report = Report(facts, loader.plan(column), run or loader.stats(), trained, _now())
    if path is not None:
        report.write(path)
    return report


def _place(dataset: Dataset) -> str:
    """Where the files of a dataset are, as far as that can be said."""
    files = getattr(dataset.source, "files", None)
    if files is None:
        return ""
    return str(files.root or (files.paths[0] if len(files.paths) == 1 else Path(files.paths[0]).parent))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
