"""Values to codes: Categorify. 0 is padding, 1 null, from 2 on out-of-vocabulary, then the vocabulary by frequency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import polars as pl

from rowmill._system.sizes import parse_bytes
from rowmill.errors import ArgumentError, UnseenValueError, warn
from rowmill.graph.operator import Call, Fitted, Inputs, Output, StatOperator
from rowmill.graph.selector import Group, members
from rowmill.ops._parts.columns import check_names, retagged
from rowmill.ops._parts.vocabulary import (
    LearntTable,
    VocabularySpec,
    given_vocabulary,
    grown,
    named,
    plain_vocabulary,
    read_vocabulary,
    shown_table,
    write_vocabulary,
)
from rowmill.ops.embedding import embedding_size, get_embedding_sizes
from rowmill.schema import ColumnSchema, Tags
from rowmill.sources.names import columns as named_columns
from rowmill.sources.types import frame_type, polars_type
from rowmill.statistics.counts import COUNT, Ranked, Values
from rowmill.statistics.lookup import Lookup
from rowmill.statistics.values import hashes, over_leaves, without_nan

__all__ = ["Categorify", "get_embedding_sizes"]

NULL, OOV = 1, 2


@dataclass(frozen=True, eq=False)
class Categorify(StatOperator):
    """Replaces values by codes from 0 to the cardinality, most frequent first.

    `freq_threshold`: values seen less often have no code of their own. `max_size`: the number of codes, reserved ones
    included. `num_buckets`: the number of out-of-vocabulary codes, chosen by hash; by default one. Each of the three
    is a number, or a dict by column. `vocabs`: column to the values to use (a series, a list, or a Parquet file's path)
    instead of learning them. Groups of columns share a vocabulary (`encode_type="joint"`) or are combined into one
    column named by joining their names with `name_sep` ("combo"). `single_table`: the codes of the columns follow each
    other, for one embedding table. `unseen="error"`: a value that has no code is refused when transforming.
    `out_path`: where to write the vocabularies as Parquet when fitting; nowhere by default. `dtype`: int64 by default.
    `cardinality_memory_limit`: counts larger than this go to disk. The rest is accepted and means nothing here.
    """

    places: ClassVar[tuple[str, ...]] = ("out_path",)
    tables: ClassVar[tuple[str, ...]] = ("vocabs",)

    freq_threshold: int | Mapping[str, int] | None = 0
    out_path: str | None = None
    cat_cache: Any = "host"
    dtype: Any = None
    on_host: bool = True
    encode_type: str = "joint"
    name_sep: str = "_"
    search_sorted: bool = False
    num_buckets: int | Mapping[str, int] | None = None
    vocabs: Mapping[str, Any] | None = None
    max_size: int | Mapping[str, int] | None = 0
    single_table: bool = False
    cardinality_memory_limit: int | str | None = None
    tree_width: Any = None
    split_out: Any = 1
    split_every: Any = 8
    unseen: str = "oov"

    def __post_init__(self) -> None:
        if self.encode_type not in ("joint", "combo"):
            raise ArgumentError(f"encode_type is {self.encode_type!r}; wanted 'joint' or 'combo'")
        if self.unseen not in ("oov", "error"):
            raise ArgumentError(f"unseen is {self.unseen!r}; wanted 'oov' or 'error'")
        if self.vocabs is not None and self.encode_type == "combo":
            raise ArgumentError("vocabs were given with encode_type='combo'; learn combinations, or use 'joint'")
        if self.freq_threshold and self.max_size:
            raise ArgumentError("both freq_threshold and max_size were given; they exclude each other")
        if self.search_sorted and self.freq_threshold:
            raise ArgumentError("search_sorted was given with freq_threshold; they exclude each other")
        if self.tree_width is not None:
            warn("tree_width is deprecated and means nothing; leave it out", FutureWarning)
        if isinstance(self.vocabs, Mapping):
            object.__setattr__(self, "vocabs", {name: plain_vocabulary(given) for name, given in self.vocabs.items()})
        for name in ("freq_threshold", "max_size", "num_buckets"):
            self._check_sizes(name, getattr(self, name))

    def _check_sizes(self, name: str, given: Any) -> None:
        for value in given.values() if isinstance(given, Mapping) else [given]:
            if value is None:  # as without the setting
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < (name == "num_buckets"):
                raise ArgumentError(f"{name} is {given!r}; wanted a positive whole number, or a dict of them by column")
            if value >= 1 << 53:
                raise ArgumentError(f"{name} is {value}; wanted less than 2**53")

    def settings(self) -> dict[str, Any]:
        given = super().settings()
        if isinstance(self.vocabs, Mapping):  # the values of files, which may be gone when a saved workflow is loaded
            given["vocabs"] = {
                name: read_vocabulary(values) if isinstance(values, str | PathLike) else values
                for name, values in self.vocabs.items()
            }
        return given

    def vocabularies(self, inputs: Inputs) -> list[VocabularySpec]:
        """What is encoded together: one vocabulary for each column or group."""
        made = [self._vocabulary(group) for group in inputs.groups]
        known = [
            name for vocabulary in made for name in (vocabulary.name, "_".join(vocabulary.columns), *vocabulary.columns)
        ]
        for what in ("freq_threshold", "max_size", "num_buckets", "vocabs"):
            check_names(getattr(self, what), known, what)
        shared = [name for vocabulary in made if not vocabulary.combined for name in vocabulary.columns]
        twice = sorted({name for name in shared if shared.count(name) > 1})
        if twice:
            raise ArgumentError(
                f"columns {twice} are in two groups; a column has one vocabulary; name each column once"
            )
        return made

    def _vocabulary(self, group: Group) -> VocabularySpec:
        columns = members(group)
        return VocabularySpec(
            name=self.name_sep.join(columns),
            columns=columns,
            combined=self.encode_type == "combo" and len(columns) > 1,
            threshold=_for(self.freq_threshold, columns) or 0,
            buckets=_for(self.num_buckets, columns) or 1,
            most=_for(self.max_size, columns) or 0,
        )

    def statistics(self, inputs: Inputs) -> Mapping[str, Ranked]:
        limit = self.cardinality_memory_limit
        memory = {} if limit is None else {"memory": parse_bytes(limit, "cardinality_memory_limit")}
        learnt = [vocabulary for vocabulary in self.vocabularies(inputs) if self._given(vocabulary) is None]
        return {v.name: Ranked(v.groups, least=v.threshold, most=v.kept, **memory) for v in learnt}

    def _given(self, vocabulary: VocabularySpec) -> Any:
        found = [self.vocabs[c] for c in (vocabulary.name, *vocabulary.columns) if self.vocabs and c in self.vocabs]
        return found[0] if found else None

    def learn(self, results: Mapping[str, Values], inputs: Inputs) -> Fitted:
        tables, values = {}, {}
        for vocabulary in self.vocabularies(inputs):
            given = self._given(vocabulary)
            schema = {c: _leaf_type(inputs.column(c)) for c in vocabulary.keys}
            nulls = unseen = 0
            if given is None:
                found = results[vocabulary.name]
                table = pl.DataFrame(schema={**schema, COUNT: pl.Int64}) if found.frame is None else found.frame
                nulls, unseen = found.nulls, found.seen - found.kept
            else:
                table = given_vocabulary(given, vocabulary, schema)
            self._warn_of_size(vocabulary.name, table)
            tables[vocabulary.name] = table
            values[vocabulary.name] = {"nulls": nulls, "unseen": unseen}
        fitted = Fitted({"observed": values}, tables)
        if self.out_path is not None:
            for vocabulary in self.vocabularies(inputs):
                table = named(vocabulary.name, fitted.tables[vocabulary.name].frame)
                write_vocabulary(self.out_path, vocabulary, table, **values[vocabulary.name])
        return fitted

    def learn_more(self, results: dict[str, Any], inputs: Inputs, before: Fitted) -> Fitted:
        for vocabulary in self.vocabularies(inputs):
            if vocabulary.name in results:
                results[vocabulary.name] = grown(results[vocabulary.name], before.tables[vocabulary.name], vocabulary)
        return self.learn(results, inputs)

    def check_growth(self) -> None:
        if self.single_table:
            raise ArgumentError(
                "Categorify(single_table=True) numbers the codes of all columns one after another, so that new "
                "categories of one would move the codes of the next; leave single_table out, or fit anew"
            )

    def moves_old_rows(self, before: Fitted, after: Fitted) -> bool:
        """Values without a code of their own may have been given one."""
        unseen = (observed["unseen"] for observed in before.values["observed"].values())
        return any(unseen) and any(table.height != before.tables[name].height for name, table in after.tables.items())

    def _warn_of_size(self, name: str, table: pl.DataFrame) -> None:
        limit = self.cardinality_memory_limit
        if limit is not None and table.estimated_size() > parse_bytes(limit, "cardinality_memory_limit"):
            warn(
                f"the vocabulary of {name!r} takes {table.estimated_size():,} bytes, more than "
                f"cardinality_memory_limit={limit!r}: it was counted on disk, but has to fit in memory to encode; use "
                f"max_size or freq_threshold",
            )

    def outputs(self, inputs: Inputs, fitted: Fitted | None) -> Iterable[Output]:
        vocabularies = self.vocabularies(inputs)
        total = sum(_cardinality(v, fitted) for v in vocabularies) if fitted and self.single_table else None
        start = 0
        for vocabulary in vocabularies:
            for columns in vocabulary.encoded:
                column = self._described(inputs, vocabulary, columns, fitted, total)
                value = None if fitted is None else self._encoded(inputs, vocabulary, columns, fitted, start)
                yield Output(column, inputs[columns[0]] if value is None else value)
            if fitted is not None and self.single_table:
                start += _cardinality(vocabulary, fitted)

    def _described(
        self,
        inputs: Inputs,
        vocabulary: VocabularySpec,
        columns: Sequence[str],
        fitted: Fitted | None,
        total: int | None,
    ) -> ColumnSchema:
        first = inputs.column(columns[0]).as_list()
        if vocabulary.combined:
            first = ColumnSchema(vocabulary.name)
        made = retagged(first, Tags.CATEGORICAL).with_dtype(self.dtype or "int64")
        settings = {
            "num_buckets": vocabulary.buckets if self.num_buckets else None,
            "freq_threshold": vocabulary.threshold,
            "max_size": vocabulary.most,
        }
        if fitted is None:
            return made.with_properties(settings)
        cardinality = total or _cardinality(vocabulary, fitted)
        return made.with_properties(
            {
                **settings,
                "domain": {"min": 0, "max": cardinality - 1, "name": vocabulary.name},
                "embedding_sizes": {"cardinality": cardinality, "dimension": embedding_size(cardinality)},
            }
        )

    def _encoded(
        self, inputs: Inputs, vocabulary: VocabularySpec, columns: Sequence[str], fitted: Fitted, start: int
    ) -> Call:
        dtype = polars_type(self.dtype or "int64")
        table = fitted.tables[vocabulary.name]
        find = partial(fitted.once, vocabulary.name, lambda: Lookup(table.frame.select(named_columns(vocabulary.keys))))
        strict = self.unseen == "error"
        named = "_".join(columns)
        encode = partial(
            _codes, name=named, find=find, buckets=vocabulary.buckets, start=start, dtype=dtype, strict=strict
        )
        if vocabulary.combined:
            return Call(encode, {name: inputs[name] for name in columns}, self.label)
        name = columns[0]
        return Call(
            lambda given: over_leaves(given[0], lambda leaves: encode([leaves])),
            {name: inputs[name]},
            self.label,
        )

    @property
    def categories(self) -> dict[str, LearntTable]:
        """The vocabularies of the latest fit: values and how often each was seen, in the order of their codes.

        Each is a frame, and also stands for the path of a Parquet file: `pd.read_parquet(op.categories["x"])`.
        """
        return {name: shown_table(self.learnt, name, partial(named, name)) for name in self.learnt.tables}


def _codes(
    columns: list[pl.Series], *, name: str, find: Any, buckets: int, start: int, dtype: pl.DataType, strict: bool
) -> pl.Series:
    columns = [without_nan(column.alias(f"column {n}")) for n, column in enumerate(columns)]
    places = find().find(columns)
    codes = places.astype(np.int64)
    codes += OOV + buckets  # an unseen value, at place -1, gets the last of the out-of-vocabulary codes
    null = _all_null(columns)
    if strict or buckets > 1:
        unseen = places < 0 if null is None else (places < 0) & ~null
        if strict and unseen.any():
            raise _refused(name, columns, unseen)
        if buckets > 1 and unseen.any():
            hashed = hashes([column.filter(pl.Series(unseen)) for column in columns])
            codes[unseen] = OOV + (hashed % np.uint64(buckets)).astype(np.int64)
    if null is not None:
        codes[null] = NULL
    if start:
        codes += start
    made = pl.Series("codes", codes)
    return made if made.dtype == dtype else made.cast(dtype)


def _all_null(columns: list[pl.Series]) -> Any:
    """Which rows are null in every column; None if there is none."""
    if not all(column.null_count() for column in columns):
        return None
    if all(column.null_count() == len(column) for column in columns):
        return np.ones(len(columns[0]), bool)
    return np.logical_and.reduce([column.is_null().to_numpy() for column in columns])


def _refused(name: str, columns: list[pl.Series], unseen: Any) -> UnseenValueError:
    rows = pl.DataFrame(columns).filter(pl.Series(unseen)).unique(maintain_order=True).head(3).rows()
    shown = [row[0] if len(row) == 1 else row for row in rows]
    return UnseenValueError(
        f"column {name!r} has values that were not there when the workflow was fitted: "
        f"{shown}; fit again, or use Categorify(unseen='oov')"
    )


def _cardinality(vocabulary: VocabularySpec, fitted: Fitted) -> int:
    return OOV + vocabulary.buckets + fitted.tables[vocabulary.name].height


def _leaf_type(column: ColumnSchema) -> pl.DataType:
    return frame_type(ColumnSchema(column.name, column.as_list().dtype))


def _for(given: Any, columns: Sequence[str]) -> int | None:
    """A setting for a vocabulary: one for all, or by the name of one of its columns."""
    if not isinstance(given, Mapping):
        return int(given) if given else None
    return next((given[name] for name in ("_".join(columns), *columns) if name in given), None)
