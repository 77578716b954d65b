"""Which rows of the table make up a batch: a plan, an epoch and a step in; file, row group and row of each row out.

Follows from the plan alone: no value is read, but for the column of `weights=` or `balance=`, without which there is no
plan. Called by `run.stream`, for `loader.rows(step)`, and by the command `which`, which has a saved state only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError, StateError
from rowmill.feed.order import permute, resume_state
from rowmill.feed.order.plan import Plan
from rowmill.feed.order.weighted_sampling import Draw
from rowmill.feed.run.planner import GATHERED_ROWS
from rowmill.sources.locate import PLACE, Rows, locate, locate_parts, stored_table
from rowmill.sources.source import Fragment, Source, fit_fragments


def locate_batch(
    source: Source,
    fragments: Sequence[Fragment],
    draw: Draw | None,
    plan: Plan,
    epoch: int,
    step: int,
    threads: int = 1,
) -> pl.DataFrame:
    """One row for each row of a batch, in its order: `file`, `row_group`, and `row` within the row group.

    Padding rows are nulls.
    """
    if not 0 <= step < plan.steps:
        raise ArgumentError(f"step {step} of an epoch of {plan.steps} steps; the first is step 0")
    if epoch < 0:
        raise ArgumentError(f"epoch is {epoch}; the first is epoch 0")
    chunk = next(plan.chunks(epoch, step))
    places, first = chunk.places(), (step - chunk.first_batch) * chunk.batch_rows
    size = min(first + chunk.batch_rows, chunk.rows + chunk.padding) - first
    within = np.flatnonzero((places >= first) & (places < first + size))
    ordered = within[np.argsort(places[within])].astype(np.int64)
    begins = np.array([span.at for span in chunk.spans], np.int64)
    spans = np.searchsorted(begins, ordered, "right") - 1

    def of_span(number: int, rows: Rows) -> pl.DataFrame:
        span = chunk.spans[number]
        rows = span.start + rows - span.at
        if plan.full:
            return _of_table(source, fragments, _fully_shuffled(plan, epoch, span.fragment, rows))
        if draw is None:
            fragment = fragments[span.fragment]
        else:
            drawn = draw.drawn(fragments, plan.seed, epoch, threads)[span.fragment]
            fragment, rows = drawn.fragment, draw.row_numbers(drawn)[rows]
        return locate(source, fragment.unit, fragment.start + rows)

    found = locate_parts(spans, of_span, ordered)
    padding = pl.DataFrame({name: [None] * (size - len(ordered)) for name in PLACE}, schema=PLACE)
    return pl.concat([found, padding])


def locate_saved_step(
    source: Source,
    state: Mapping[str, Any],
    step: int,
    epoch: int | None = None,
    rank: int = 0,
    ranks: int | None = None,
) -> pl.DataFrame:
    """What `locate_batch` gives, by a state that a loader of this table has saved. `ranks` is for elastic loaders,
    whose states do not hold the number of ranks."""
    reading = state.get("reading") if isinstance(state, Mapping) else None
    if not isinstance(reading, Mapping):
        raise StateError("found no state of a Rowmill loader that tells how it read; wanted what state_dict() returned")
    source = stored_table(source)
    if reading.get("table") != source.fingerprint():
        raise StateError("this state is of other data; open the files that it was saved with, as they were")
    draw = _draw(source, reading.get("drawn_by"))
    fragments = fit_fragments(source.fragments, _whole(reading, "fragment_rows"))
    batch, epoch = _whole(state, "global_batch"), _whole(state, "epoch", 0) if epoch is None else epoch
    elastic = None if state.get("elastic") is None else _whole(state, "elastic")
    size = _whole(state, "global_size") if elastic is None else ranks or 1
    full, seed = state.get("shuffle") == "full", _whole(state, "seed", -(2**64))
    rows = tuple(fragment.rows for fragment in fragments)
    if full:
        rows = tuple(min(GATHERED_ROWS, sum(rows) - first) for first in range(0, sum(rows), GATHERED_ROWS))
    elif draw is not None:
        rows = tuple(drawn.rows for drawn in draw.drawn(fragments, seed, epoch, 1))
    plan = Plan(
        fragment_rows=rows,
        batch_rows=max(1, batch // size),
        chunk_batches=_whole(state, "chunk_batches"),
        first_batches=_whole(state, "first_batches"),
        shuffle=state.get("shuffle") is True,
        full=full,
        seed=seed,
        last=state.get("last", "short"),
        ranks=size,
        rank=rank,
        lanes=elastic,
    )
    resume_state.load(state, plan, {name: state.get(name, "") for name in ("data", "columns")})
    return locate_batch(source, fragments, draw, plan, epoch, step)


def _whole(state: Mapping[str, Any], field: str, least: int = 1) -> int:
    value = state.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise StateError(f"found {field}={value!r} in a state; wanted what state_dict() returned")
    return value


def _draw(source: Source, drawn_by: Any) -> Draw | None:
    if drawn_by is None:
        return None
    kind, _, column = str(drawn_by).partition("=")
    if kind not in ("weights", "balance") or column == "function":
        raise StateError(
            "the rows were drawn by a function, which a state does not hold; ask the loader: loader.rows(step)"
        )
    return Draw(source, column if kind == "weights" else None, column if kind == "balance" else None)


def _fully_shuffled(plan: Plan, epoch: int, gathered: int, rows: Rows) -> Rows:
    """The numbers in the table of rows of a part that is gathered at once."""
    start, total = gathered * GATHERED_ROWS, plan.total_rows
    key = permute.key(plan.seed, epoch, 0)
    return permute.permuted_rows(start, min(GATHERED_ROWS, total - start), total, key)[rows]


def _of_table(source: Source, fragments: Sequence[Fragment], rows: Rows) -> pl.DataFrame:
    """Rows by their number in the whole table."""
    begins = np.cumsum([0, *(fragment.rows for fragment in fragments)])
    numbers = np.searchsorted(begins, rows, "right") - 1

    def of_fragment(number: int, found: Rows) -> pl.DataFrame:
        return locate(source, fragments[number].unit, fragments[number].start + found)

    return locate_parts(numbers, of_fragment, rows - begins[numbers])
