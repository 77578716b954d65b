"""Functions and expressions of the user's own: LambdaOp on pandas Series, Expr with Polars."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from rowmill.errors import ArgumentError, ColumnError, MissingExtraError, TransformError
from rowmill.graph.operator import Call, Fitted, Inputs, Operator, Output
from rowmill.graph.saved.expressions import growth, save_expression
from rowmill.schema import ColumnSchema, Schema
from rowmill.sources.frames.frame_source import as_pandas, from_pandas
from rowmill.sources.types import column_schema, frame_type, plain

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LambdaOp(Operator):
    """`f(column)` or `f(column, frame)` for each selected column, with a pandas Series and frame; one value a row.

    Integers and flags beside nulls come in pandas's nullable types (Int64, boolean), so that they stay exact: fill them
    before a cast. The result's type is what `f` gives for an empty column, or `dtype`. `dependency`: columns that the
    frame has besides those selected. `tags` and `properties` are added to the columns. Saved by the name of `f`, which
    is given again when the workflow is loaded.
    """

    needs: ClassVar[str] = "dependency"

    f: Callable[..., Any]
    dependency: Any = None
    label_: str | None = None
    dtype: Any = None
    tags: Sequence[str] | None = None
    properties: dict[str, Any] | None = None

    def __init__(
        self,
        f: Callable[..., Any],
        dependency: Any = None,
        label: str | None = None,
        dtype: Any = None,
        tags: Sequence[str] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        if not callable(f):
            raise ArgumentError(f"LambdaOp was given {f!r}; wanted a function of a column")
        if find_spec("pandas") is None:
            raise MissingExtraError("LambdaOp gives functions a pandas Series; pip install pandas, or use Expr(...)")
        given = {
            "f": f,
            "dependency": dependency,
            "label_": label,
            "dtype": dtype,
            "tags": tags,
            "properties": properties,
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)
        if self._takes not in (1, 2):
            raise ArgumentError(
                f"the function of LambdaOp takes {self._takes} arguments; wanted f(column) or f(column, frame)"
            )

    @property
    def _takes(self) -> int:
        try:
            parameters = inspect.signature(self.f).parameters.values()
        except (TypeError, ValueError):  # some built-in functions have none
            return 1
        return (
            sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
            or 1
        )

    def settings(self) -> dict[str, Any]:
        return {
            "f": self.f,
            "label": self.label_,
            "dtype": self.dtype,
            "tags": self.tags,
            "properties": self.properties,
        }

    @property
    def label(self) -> str:
        name = getattr(self.f, "__name__", "function")
        return self.label_ or ("LambdaOp" if name == "<lambda>" else f"LambdaOp({name})")

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        everything = inputs.schema + inputs.needed
        for column in inputs.schema:
            made = self._described(column, everything)
            names = everything.column_names if self._takes == 2 else [column.name]
            given = {name: inputs[name] for name in names}
            yield Output(made, Call(self._applied(column.name, names, made), given, self.label, users=True))

    def _described(self, column: ColumnSchema, everything: Schema) -> ColumnSchema:
        made = replace(column, properties={}).with_tags(self.tags or ()).with_properties(self.properties or {})
        if self.dtype is not None:
            return made.with_dtype(self.dtype)
        if any(each.dtype == "unknown" for each in everything):
            return made.with_dtype("unknown")
        empty = pl.DataFrame(schema={c.name: frame_type(c) for c in everything})
        try:
            found = column_schema(column.name, plain(self._called(column.name, empty).dtype))
        except Exception as error:
            raise ArgumentError(
                f"{self.label} fails on an empty column: {type(error).__name__}: {error}; mend the function, or say "
                f"what it gives with LambdaOp(f, dtype=...)"
            ) from error
        if found.dtype == "null":
            return made
        kept = {name: value for name, value in made.properties.items() if name != "value_count" or found.is_list}
        return ColumnSchema(made.name, found.dtype, made.tags, kept, is_list=found.is_list, width=found.width)

    def _applied(self, name: str, names: Sequence[str], made: ColumnSchema) -> Callable[[list[pl.Series]], pl.Series]:
        def apply(columns: list[pl.Series]) -> pl.Series:
            frame = pl.DataFrame(dict(zip(names, columns, strict=True)))
            try:
                result = self._called(name, frame)
            except pl.exceptions.PanicException as error:
                raise TransformError(f"{self.label} failed on column {name!r}: {error}") from error
            except Exception as error:
                if len(error.args) == 1 and isinstance(error.args[0], str):
                    error.args = (f"{error.args[0]} (in {self.label}, on column {name!r})",)
                raise
            if len(result) != frame.height:
                raise ArgumentError(
                    f"{self.label} gave {len(result)} values for {frame.height} rows; wanted one for each"
                )
            try:
                return result.cast(frame_type(made))
            except pl.exceptions.PolarsError as error:
                raise ArgumentError(
                    f"{self.label} gave {result.dtype} for column {name!r}, and {made.dtype} was expected; "
                    f"say what it gives with LambdaOp(f, dtype=...)"
                ) from error

        return apply

    def _called(self, name: str, frame: pl.DataFrame) -> pl.Series:
        import pandas as pd

        given = as_pandas(frame)
        result = self.f(given[name], given) if self._takes == 2 else self.f(given[name])
        if isinstance(result, pl.Series):
            return result.alias("values")
        if not isinstance(result, pd.Series):
            result = pd.Series(result)
        return _from_pandas(result.rename("values"))


def _from_pandas(series: pd.Series[Any]) -> pl.Series:
    made = from_pandas(series)
    return made.fill_nan(None) if made.dtype.is_float() else made


@dataclass(frozen=True, eq=False)
class Expr(Operator):
    """Columns by Polars expressions of the selected ones: `["a", "b"] >> Expr((pl.col("a") / pl.col("b")).alias("r"))`.

    A row of the result may depend on that row only. Without an alias a column keeps its name. `keep`: the selected
    columns come out too. Expressions are saved as they are; those that hold Python functions cannot be.
    """

    exprs: tuple[pl.Expr, ...]
    keep: bool = False

    def __init__(self, *exprs: pl.Expr, keep: bool = False, **named: pl.Expr) -> None:
        given = (*exprs, *(expr.alias(name) for name, expr in named.items()))
        for expr in given:
            if not isinstance(expr, pl.Expr):
                raise ArgumentError(f"Expr was given {expr!r}; wanted a Polars expression such as pl.col('a') + 1")
        object.__setattr__(self, "exprs", given)
        object.__setattr__(self, "keep", keep)

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Expr:
        return cls(*settings["exprs"], keep=bool(settings["keep"]))

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        empty = pl.DataFrame(schema={c.name: frame_type(c) for c in inputs.schema})
        made: dict[str, tuple[ColumnSchema, pl.Expr]] = {}
        for expr in self.exprs:
            try:
                found = empty.lazy().select(expr).collect_schema()
            except pl.exceptions.PolarsError as error:
                raise ColumnError(f"Expr cannot be computed: {error}; select the columns that it needs") from error
            for name, dtype in found.items():
                described = column_schema(name, plain(dtype))
                if name in inputs.schema:
                    described = described.with_tags(inputs.schema[name].tags)
                made[name] = described, expr
        kept = {c.name: Output(c, inputs[c.name]) for c in inputs.schema} if self.keep else {}
        given = {name: inputs[name] for name in inputs.schema.column_names}
        for name, (column, expr) in made.items():
            evaluate = _evaluated(expr, name, list(given), frame_type(column))
            kept[name] = Output(column, Call(evaluate, given, self.label))
        return kept.values()

    @property
    def growth(self) -> float:
        return 1.0 + sum(growth(save_expression(expr)) - 1.0 for expr in self.exprs)  # all of them are made


def _evaluated(
    expr: pl.Expr, name: str, names: Sequence[str], dtype: pl.DataType
) -> Callable[[list[pl.Series]], pl.Series]:
    def evaluate(columns: list[pl.Series]) -> pl.Series:
        frame = pl.DataFrame(dict(zip(names, columns, strict=True)))
        made = frame.select(expr).get_column(name).cast(dtype)
        if len(made) != frame.height:
            raise ArgumentError(
                f"the expression for {name!r} gave {len(made)} values for {frame.height} rows; wanted one for each: no "
                f"aggregation, as a workflow sees a table piece by piece"
            )
        return made

    return evaluate
