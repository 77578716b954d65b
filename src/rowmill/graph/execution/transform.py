"""A graph that has learnt what it had to, ready to run: frames in the table's columns in, the wanted columns out."""

from __future__ import annotations

import io
import threading

import polars as pl

from rowmill.errors import ColumnError
from rowmill.graph.execution.failures import typed
from rowmill.graph.execution.program import Program, compile_outputs
from rowmill.graph.node import Select
from rowmill.graph.resolve import Resolved
from rowmill.schema import Schema
from rowmill.sources.names import frame_of
from rowmill.sources.types import column_schema, frame_type, leaf_type


class Transformation:
    """Programs for a resolved graph, compiled when first asked for. Never changes: a lazy dataset may hold on to it."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        selected = {
            n for node in resolved.nodes if isinstance(node, Select) for n in resolved.schema(node).column_names
        }
        self.input_schema = Schema(column for column in resolved.root if column.name in selected)
        self._steps: dict[tuple[tuple[str, ...], bool], TransformStep] = {}
        self._lock = threading.Lock()

    @property
    def output_schema(self) -> Schema:
        return self.resolved.output_schema

    def step(self, columns: tuple[str, ...] | None = None, *, training: bool = False) -> TransformStep:
        """What makes these columns, or all. `training`: the rows are those that the operators have learnt from."""
        wanted = tuple(self.output_schema.column_names) if columns is None else columns
        with self._lock:
            if (wanted, training) not in self._steps:
                with typed("preparing the workflow"):
                    program = compile_outputs(self.resolved, wanted, training=training)
                self._steps[wanted, training] = TransformStep(program, self.input_schema)
            return self._steps[wanted, training]

    def __getstate__(self) -> Resolved:
        return self.resolved

    def __setstate__(self, resolved: Resolved) -> None:
        self.__init__(resolved)  # type: ignore[misc]


class TransformStep:
    """A program for some columns, on frames in the types that the workflow was fitted with."""

    def __init__(self, program: Program, schema: Schema) -> None:
        self.program = program
        self.inputs = program.inputs
        with typed("reading the types of the columns"):
            self._dtypes = {name: frame_type(schema[name]) for name in program.inputs}

    def run(self, frame: pl.DataFrame, start: int = 0) -> pl.DataFrame:
        """The columns made of a frame whose first row has the number `start` in its table."""
        return self.program.run(self._fitting(frame), start)

    def _fitting(self, frame: pl.DataFrame) -> pl.DataFrame:
        found = frame.schema
        for name in self.inputs:
            if name not in found:
                raise missing(name, frame.columns)
        strange = {name: dtype for name, dtype in self._dtypes.items() if found[name] != dtype}
        if not strange:
            return frame
        return frame_of(_cast(frame.get_column(name), dtype) for name, dtype in self._dtypes.items())


def _cast(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The column in the type it was fitted in, with the same values. A float is rounded to one of less precision."""
    name, column = column.name, column.alias("values")
    if column.dtype.is_float() and not _leaf(dtype).is_float():
        column = column.fill_nan(None)  # what pandas makes of a missing value
    if column.dtype.is_numeric() and isinstance(dtype, pl.Date | pl.Datetime) and column.null_count() < len(column):
        raise ColumnError(
            f"column {name!r} has {column.drop_nulls()[0]}, and was {column_schema(name, dtype).dtype} when the "
            f"workflow was fitted; write it like '2024-05-06T07:08:09' (or '2024-05-06' for a date), or pass a datetime"
        )
    try:
        made = _parsed(column, dtype) if column.dtype == pl.String and dtype.is_temporal() else column.cast(dtype)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if column.dtype == pl.String and dtype.is_temporal():
            raise _unreadable_time(name, column, dtype) from error
        raise ColumnError(
            f"column {name!r} is {column.dtype}, and was {dtype} when the workflow was fitted; {error}"
        ) from error
    if _leaf(column.dtype).is_float() and _leaf(dtype).is_integer():
        cut = column.explode() if isinstance(column.dtype, pl.List | pl.Array) else column
        fractions = cut.filter(cut != cut.round())
        if len(fractions):
            raise ColumnError(
                f"column {name!r} has {fractions[0]}, and was {column_schema(name, dtype).dtype} when "
                f"the workflow was fitted; round it, or fit the workflow on floats"
            )
    return made.alias(name)


def _parsed(texts: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Dates and times from text, as they come in JSON, read as they would be from a CSV file."""
    if not isinstance(dtype, pl.Datetime | pl.Date):
        return texts.cast(dtype)
    there = texts.is_not_null()
    written = texts.filter(there).to_frame("values").write_csv(quote_style="always").encode()
    read = pl.read_csv(io.BytesIO(written), schema={"values": dtype}).to_series()
    if len(read) == len(texts):
        return read
    return pl.repeat(None, len(texts), dtype=dtype, eager=True).scatter(there.arg_true(), read)


def _unreadable_time(name: str, texts: pl.Series, dtype: pl.DataType) -> ColumnError:
    def fails(text: str) -> bool:
        try:
            return _parsed(pl.Series("values", [text]), dtype).null_count() > 0
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return True

    strange = next((text for text in texts.drop_nulls().unique(maintain_order=True).head(1_000) if fails(text)), "...")
    return ColumnError(
        f"column {name!r} has {strange!r}, and was {column_schema(name, dtype).dtype} when the workflow was fitted; "
        f"write it like '2024-05-06T07:08:09' (or '2024-05-06' for a date), or pass a datetime"
    )


def _leaf(dtype: pl.DataType) -> pl.DataType:
    return leaf_type(dtype) if isinstance(dtype, pl.List | pl.Array) else dtype


def missing(name: str, columns: list[str]) -> ColumnError:
    """The error for a column that is needed and not there."""
    return ColumnError(
        f"no column {name!r} among {columns}, and the workflow needs it; add it, or leave out what is made of it with "
        f"workflow.remove_inputs([{name!r}])"
    )
