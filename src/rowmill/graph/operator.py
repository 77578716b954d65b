"""What an operator is: frozen configuration that says which columns it makes of which, and what it has to learn first.

Columns come in as `Inputs`, expressions go out as `Output`s. An operator that learns names the statistics it needs and
makes its `Fitted` state of their results; it never sees how or where they are computed. Operators are written against
this page and registered in `rowmill.ops`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

import polars as pl

from rowmill.errors import ArgumentError, NotFittedError
from rowmill.graph.node import Node, apply, needs_of
from rowmill.graph.selector import ColumnSelector, Group, as_selector
from rowmill.schema import ColumnSchema, Schema
from rowmill.sources.names import column
from rowmill.statistics.statistic import Statistic
from rowmill.statistics.table import StatisticTable

T = TypeVar("T")

ROW = "\0row"  # the number of a row in its table: a column that every table has, for operators that need it
ROWS = "\0rows"  # the statistic, and the value learnt, that tells the fitted rows from others


@dataclass(frozen=True)
class Call:
    """A Python function of columns that gives one column. It runs on the thread that runs the workflow.

    Never on Polars' threads: they would wait for the GIL while its holder waits for them. The columns come in the order
    of `inputs`, under names that are no patterns. `users`: the function is the
    user's own, and its errors come out as they are.
    """

    function: Callable[[list[pl.Series]], pl.Series]
    inputs: Mapping[str, pl.Expr]
    label: str
    users: bool = False


Value = pl.Expr | Call


@dataclass(frozen=True)
class Output:
    """A column that an operator makes: its description, and how it is computed (None: `change` makes it)."""

    column: ColumnSchema
    value: Value | None


@dataclass(frozen=True)
class Inputs:
    """What an operator gets at its place in the graph: columns with their expressions, alone or in groups."""

    schema: Schema
    groups: tuple[Group, ...]
    needed: Schema  # of the nodes that the operator depends on
    exprs: Mapping[str, pl.Expr] = field(default_factory=dict)
    training: bool = False  # whether the rows are those that the operator has learnt from

    def __getitem__(self, name: str) -> pl.Expr:
        """The expression of an input column."""
        return self.exprs[name] if name in self.exprs else column(name)

    def column(self, name: str) -> ColumnSchema:
        """The description of an input column, or of one that the operator depends on."""
        known: ColumnSchema = (
            self.needed[name] if name not in self.schema and name in self.needed else self.schema[name]
        )
        return known


class Fitted:
    """What an operator has learnt: plain values, and tables. Saved as JSON and Parquet."""

    def __init__(
        self, values: Mapping[str, Any] | None = None, tables: Mapping[str, pl.DataFrame | StatisticTable] | None = None
    ) -> None:
        self.values: dict[str, Any] = dict(values or {})
        self.tables = {
            name: t if isinstance(t, StatisticTable) else StatisticTable(t) for name, t in (tables or {}).items()
        }
        self.kept: Mapping[str, Any] = {}  # of the results of statistics, to go on with more rows
        self._made: dict[str, Any] = {}
        self._lock = threading.RLock()

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gives, made once however many fragments and threads ask: a lookup, above all."""
        if key not in self._made:
            with self._lock:
                if key not in self._made:
                    self._made[key] = make()
        return self._made[key]  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        return {"values": self.values, "tables": self.tables}  # what is kept stays where it was fitted

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["values"], state["tables"])  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fitted) and self.values == other.values and self.tables == other.tables

    __hash__ = None  # type: ignore[assignment]


class _Applicable(type):
    """What lets `["x"] >> Normalize` mean `["x"] >> Normalize()`, as it does after a node."""

    def __rrshift__(cls, left: Any) -> Node:
        return apply(left, cls)


class Operator(metaclass=_Applicable):
    """Columns in, columns out. Subclasses are frozen dataclasses of their settings."""

    __array_ufunc__: ClassVar[None] = None  # so that an array of names >> an operator is left to the operator
    needs: ClassVar[str | None] = None  # the setting that names columns, or holds a node, needed besides the input
    places: ClassVar[tuple[str, ...]] = ()  # settings that say where to write: neither saved nor loaded
    tables: ClassVar[tuple[str, ...]] = ()  # settings that may be the path of a table; saved and loaded as tables only

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "transform" in cls.__dict__ and cls.outputs is not Operator.outputs:
            raise ArgumentError(
                f"{cls.__name__} overrides transform of {cls.__mro__[1].__name__}, which does not use it; derive "
                f"{cls.__name__} from rowmill.ops.Operator"
            )

    @property
    def rowwise(self) -> bool:
        """Whether what comes of a row depends on that row only. If not, partitions are taken whole, never cut."""
        return True

    @property
    def changes_rows(self) -> bool:
        """Whether other rows come out than go in; if so, `change` says which."""
        return False

    @property
    def users(self) -> bool:
        """Whether `change` calls a function of the user's own, whose errors come out as they are."""
        return False

    @property
    def growth(self) -> float:
        """How many times as large as its input the output can be, by what the settings say."""
        return 1.0

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        """The columns made. Before fitting (`fitted` is None) only their descriptions are used."""
        if self._is_users:
            from rowmill.graph.standalone import made_by_user

            return made_by_user(self, inputs)[1]
        return one_per_column(inputs, lambda column, value: (column, value))

    def shared(self, inputs: Inputs, fitted: Fitted | None) -> Mapping[str, Value]:
        """Columns that several outputs are computed from; they are there as inputs of these names."""
        if self._is_users:
            from rowmill.graph.standalone import made_by_user

            return made_by_user(self, inputs)[0]
        return {}

    @property
    def _is_users(self) -> bool:
        """Whether the class is a user's own, with a `transform(selector, frame)` that makes its columns."""
        return type(self).transform is not Operator.transform

    def transform(self, col_selector: Any, df: Any) -> Any:
        """What the operator alone makes of the selected columns of a frame; one that learns has to be fitted.

        A class of your own overrides it: `col_selector.names` are the columns to use, `df` is a pandas frame, and a
        frame with a row for each of its rows comes back. It is called with an empty frame first, to see the columns.
        """
        from rowmill.graph.standalone import transform_alone

        return transform_alone(self, col_selector, df)

    def compute_output_schema(self, input_schema: Schema, col_selector: Any, prev_output_schema: Any = None) -> Schema:
        """The columns that the operator makes of the selected columns of a table."""
        from rowmill.graph.standalone import schema_alone

        return schema_alone(self, input_schema, col_selector)

    def change(self, frame: pl.DataFrame, inputs: Inputs) -> Change:
        """Which rows stay, and new columns. `frame` has the input columns by their names."""
        raise NotImplementedError

    def output_column_names(self, col_selector: Any) -> ColumnSelector:
        """The names of the columns that the operator makes of the selected ones."""
        from rowmill.graph.standalone import schema_alone

        selector = as_selector(col_selector)
        needs = [as_selector(each).names for each in needs_of(self) if not isinstance(each, Node)]
        needed = [name for names in needs for name in names]
        table = Schema(list(dict.fromkeys([*selector.names, *needed])))
        return ColumnSelector(schema_alone(self, table, selector).column_names)

    def dependencies(self) -> Sequence[Any]:
        """Nodes or columns that are needed besides those the operator is applied to."""
        given = None if self.needs is None else getattr(self, self.needs)
        return () if given is None or (isinstance(given, list | tuple) and not given) else (given,)

    def completing(self, selected: Sequence[str]) -> Sequence[str]:
        """Columns of the table that the operator needs and that are not among the selected ones."""
        return ()

    @property
    def label(self) -> str:
        return type(self).__name__

    def settings(self) -> dict[str, Any]:
        """The settings, as given."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init} if is_dataclass(self) else {}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Operator:
        """The operator that has these settings."""
        return cls(**settings)

    def __rrshift__(self, left: Any) -> Node:
        return apply(left, self)


class StatOperator(Operator):
    """An operator that learns from the data before it can transform."""

    def statistics(self, inputs: Inputs) -> Mapping[str, Statistic[Any]]:
        """What has to be known of the input columns, each under a name of the operator's choice."""
        raise ArgumentError(
            f"{self.label} does not say what it learns; operators of your own cannot learn: use LambdaOp, or derive "
            f"from Operator"
        )

    def measured(self, inputs: Inputs) -> Mapping[str, Value]:
        """Columns that the statistics look at besides the input columns."""
        return {}

    def learn(self, results: Mapping[str, Any], inputs: Inputs) -> Fitted:
        """The state, from the results of the statistics."""
        raise NotImplementedError

    def learn_more(self, results: dict[str, Any], inputs: Inputs, before: Fitted) -> Fitted:
        """The state after more rows, from results of all rows; `before`: the state that it goes on from.

        What has been given a meaning that models have learnt keeps it. What is kept of the results is taken from
        `results` afterwards, which may be changed.
        """
        return self.learn(results, inputs)

    def check_growth(self) -> None:
        """Raise an `ArgumentError` if the settings do not allow for more rows after the first fit."""

    def moves_old_rows(self, before: Fitted, after: Fitted) -> bool:
        """Whether rows that were fitted before come out in another way now."""
        return before != after

    def remember(self, fitted: Fitted) -> None:
        """Keep what the latest fit learnt, for people to look at; nothing is computed from it."""
        object.__setattr__(self, "_learnt", fitted)

    @property
    def fitted(self) -> bool:
        return getattr(self, "_learnt", None) is not None

    @property
    def learnt(self) -> Fitted:
        """What the latest fit learnt."""
        learnt: Fitted | None = getattr(self, "_learnt", None)
        if learnt is None:
            raise NotFittedError(f"{self.label} has not been fitted; call workflow.fit(dataset) first")
        return learnt

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_learnt"}


@dataclass(frozen=True)
class Change:
    """Rows by their number before (repeated or left out), or None for all new rows; and columns made for them."""

    rows: pl.Series | None
    columns: pl.DataFrame


def one_per_column(
    inputs: Inputs, make: Callable[[ColumnSchema, pl.Expr], tuple[ColumnSchema, Value]]
) -> Iterator[Output]:
    """An output for every input column, by a function of its description and expression."""
    for each in inputs.schema:
        yield Output(*make(each, inputs[each.name]))


def by_leaf(column: ColumnSchema, value: pl.Expr, change: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """`change` applied to the values, or to the leaves of lists."""
    if not column.is_list:
        return change(value)
    leaves = change(pl.element())
    return value.list.eval(leaves) if column.width is None else value.arr.eval(leaves)


def numeric(column: ColumnSchema, operator: Operator) -> ColumnSchema:
    """The column, if it holds numbers or flags, or nothing is known of it yet."""
    if column.dtype not in ("bool", "unknown") and not column.dtype.startswith(("int", "uint", "float", "decimal")):
        raise ArgumentError(
            f"{operator.label} wants numbers, and column {column.name!r} is {column.dtype}; leave it out, or turn it "
            f"into numbers first"
        )
    return column
