"""Columns from elsewhere by key: JoinGroupby from the data itself, JoinExternal from another table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import polars as pl

from rowmill.errors import ArgumentError, ColumnError, closest, missing_column, warn
from rowmill.graph.operator import Call, Change, Fitted, Inputs, Operator, Output, StatOperator, Value, numeric
from rowmill.graph.selector import members
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.frames.frame_source import as_frame
from rowmill.sources.names import columns, frame_of
from rowmill.sources.types import column_schema, frame_type, polars_type
from rowmill.statistics.groups import GroupSums, GroupTable
from rowmill.statistics.lookup import Lookup

_PLACE = "\0place"  # of a row's key in a table
_STATS = {
    "count": "int32",
    "sum": "float32",
    "mean": "float32",
    "std": "float32",
    "var": "float32",
    "min": "float32",
    "max": "float32",
}


@dataclass(frozen=True, eq=False)
class JoinGroupby(StatOperator):
    """Statistics of `cont_cols` over the rows with the same key: `{key}_count`, `{key}_{column}_{stat}`.

    `stats`: some of count, sum, mean, std, var, min, max. Means are over the values that are there; std and var are of
    a sample, and null for a single value. A key that was not seen gets nulls. Only the new columns come out.
    The rest is accepted and means nothing here.
    """

    needs: ClassVar[str] = "cont_cols"
    places: ClassVar[tuple[str, ...]] = ("out_path",)

    cont_cols: Any = None
    stats: Sequence[str] = ("count",)
    tree_width: Any = None
    cat_cache: Any = "host"
    out_path: Any = None
    on_host: bool = True
    name_sep: str = "_"
    split_out: Any = 1
    split_every: Any = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "stats", (self.stats,) if isinstance(self.stats, str) else tuple(self.stats))
        for stat in self.stats:
            if stat not in _STATS:
                raise ArgumentError(f"JoinGroupby does not know {stat!r}; wanted some of {list(_STATS)}")

    def statistics(self, inputs: Inputs) -> Mapping[str, GroupSums]:
        conts = tuple(numeric(column, self).name for column in inputs.needed)
        spread, ends = ({"std", "var"} & set(self.stats), {"min", "max"} & set(self.stats))
        return {
            self._name(group): GroupSums(members(group), conts, squares=bool(spread), extremes=bool(ends))
            for group in inputs.groups
        }

    def learn(self, results: Mapping[str, GroupTable], inputs: Inputs) -> Fitted:
        tables = {}
        for group in inputs.groups:
            keys, found = members(group), results[self._name(group)].groups
            made = self._columns_of(group, inputs)
            if found is None:
                keyed = {key: polars_type(inputs.column(key).dtype) for key in keys}
                tables[self._name(group)] = pl.DataFrame(schema={**keyed, **{n: polars_type(d) for n, d, _ in made}})
            else:
                tables[self._name(group)] = found.select(
                    *columns(keys), *(e.cast(polars_type(d)).alias(n) for n, d, e in made)
                )
        return Fitted({}, tables)

    def _columns_of(self, group: Any, inputs: Inputs) -> list[tuple[str, str, pl.Expr]]:
        """The new columns: name, dtype, and how each comes from the sums."""
        name, made = self._name(group), []
        if "count" in self.stats:
            made.append((f"{name}{self.name_sep}count", "int32", pl.col("rows")))
        for cont in inputs.needed.column_names:
            count, variance = pl.col(f"{cont}.count"), pl.col(f"{cont}.m2") / (pl.col(f"{cont}.count") - 1)
            exprs = {
                "sum": pl.col(f"{cont}.sum"),
                "mean": pl.col(f"{cont}.mean"),
                "var": pl.when(count > 1).then(variance),
                "std": pl.when(count > 1).then(variance.sqrt()),
                "min": pl.col(f"{cont}.min"),
                "max": pl.col(f"{cont}.max"),
            }
            wanted = [stat for stat in self.stats if stat != "count"]
            made.extend((self.name_sep.join((name, cont, stat)), _STATS[stat], exprs[stat]) for stat in wanted)
        return made

    def shared(self, inputs: Inputs, fitted: Fitted | None) -> Mapping[str, Value]:
        if fitted is None:
            return {}
        return {f"place {self._name(g)}": _found(inputs, members(g), self._name(g), fitted) for g in inputs.groups}

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        for group in inputs.groups:
            if fitted is None:
                for name, dtype, _ in self._columns_of(group, inputs):
                    yield Output(_statistic(name, dtype), inputs[members(group)[0]])
                continue
            table = fitted.tables[self._name(group)].frame
            for values in (c for c in table.get_columns() if c.name not in members(group)):  # their source may be gone
                dtype = column_schema(values.name, values.dtype).dtype
                yield Output(_statistic(values.name, dtype), taken(inputs[f"place {self._name(group)}"], values))

    def _name(self, group: Any) -> str:
        return self.name_sep.join(members(group))


def _statistic(name: str, dtype: str) -> ColumnSchema:
    return ColumnSchema(name, dtype, frozenset({Tags.CONTINUOUS}))


@dataclass(frozen=True, eq=False)
class JoinExternal(Operator):
    """Columns of another table, by key. `on`: the key columns here; `on_ext`: there, if named otherwise.

    `df_ext`: a frame of any kind, a `Dataset`, or Parquet or CSV files; it has to fit in memory. `columns_ext`: which
    of its columns to take. `how`: "left" (nulls where nothing is found) or "inner" (such rows go). A key that is there
    several times gives a row for each, unless `drop_duplicates_ext`; a warning says when rows multiply.
    `validate`: "m:1" refuses a table that has a key several times, "1:m" data that have a key several times (in one
    piece of the table), "1:1" both; "m:m" allows everything and warns of nothing. `kind_ext` and `cache` mean nothing.
    """

    tables: ClassVar[tuple[str, ...]] = ("df_ext",)

    df_ext: Any
    on: str | Sequence[str]
    how: str = "left"
    on_ext: str | Sequence[str] | None = None
    columns_ext: Sequence[str] | None = None
    drop_duplicates_ext: bool | None = None
    kind_ext: Any = None
    cache: Any = "host"
    validate: str | None = None

    def __post_init__(self) -> None:
        if self.validate is not None and self.validate not in _VALIDATIONS:
            raise ArgumentError(f"validate is {self.validate!r}; wanted one of {list(_VALIDATIONS)}")
        if self.how not in ("left", "inner"):
            raise ArgumentError(f"how is {self.how!r}; wanted 'left' or 'inner'")
        object.__setattr__(self, "df_ext", external_table(self.df_ext))
        for name in (*self._theirs, *(self.columns_ext or ())):
            if name not in self.df_ext.columns:
                raise missing_column(name, "in the external table", self.df_ext.columns)
        if len(self._keys) != len(self._theirs):
            raise ArgumentError(f"on names {len(self._keys)} columns and on_ext {len(self._theirs)}; wanted as many")
        if self._allowed in ("1:1", "m:1") and self._most > 1:
            raise ArgumentError(
                f"validate={self.validate!r}, and the external table has a key of {self._keys} {self._most} times; "
                f"pass drop_duplicates_ext=True to take the first row of each key"
            )

    @property
    def _allowed(self) -> str | None:
        return None if self.validate is None else _VALIDATIONS[self.validate]

    @property
    def _keys(self) -> list[str]:
        return [self.on] if isinstance(self.on, str) else list(self.on)

    @property
    def _theirs(self) -> list[str]:
        given = self.on if self.on_ext is None else self.on_ext
        return [given] if isinstance(given, str) else list(given)

    @cached_property
    def _table(self) -> pl.DataFrame:
        """The table under our names of its keys, with the columns that are wanted."""
        wanted = [c for c in self.columns_ext or self.df_ext.columns if c not in self._theirs]
        frame: pl.DataFrame = self.df_ext.select(columns([*self._theirs, *wanted]))
        frame = frame.rename(dict(zip(self._theirs, self._keys, strict=True)))
        if not self.drop_duplicates_ext:
            return frame
        return frame.filter(frame.select(columns(self._keys)).to_struct().is_first_distinct())

    @cached_property
    def changes_rows(self) -> bool:
        return self.how == "inner" or self._most > 1

    @cached_property
    def _most(self) -> int:
        """How often the most frequent key is there."""
        keys = self._table.select(columns(self._keys)).to_struct().alias("key").to_frame()
        return int(keys.group_by("key").len("count").get_column("count").max() or 0)  # type: ignore[arg-type]

    @property
    def growth(self) -> float:
        return float(self._most)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self._table.select(columns(self._keys)))

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        for key in self._keys:
            if key not in inputs.schema:
                raise ColumnError(
                    f"JoinExternal wants {key!r}{closest(key, inputs.schema.column_names)}; select it too"
                )
            theirs = column_schema(key, self._table.schema[key])
            check_zones(key, inputs.schema[key].dtype, theirs.dtype)
            if (theirs.dtype == "string") != (inputs.schema[key].dtype == "string"):
                raise ColumnError(
                    f"key {key!r} is {inputs.schema[key].dtype} here and {theirs.dtype} in the external table; cast "
                    f"one of them"
                )
        new = [name for name in self._table.columns if name not in self._keys]
        both = [name for name in new if name in inputs.schema]
        if both:
            raise ColumnError(f"columns {both} are on both sides; leave them out of columns_ext, or rename them")
        for column in inputs.schema:
            yield Output(column, inputs[column.name])
        for name in new:
            values = self._table.get_column(name)
            value = None if self.changes_rows else taken(inputs[_PLACE], values)
            yield Output(column_schema(name, values.dtype), value)

    def shared(self, inputs: Inputs, fitted: Fitted | None) -> Mapping[str, Value]:
        given = {key: inputs[key] for key in self._keys}

        def place(keys: list[pl.Series]) -> pl.Series:
            self._check_ours(keys)
            return _places(self._lookup, keys)

        return {_PLACE: Call(place, given, self.label)}

    def _check_ours(self, keys: list[pl.Series]) -> None:
        """Refuse keys that a piece of the data has several times, where that was asked for."""
        if self._allowed not in ("1:1", "1:m"):
            return
        frame = pl.DataFrame([key.alias(f"key {number}") for number, key in enumerate(keys)])
        if twice := frame.height - frame.n_unique():
            raise ArgumentError(
                f"validate={self.validate!r}, and {twice:,} of {frame.height:,} rows have a key of {self._keys} that "
                f"an earlier row has; leave validate out, or take the rows with equal keys together first"
            )

    def change(self, frame: pl.DataFrame, inputs: Inputs) -> Change:
        keys = [f"key {number}" for number in range(len(self._keys))]  # names that mean nothing to Polars
        ours = [
            frame.get_column(key).alias(n).cast(self._table.schema[key])
            for key, n in zip(self._keys, keys, strict=True)
        ]
        theirs = [self._table.get_column(key).alias(n) for key, n in zip(self._keys, keys, strict=True)]
        self._check_ours(ours)
        how: Any = self.how
        joined = (
            pl.DataFrame(ours)
            .with_row_index("left")
            .join(
                pl.DataFrame(theirs).with_row_index("right"),
                on=keys,
                how=how,
                nulls_equal=True,
                maintain_order="left_right",
            )
        )
        more = joined.height - joined.get_column("left").n_unique()
        if more and self._allowed is None:
            warn(
                f"JoinExternal made {more:,} rows more than the {frame.height:,} it was given: the external table has "
                f"keys of {self._keys} several times; pass drop_duplicates_ext=True to take the first row of each key, "
                f"validate='m:1' to refuse such a table, or validate='m:m' if you want this",
            )
        found = joined.get_column("right")
        new = [c for c in self._table.get_columns() if c.name not in self._keys]
        return Change(joined.get_column("left"), frame_of(c.alias("values").gather(found).alias(c.name) for c in new))


_VALIDATIONS = {
    "1:1": "1:1", "1:m": "1:m", "m:1": "m:1", "m:m": "m:m",
    "one_to_one": "1:1", "one_to_many": "1:m", "many_to_one": "m:1", "many_to_many": "m:m",
}  # fmt: skip


def check_zones(key: str, ours: str, theirs: str) -> None:
    """Refuse to compare times that have a time zone with times that have none."""
    if ours == "unknown" or not (ours.startswith("datetime") and theirs.startswith("datetime")):
        return
    if ("," in ours) != ("," in theirs):
        here, there = ("a time zone", "none") if "," in ours else ("no time zone", "one")
        raise ColumnError(
            f"key {key!r} has {here} in the data ({ours}) and {there} in the external table ({theirs}); give both the "
            f"same, for example with dt.replace_time_zone('UTC') in Polars or dt.tz_localize('UTC') in pandas"
        )


def _found(inputs: Inputs, keys: tuple[str, ...], name: str, fitted: Fitted) -> Call:
    """The place of each row among the keys of a learnt table."""
    table = fitted.tables[name]
    find = partial(fitted.once, name, lambda: Lookup(table.frame.select(columns(keys))))
    return Call(lambda given: _places(find(), given), {key: inputs[key] for key in keys}, "JoinGroupby")


def _places(lookup: Lookup, keys: list[pl.Series]) -> pl.Series:
    places = lookup.find(keys)
    found = pl.Series(_PLACE, np.maximum(places, 0).astype(np.uint32))
    return found if (places >= 0).all() else found.set(pl.Series(places < 0), None)


def taken(place: pl.Expr, values: pl.Series) -> Call:
    """The values at these places; null for a place that is null."""

    def take(given: list[pl.Series]) -> pl.Series:
        if not len(values):
            return pl.repeat(None, len(given[0]), dtype=values.dtype, eager=True)
        return values.alias("values").gather(given[0])

    return Call(take, {_PLACE: place}, "a join")


def external_table(given: Any) -> pl.DataFrame:
    """An external table of any kind, in memory."""
    frame = as_frame(given)
    if frame is not None:
        return frame
    if isinstance(given, pl.LazyFrame):
        return given.collect()
    if hasattr(given, "to_polars"):
        return given.to_polars()  # type: ignore[no-any-return]
    if hasattr(given, "compute"):
        return external_table(given.compute())
    if isinstance(given, str | PathLike | list | tuple):
        from rowmill.sources.open import open_source

        source = open_source(given, None)
        frames = [source.read(fragment, source.schema.column_names) for fragment in source.fragments]
        if frames:
            return pl.concat(frames)
        return pl.DataFrame(schema={column.name: frame_type(column) for column in source.schema})
    raise ArgumentError(f"cannot join {type(given).__name__}; wanted a frame, a Dataset, or the path of a file")
