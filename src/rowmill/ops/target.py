"""Categories to the mean of a target: TargetEncoding, out of fold on the rows it has learnt from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl

from rowmill import _native
from rowmill.errors import ArgumentError, ColumnError
from rowmill.graph.operator import ROW, ROWS, Call, Fitted, Inputs, Output, StatOperator, Value, numeric
from rowmill.graph.selector import members
from rowmill.ops._parts.columns import whole_number
from rowmill.ops._parts.vocabulary import LearntTable, shown_table
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.names import columns as columns_named
from rowmill.sources.types import polars_type
from rowmill.statistics.digest import RowDigest, after
from rowmill.statistics.groups import SCALE, GroupSums
from rowmill.statistics.lookup import Lookup
from rowmill.statistics.moments import Moments

FOLD = "\0fold"
FOLDS = "__fold__"  # the column of folds that `drop_folds=False` leaves in the output
_HUGE = 2.0**900  # targets and sums from here on are scaled before they are added


@dataclass(frozen=True, eq=False)
class TargetEncoding(StatOperator):
    """The mean of `target` over the rows with the same value, drawn to the overall mean as if by `p_smooth` rows more.

    On the rows that the workflow was fitted on, the rows of a row's own fold are left out: `kfold` folds (3), drawn
    by the row's number and `fold_seed` (None: its number modulo `kfold`), so that they do not depend on how the table
    is cut. On other data all rows count. `Workflow.transform(data, fitted_rows=True)` says that data are the fitted
    rows, `False` that they are not; by default they are recognised, and a warning says where that is in doubt. Some of
    the fitted files are other data: transform all of them, and take the rows from there. A value that was not seen
    gets the overall mean, or `target_mean`.
    `drop_folds=False`: the fold of each row comes out too, as `__fold__`.
    The column is `TE_{columns}_{target}`, or `out_col` (one name, or one for each). Groups of columns are used jointly.
    The rest is accepted and means nothing here.
    """

    needs: ClassVar[str] = "target"
    places: ClassVar[tuple[str, ...]] = ("out_path",)

    target: Any
    target_mean: float | None = None
    kfold: int | None = None
    fold_seed: int | None = 42
    p_smooth: float = 20
    out_col: str | Sequence[str] | None = None
    out_dtype: Any = None
    tree_width: Any = None
    cat_cache: Any = "host"
    out_path: Any = None
    on_host: bool = True
    name_sep: str = "_"
    drop_folds: bool = True
    split_out: Any = 1
    split_every: Any = 8

    def __post_init__(self) -> None:
        if self.kfold is not None and whole_number(self.kfold, "kfold", 1) > 255:
            raise ArgumentError(f"kfold is {self.kfold}; wanted at most 255")
        if self.fold_seed is not None and abs(whole_number(self.fold_seed, "fold_seed", -(1 << 63))) >= 1 << 63:
            raise ArgumentError(f"fold_seed is {self.fold_seed}; wanted a number of at most 63 bits")
        for name, value in (("p_smooth", self.p_smooth), ("target_mean", self.target_mean)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ArgumentError(f"{name} is {value!r}; wanted a number")

    @property
    def folds(self) -> int:
        return 3 if self.kfold is None else self.kfold

    def measured(self, inputs: Inputs) -> Mapping[str, Value]:
        return {FOLD: self._fold(inputs), ROW: inputs[ROW]}

    def shared(self, inputs: Inputs, fitted: Fitted | None) -> Mapping[str, Value]:
        return {FOLD: self._fold(inputs)} if fitted is not None and inputs.training and self.folds > 1 else {}

    def _fold(self, inputs: Inputs) -> Value:
        if self.fold_seed is None:
            return (inputs[ROW] % self.folds).cast(pl.UInt8)
        draw = partial(_drawn, seed=self.fold_seed, folds=self.folds)
        return Call(lambda columns: draw(columns[0]), {ROW: inputs[ROW]}, self.label)

    def statistics(self, inputs: Inputs) -> Mapping[str, Any]:
        targets = tuple(numeric(column, self).name for column in inputs.needed)
        wanted: dict[str, Any] = {f"mean of {name}": Moments(name) for name in targets}
        keys = dict.fromkeys(name for group in inputs.groups for name in members(group))
        used = {f"{t}.{fold}" for t in targets for fold in ("all", *range(self.folds))}
        used |= set() if self.drop_folds else {FOLDS}
        for name in keys.keys() & used:
            raise ColumnError(f"a key column is named {name!r}, which is needed for a result; rename the column")
        for group in inputs.groups:
            wanted[self._name(group)] = GroupSums((*members(group), FOLD), targets)
        wanted[ROWS] = RowDigest(ROW, (*keys, *(name for name in targets if name not in keys)))
        return wanted

    def learn(self, results: Mapping[str, Any], inputs: Inputs) -> Fitted:
        given = self.target_mean
        means = {
            name: results[f"mean of {name}"].mean if given is None else given for name in inputs.needed.column_names
        }
        tables = {
            self._name(group): self._table(results[self._name(group)].groups, members(group), means, inputs)
            for group in inputs.groups
        }
        if not self.drop_folds and self.folds > 1:
            for group in inputs.groups:
                sums = results[self._name(group)].groups
                if sums is not None:
                    tables[f"{FOLDS}{self.name_sep}{self._name(group)}"] = sums.rename({FOLD: FOLDS})
        return Fitted({"means": means, ROWS: results[ROWS]}, tables)

    def learn_more(self, results: dict[str, Any], inputs: Inputs, before: Fitted) -> Fitted:
        fitted, old = self.learn(results, inputs), before.values[ROWS]
        parts = [*old.get("parts", [old]), after(old, results[ROWS])]
        return Fitted({**fitted.values, ROWS: {**results[ROWS], "parts": parts}}, fitted.tables)

    def _table(
        self, sums: pl.DataFrame | None, keys: tuple[str, ...], means: Mapping[str, float], inputs: Inputs
    ) -> pl.DataFrame:
        """For each value: its encoding from all rows, and from all but those of each fold."""
        if sums is None:
            columns = {f"{t}.{f}": pl.Float64 for t in means for f in ("all", *range(self.folds))}
            keyed = {key: polars_type(inputs.column(key).dtype) for key in keys}
            return pl.DataFrame(schema={**keyed, **columns})
        every = sums.select(columns_named(keys)).unique(maintain_order=True)
        place = Lookup(every).find([sums.get_column(key) for key in keys])
        fold = sums[FOLD].to_numpy()
        made = []
        for target, mean in means.items():
            total, rows = (np.zeros((every.height, self.folds)) for _ in range(2))
            huge = np.abs(sums[f"{target}.scaled"].to_numpy()).max(initial=abs(mean) * 2.0**SCALE) > _HUGE * 2.0**SCALE
            scale = SCALE if huge and np.isfinite(mean) else 0  # then sums of them are finite as well
            total[place, fold] = sums[f"{target}.scaled" if scale else f"{target}.sum"].to_numpy()
            rows[place, fold] = sums[f"{target}.count"].to_numpy()
            count = rows.sum(axis=1, keepdims=True) - rows
            if scale:  # what is left of a large sum without a large part of it would be lost in rounding
                others = np.stack([np.delete(total, f, axis=1).sum(axis=1) for f in range(self.folds)], axis=1)
            else:
                others = total.sum(axis=1, keepdims=True) - total
            smoothed = partial(self._smoothed, mean=mean, scale=scale)
            made.append(smoothed(f"{target}.all", total.sum(axis=1), rows.sum(axis=1)))
            made.extend(smoothed(f"{target}.{f}", others[:, f], count[:, f]) for f in range(self.folds))
        return every.with_columns(made)

    def _smoothed(self, name: str, total: Any, rows: Any, mean: float, scale: int) -> pl.Series:
        """The encodings. `total` and what is computed here is scaled by a power of two where floats would overflow."""
        weight, most = rows + self.p_smooth, np.ldexp(np.finfo(np.float64).max, scale)
        known = np.full(len(weight), np.ldexp(mean, scale))
        encoded = np.divide(total + self.p_smooth * known, weight, out=known.copy(), where=weight > 0)
        return pl.Series(name, np.ldexp(np.clip(encoded, -most, most), -scale) if scale else encoded)

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        targets = inputs.needed.column_names if fitted is None else list(fitted.values["means"])  # it may be gone
        pairs = [(group, target) for group in inputs.groups for target in targets]
        names = [f"TE_{self._name(group)}_{target}" for group, target in pairs]
        if self.out_col is not None:
            names = [self.out_col] if isinstance(self.out_col, str) else list(self.out_col)
            if len(names) != len(pairs):
                raise ArgumentError(f"out_col has {len(names)} names for {len(pairs)} columns; wanted one for each")
        for name, (group, target) in zip(names, pairs, strict=True):
            column = ColumnSchema(name, self.out_dtype or "float32", frozenset({Tags.CONTINUOUS}))
            value = inputs[members(group)[0]] if fitted is None else self._encoded(inputs, group, target, fitted)
            yield Output(column, value)
        if not self.drop_folds and self.folds > 1:
            yield Output(ColumnSchema(FOLDS, "uint8"), self._fold(inputs))

    def _encoded(self, inputs: Inputs, group: Any, target: str, fitted: Fitted) -> Call:
        keys, name = members(group), self._name(group)
        table, mean = fitted.tables[name], fitted.values["means"][target]
        training = inputs.training and self.folds > 1
        columns = [f"{target}.{fold}" for fold in range(self.folds)] if training else [f"{target}.all"]
        dtype = polars_type(self.out_dtype or "float32")

        def encode(given: list[pl.Series]) -> pl.Series:
            lookup = fitted.once(name, lambda: Lookup(table.frame.select(columns_named(keys))))
            places = lookup.find(given[: len(keys)])
            known = fitted.once("/".join((name, *columns)), lambda: _with_default(table.frame, columns, mean))
            fold = given[-1].to_numpy() if training else 0
            return pl.Series(name, known[places, fold]).cast(dtype)

        given = {key: inputs[key] for key in keys}
        return Call(encode, {**given, FOLD: inputs[FOLD]} if training else given, self.label)

    def _name(self, group: Any) -> str:
        return self.name_sep.join(members(group))

    @property
    def means(self) -> dict[str, float]:
        return dict(self.learnt.values["means"])

    @property
    def stats(self) -> dict[str, LearntTable]:
        """The tables of the latest fit; each is a frame, and also stands for the path of a Parquet file."""
        return {name: shown_table(self.learnt, name, lambda frame: frame) for name in self.learnt.tables}


def _drawn(rows: pl.Series, *, seed: int, folds: int) -> pl.Series:
    drawn = np.empty(len(rows), np.uint8)
    _native.draw_folds(rows.cast(pl.Int64).to_numpy(), seed % (1 << 64), folds, drawn)
    return pl.Series(FOLD, drawn)


def _with_default(table: pl.DataFrame, columns: Sequence[str], default: float) -> Any:
    """The columns as rows, and one row more: the one that place -1 finds."""
    wanted = table.select(columns_named(columns))
    return np.vstack([wanted.to_numpy(), np.full((1, wanted.width), float(default))])
