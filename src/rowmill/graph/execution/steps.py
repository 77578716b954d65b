"""The steps of a program: queries that Polars runs, functions that run between them, and changes of rows.

A step takes a frame and gives a frame. Python functions run on the calling thread with finished columns, so Polars'
threads never need the GIL, and an interrupt or an error of a function comes out as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from rowmill.errors import ArgumentError
from rowmill.graph.execution.failures import typed
from rowmill.graph.operator import Call, Inputs, Operator
from rowmill.sources.names import safe

FEW = 1024  # rows for which handing columns to other threads takes longer than the work


@dataclass(frozen=True)
class ColumnStep:
    """A step that adds columns to the frame."""

    exprs: Mapping[str, pl.Expr]

    def run(self, frame: pl.DataFrame) -> pl.DataFrame:
        add = frame.with_columns_seq if frame.height <= FEW else frame.with_columns
        return add(expr.alias(name) for name, expr in self.exprs.items())

    @property
    def makes(self) -> Iterable[str]:
        return self.exprs

    @property
    def reads(self) -> set[str]:
        return roots(self.exprs.values())

    def only(self, wanted: set[str]) -> ColumnStep:
        return ColumnStep({name: expr for name, expr in self.exprs.items() if name in wanted})


@dataclass(frozen=True)
class CallStep:
    """A step that adds the columns that Python functions make."""

    calls: Mapping[str, Call]

    def run(self, frame: pl.DataFrame) -> pl.DataFrame:
        given = frame
        if self._computed:
            select = frame.select_seq if frame.height <= FEW else frame.select
            given = select(self._computed).hstack([c for c in frame.get_columns() if c.name in self._taken])
        made = []
        for name, call in self.calls.items():
            columns = [given.get_column(place).alias(safe(key)) for key, place in self._places[name].items()]
            with nullcontext() if call.users else typed(call.label):
                column = call.function(columns).alias(name)
            if len(column) != frame.height:
                raise ArgumentError(
                    f"{call.label} gave {len(column)} values for {frame.height} rows; return one value for each row"
                )
            made.append(column)
        return frame.hstack(made)

    @cached_property
    def _places(self) -> dict[str, dict[str, str]]:
        """For each call, the column that each of its inputs is in: one of the frame, or one that is computed first."""
        return {
            name: {
                key: expr.meta.output_name() if expr.meta.is_column() else f"__input_{number}__{key}"
                for key, expr in call.inputs.items()
            }
            for number, (name, call) in enumerate(self.calls.items())
        }

    @cached_property
    def _computed(self) -> list[pl.Expr]:
        return [
            expr.alias(self._places[name][key])
            for name, call in self.calls.items()
            for key, expr in call.inputs.items()
            if not expr.meta.is_column()
        ]

    @cached_property
    def _taken(self) -> set[str]:
        return {place for places in self._places.values() for place in places.values()}

    @property
    def makes(self) -> Iterable[str]:
        return self.calls

    @property
    def reads(self) -> set[str]:
        return roots(expr for call in self.calls.values() for expr in call.inputs.values())

    def only(self, wanted: set[str]) -> CallStep:
        return CallStep({name: call for name, call in self.calls.items() if name in wanted})


@dataclass(frozen=True)
class RowStep:
    """A step that changes which rows there are, by an operator on some columns; new columns get a prefix."""

    operator: Operator
    inputs: Inputs
    taken: Mapping[str, pl.Expr]
    prefix: str

    def run(self, frame: pl.DataFrame) -> pl.DataFrame:
        given = frame.select(expr.alias(name) for name, expr in self.taken.items())
        with nullcontext() if self.operator.users else typed(self.operator.label):
            change = self.operator.change(given, self.inputs)
        made = change.columns.rename(lambda name: self.prefix + name)
        if change.rows is None:
            return made
        kept = frame[change.rows]
        return kept.hstack(made.get_columns()) if made.width else kept

    @property
    def reads(self) -> set[str]:
        return roots(self.taken.values())


Step = ColumnStep | CallStep | RowStep


def roots(exprs: Iterable[pl.Expr]) -> set[str]:
    """The columns that expressions read. Frames of a program have no column whose name is a pattern."""
    return {name for expr in exprs for name in expr.meta.root_names()}


def used(steps: Iterable[Step], wanted: set[str]) -> tuple[tuple[Step, ...], set[str]]:
    """The steps that the wanted columns need, and the columns of the table that these need."""
    kept: list[Step] = []
    for step in reversed(list(steps)):
        if not isinstance(step, RowStep):
            step = step.only(wanted)
            if not list(step.makes):
                continue
            wanted = wanted - set(step.makes)
        kept.append(step)
        wanted = wanted | step.reads
    return tuple(reversed(kept)), wanted
