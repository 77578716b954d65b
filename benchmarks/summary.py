"""From readings to figures: the records of a question in, medians out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """The median over the rounds of one contestant under one condition."""

    rows_per_second: float
    cpu_per_million: float
    seconds: float
    rounds: int


def figures(records: Iterable[dict[str, Any]]) -> dict[str, Figure]:
    """By contestant."""
    return {str(name): figure for name, figure in _grouped(records, "contestant").items()}


def varied(records: Iterable[dict[str, Any]], contestant: str) -> dict[int, Figure]:
    """Of one contestant, by what the question varies."""
    chosen = [record for record in records if record["contestant"] == contestant]
    return {int(value): figure for value, figure in _grouped(chosen, "varied").items()}


def spread(values: Iterable[float]) -> float:
    """The largest over the smallest: 1.2 is 20% apart."""
    held = list(values)
    return max(held) / min(held)


def _grouped(records: Iterable[dict[str, Any]], key: str) -> dict[Any, Figure]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record[key], []).append(record)
    return {value: _figure(held) for value, held in groups.items()}


def _figure(records: list[dict[str, Any]]) -> Figure:
    return Figure(
        rows_per_second=median(record["rows"] / record["seconds"] for record in records),
        cpu_per_million=median(1e6 * record["cpu_seconds"] / record["rows"] for record in records),
        seconds=median(record["seconds"] for record in records),
        rounds=len(records),
    )
