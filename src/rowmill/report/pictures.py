"""What is worth a picture: the figures of a report in, pictures as plain data out. `svg` and `png` draw them alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rowmill._system.display import plural
from rowmill.feed.report.run_stats import Moment, RunReport
from rowmill.feed.report.text_table import bytes_text
from rowmill.report.facts import ColumnFacts, TableFacts

if TYPE_CHECKING:
    from rowmill.feed.report.plan_report import PlanReport

MOST_BARS = 16  # of the columns of a wide table; the table beside the picture has them all
STRETCHES = 40  # of time in a picture of a run
MOST_GROUPS = 120  # columns of a picture; more row groups are shown as means of neighbours


@dataclass(frozen=True)
class Bars:
    """Named bars from left to right, longest where the value is largest; `texts` stand beside them."""

    title: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    texts: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Histogram:
    """Upright columns side by side, with a text at the left and right end of their axis."""

    title: str
    values: tuple[float, ...]
    left: str
    right: str
    top: str
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A quantity over time."""

    title: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    right: str
    top: str
    note: str = ""


Picture = Bars | Histogram | Line


def of_table(facts: TableFacts) -> Iterator[Picture]:
    """Nulls, cardinalities and skew, where there is something to see; then each column's distribution by itself."""
    columns = [c for c in facts.columns if c.kind != "none"]
    found = "in all rows" if facts.exact else f"in {facts.sampled_rows:,} sampled rows"
    if any(c.nulls for c in facts.columns):
        yield _ranked("Nulls", [(c.name, c.nulls, f"{c.nulls:.1%}") for c in facts.columns if c.nulls], found)
    if columns:
        distinct = [(c.name, float(c.distinct), count(c.distinct)) for c in columns]
        yield _ranked("Distinct values", distinct, found)
        tops = [(c.name, c.top_share, f"{c.top_share:.1%}") for c in columns]
        yield _ranked("Share of the commonest value", tops, f"of values that are not null, {found}")


def of_column(column: ColumnFacts) -> Histogram | None:
    """The distribution of one column."""
    if column.kind == "none":
        return None
    top = f"{100 * max(column.shape) / max(1, sum(column.shape)):.0f}%"
    values = tuple(float(n) for n in column.shape)
    if column.kind != "values":
        note = "in logarithmic steps" if column.kind == "logarithms" else ""
        return Histogram(column.name, values, f"{column.low:.4g}", f"{column.high:.4g}", top, note)
    return Histogram(column.name, values, column.names[0], "", top, note=f"the {len(values)} commonest")


def of_plan(facts: TableFacts, plan: PlanReport | None) -> Iterator[Picture]:
    """How large row groups are along the table, and how well an epoch mixes them."""
    sizes = _means([rows * facts.row_bytes for rows in facts.fragment_rows], MOST_GROUPS)
    if sizes:
        groups = plural(len(facts.fragment_rows), "row group")
        note = f"{groups} in table order, decoded; the tallest {bytes_text(max(sizes))}"
        yield Histogram("Row groups", sizes, "first", "last", bytes_text(max(sizes)), note)
    if plan is None:
        return
    labels, values = ["batch mixing", "order in batches"], [plan.batch_mixing, plan.order_in_batch]
    if plan.mixing is not None:
        ratio = plan.mixing.ratio
        labels.append(f"means of {plan.mixing.column}")
        values.append(min(1.0, 1 / ratio if ratio else 1.0))
    note = "100% is a perfect shuffle: batches drawn from the whole table, their rows in random order"
    yield Bars("Shuffle quality", tuple(labels), tuple(values), tuple(f"{value:.0%}" for value in values), note)


def of_run(run: RunReport | None) -> Iterator[Picture]:
    """Where the time went, and how rows, waiting and the queue went on over time."""
    if run is None or not run.batches:
        return
    stages = (
        ("waiting for data", run.waited),
        ("reading", run.read_seconds),
        ("packing", run.pack_seconds),
        ("held up", run.room_seconds),
    )
    note = f"of {run.seconds:.2f} s in all; reading, packing and held up: {plural(run.threads, 'thread')} together"
    yield Bars("Where time went", *_unzip([(name, s, f"{s:.2f} s") for name, s in stages]), note)
    if len(run.timeline) > 2:
        yield from _over_time(run.timeline)


def _over_time(timeline: Sequence[Moment]) -> Iterator[Picture]:
    """Rates in stretches of equal length: batches come in bursts, whose own rates say nothing."""
    moments = [Moment(0.0, 0, 0.0, 0), *timeline]
    seconds = [m.seconds for m in moments]
    times = np.linspace(0, seconds[-1], min(STRETCHES, len(timeline)) + 1)
    step, middle, right = times[1], tuple(((times[1:] + times[:-1]) / 2).tolist()), f"{seconds[-1]:.2g} s"
    rates = np.diff(np.interp(times, seconds, [m.rows for m in moments])) / step
    note = f"means of {step:.2g} s; rows come chunk by chunk"
    yield Line("Rows per second", middle, tuple(rates.tolist()), right, count(max(rates)), note)
    waits = np.clip(np.diff(np.interp(times, seconds, [m.waited for m in moments])) / step, 0, 1)
    yield Line("Share of time spent waiting", middle, tuple(waits.tolist()), right, f"{max(waits):.0%}")
    ready = np.interp(middle, seconds, [m.ready_rows for m in moments])
    note = (
        "packed ahead of the chunk that is handed out"
        if max(ready)
        else "none: each chunk was taken once it was packed"
    )
    yield Line("Rows ready in the queue", middle, tuple(ready.tolist()), right, count(max(ready)), note)


def count(number: float) -> str:
    """`1.2M`: a count that fits beside a bar."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if number >= size:
            return f"{number / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{number:,.0f}"


def _ranked(title: str, rows: Sequence[tuple[str, float, str]], note: str) -> Bars:
    ranked = sorted(rows, key=lambda row: -row[1])[:MOST_BARS]
    more = f"; the first {MOST_BARS} of {len(rows)}" if len(rows) > MOST_BARS else ""
    return Bars(title, *_unzip(ranked), note + more)


def _unzip(rows: Sequence[tuple[str, float, str]]) -> tuple[tuple[str, ...], tuple[float, ...], tuple[str, ...]]:
    return tuple(r[0] for r in rows), tuple(r[1] for r in rows), tuple(r[2] for r in rows)


def _means(values: Sequence[float], most: int) -> tuple[float, ...]:
    if len(values) <= most:
        return tuple(values)
    edges = [len(values) * i // most for i in range(most + 1)]
    return tuple(sum(values[a:b]) / (b - a) for a, b in pairwise(edges))
