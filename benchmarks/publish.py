"""Puts results between two markers: five rows into the README, all into docs/benchmarks.md; and draws the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plot
from journal import newest
from summary import figures, varied
from titles import TITLES

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
SCALES = {
    "rows": ("Rows in the table", "rowmill"),
    "files": ("Files (4M rows)", "rowmill"),
    "columns": ("Columns (160M values)", "rowmill"),
    "batches": ("Rows in a batch", "rowmill"),
}
BESIDE = {
    "store": (
        "later", "full", "full filled", "full read back", "take", "plain", "first", "bare-write", "plain as found",
        "first as found", "bare-write as found",
    ),
    "keras_feed": (
        "tensorflow", "tfrecord", "fit rowmill", "fit model only", "fit ready", "fit pydataset", "fit generator",
        "fit tfrecord", "fit sequence",
    ),
    "prepare": ("fit", "fit by hand", "transform", "transform by hand"),
}  # fmt: skip


FIVE = ("ceiling", "rowmill", "perm", "tensordict", "stock-0")  # what the README shows


def publish(
    results: Path,
    *,
    readme: Path = ROOT / "README.md",
    page: Path = ROOT / "docs/benchmarks.md",
    picture: Path = ROOT / "docs/bench.png",
) -> bool:
    """Rewrite what lies between the markers. False, and nothing done, if there are no markers or results."""
    if not newest("race", results) or not all(_has_markers(path) for path in (readme, page)):
        return False
    plot.draw(newest("race", results), picture)
    for path, tables in ((readme, summary(results)), (page, markdown(results))):
        before, _, rest = path.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        link = picture.relative_to(path.parent)
        body = f"![Rows per second and CPU-seconds of each way to make batches]({link})\n\n{tables}"
        path.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}")
    return True


def _has_markers(path: Path) -> bool:
    text = path.read_text() if path.exists() else ""
    return BEGIN in text and END in text


def summary(results: Path) -> str:
    """Five rows of the race, and where it was measured."""
    records = newest("race", results)
    found = figures(records)
    head = f"{records[0].get('table_rows', 0):,} rows of 40 columns, batches of {records[0].get('batch_size', 0):,}"
    lines = [f"| {head} | million rows/s | CPU-seconds per million rows |", "|---|--:|--:|"]
    for name in (name for name in FIVE if name in found):
        speed, cpu = found[name].rows_per_second / 1e6, found[name].cpu_per_million
        lines.append(f"| {_title(name)} | {speed:.2f} | {cpu:.2f} |")
    machine, rounds = records[0]["machine"], 1 + max(record["round"] for record in records)
    where = f"{machine['cores']} cores ({machine['cpu']}, {machine['memory_gb']:.0f} GB); {machine['date'][:10]}"
    return "\n".join([*lines, "", f"Medians of {rounds} interleaved rounds on {where}."])


def _title(name: str) -> str:
    return f"**{TITLES[name]}**" if name.startswith("rowmill") else TITLES[name].replace("tensor[", "tensor\\[")


def markdown(results: Path) -> str:
    """The race as a table, then how the cost scales, then where it was measured."""
    records = newest("race", results)
    found = figures(records)
    stock = found["stock-0"].rows_per_second
    lines = [
        "| | million rows/s | CPU-seconds per million rows | times the stock `DataLoader` |",
        "|---|--:|--:|--:|",
    ]
    for name, figure in sorted(found.items(), key=lambda item: -item[1].rows_per_second):
        speed, cpu = figure.rows_per_second / 1e6, figure.cpu_per_million
        lines.append(f"| {_title(name)} | {speed:.2f} | {cpu:.2f} | {figure.rows_per_second / stock:,.0f} |")
    return "\n".join([*lines, "", *_scales(results), "", *_beside(results), _where(records, results)])


def _scales(results: Path) -> list[str]:
    lines = ["| Rowmill, shuffled | | million rows/s | CPU-seconds per million rows |", "|---|--:|--:|--:|"]
    for question, (title, contestant) in SCALES.items():
        for value, figure in sorted(varied(newest(question, results), contestant).items()):
            speed, cpu = figure.rows_per_second / 1e6, figure.cpu_per_million
            lines.append(f"| {title} | {value:,} | {speed:.2f} | {cpu:.2f} |")
            title = ""
    return lines


def _beside(results: Path) -> list[str]:
    """Later epochs, Keras, and preparing features, each beside its peers of the same run."""
    lines, dates = [], set()
    for question, names in BESIDE.items():
        records = newest(question, results)
        dates |= {record["machine"]["date"][:10] for record in records}
        found = figures(records)
        for name in (name for name in names if name in found):
            speed, cpu = found[name].rows_per_second / 1e6, found[name].cpu_per_million
            lines.append(f"| {TITLES[name]} | {speed:.2f} | {cpu:.2f} |")
    title = f"From a store, into Keras, and features ({', '.join(sorted(dates))})"
    head = [f"| {title} | million rows/s | CPU-seconds per million rows |", "|---|--:|--:|"]
    return [*head, *lines, ""] if lines else []


def _where(records: list[dict[str, Any]], results: Path) -> str:
    machine = records[0]["machine"]
    asked = [records, *(newest(question, results) for question in (*SCALES, *BESIDE))]
    rounds = sorted({1 + max(record["round"] for record in found) for found in asked if found})
    count = f"{rounds[0]} to {rounds[-1]}" if len(rounds) > 1 else rounds[0]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    return (
        f"Medians of {count} interleaved rounds on {machine['cores']} cores ({machine['cpu']}, "
        f"{machine['memory_gb']:.0f} GB), Python {machine['python']}, {versions}; {machine['date'][:10]}. "
        "Shuffled unless said otherwise; data in the page cache or in RAM. `make bench` repeats it."
    )
