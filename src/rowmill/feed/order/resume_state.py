"""The resume state: what `state_dict` saves, and the check that it belongs to this data and these settings.

Comes in: a plan and a position. Goes out: a JSON-ready dict of less than 1 KB, whatever the size of the table. The
position counts batches that were handed out, never those that were prefetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from rowmill.errors import StateError
from rowmill.feed.order import permute
from rowmill.feed.order.plan import Plan

VERSION = 3


@dataclass
class Position:
    """Where an iteration stands: its epoch, and how many of that epoch's batches have been handed out."""

    epoch: int = 0
    batch: int = 0


def save(plan: Plan, position: Position, data: Mapping[str, str], reading: Mapping[str, Any]) -> dict[str, Any]:
    """The state: position, order and data. `data` identifies the files and the columns (see `Source.fingerprint`).

    `reading` is what else is needed to tell which rows a step has, without the loader; it is not compared.
    """
    at = {"epoch": position.epoch, "batch": position.batch}
    return {"version": VERSION, **at, **_order(plan, data), "reading": dict(reading)}


def load(state: Mapping[str, Any], plan: Plan, data: Mapping[str, str]) -> Position:
    """The position that a state holds, if the rest of it says the same as this plan and these data."""
    if not isinstance(state, Mapping) or "version" not in state:
        raise StateError("found no state of a Rowmill loader; wanted what its state_dict() returned")
    if state["version"] != VERSION:
        raise StateError(f"found a state of version {state['version']}; this release reads version {VERSION}")
    for field, wanted in _order(plan, data).items():
        if state.get(field) != wanted:
            raise StateError(
                f"this state is for another run: its {field} is {state.get(field)!r}, this loader's is {wanted!r}; "
                f"{_ADVICE.get(field, 'make the loader with the same settings, or start a new epoch')}"
            )
    epoch, batch = state.get("epoch"), state.get("batch")
    if not isinstance(epoch, int) or not isinstance(batch, int) or epoch < 0 or not 0 <= batch <= plan.steps:
        raise StateError(f"epoch {epoch!r}, batch {batch!r} is no position in epochs of {plan.steps} batches")
    return Position(epoch, batch)


def next_epoch(state: Mapping[str, Any]) -> Position:
    """Where an epoch over more rows begins, after the one that a state is of, which must be complete."""
    if not isinstance(state, Mapping) or state.get("version") != VERSION:
        raise StateError(f"found no state of version {VERSION} of a Rowmill loader; wanted what state_dict() returned")
    fields = [state.get(name) for name in ("epoch", "batch", "rows", "global_batch")]
    if not all(isinstance(value, int) and value >= 0 for value in fields) or not fields[3]:
        raise StateError("found a state without epoch, batch or rows; wanted what state_dict() of a loader returned")
    epoch, batch, rows, global_batch = cast("list[int]", fields)
    steps = rows // global_batch if state.get("last") == "drop" else -(-rows // global_batch)
    if 0 < batch < steps:
        raise StateError(
            f"this state stands at batch {batch} of {steps} of its epoch, whose other rows would be left out; finish "
            f"the epoch on the data that the state was saved with, then extend"
        )
    return Position(epoch + (batch > 0))


def check_version(state: Mapping[str, Any], version: str | None) -> None:
    """Refuse a state of another version of a table, with words that say so."""
    reading = state.get("reading") if isinstance(state, Mapping) else None
    saved = reading.get("version") if isinstance(reading, Mapping) else None
    if saved != version and saved is not None:
        raise StateError(
            f"this state is of {saved}, and this loader reads {version or 'a table without versions'}; open the "
            f"version that the state was saved with, or train on the rows added since: Dataset(..., since=state), and "
            f"load_state_dict(state, extend=True)"
        )


def _order(plan: Plan, data: Mapping[str, str]) -> dict[str, Any]:
    """What decides the order: first what others follow from. Ranks of an elastic plan do not: any number that divides
    its lanes gives the same. Nor does the rank itself: all ranks take equal steps, so the position of one is that of
    all, and a checkpoint that rank 0 has written serves every rank."""
    ranks = {} if plan.lanes else {"global_size": plan.ranks}
    return {
        "order": permute.VERSION,
        "shuffle": "full" if plan.full else plan.shuffle,
        "rows": plan.total_rows,
        **data,
        "fragments": len(plan.fragment_rows),
        "seed": plan.seed,
        "last": plan.last,
        "global_batch": plan.batch_rows * plan.ranks,
        "elastic": plan.lanes,
        **ranks,
        "chunk_batches": plan.chunk_batches,
        "first_batches": plan.first_batches,
    }


_ADVICE = {
    "data": "the files differ, or the workflow does: open the data that the state was saved with",
    "columns": "other columns, dtypes or weights: choose those that the state was saved with",
    "rows": "rows were added or removed: open the data that the state was saved with",
    "fragments": "row groups differ, or memory= does: use the same files and the same memory",
    "chunk_batches": "memory= (or part_size, parts_per_chunk) differs: use the same",
    "first_batches": "memory= or the row groups differ: use the same",
    "global_batch": "batch_size times global_size must stay the same",
    "global_size": "load a state after init_process_group(), and make the loaders with elastic= if the number of ranks "
    "is to change between runs",
    "order": "another release draws another order",
}
