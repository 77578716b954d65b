"""What one would write without Rowmill to prepare the Criteo table: plain Polars, group_by and left joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

FIRST_CODE = 3  # after padding, null and unseen


@dataclass(frozen=True)
class Learnt:
    """Vocabularies with their codes; mean and deviation of each number."""

    vocabularies: dict[str, pl.DataFrame]
    moments: dict[str, tuple[float, float]]


def logged(name: str) -> pl.Expr:
    """A count as it is scaled: nulls and negative ones are 0, then the logarithm of one more."""
    return (pl.col(name).fill_null(0).clip(0).cast(pl.Float32) + 1).log()


def fit(paths: Sequence[Path], cats: Sequence[str], conts: Sequence[str]) -> Learnt:
    """All in one pass over a table in memory."""
    table = pl.read_parquet(list(paths), columns=[*cats, *conts])
    vocabularies = {}
    for name in cats:
        counted = table.select(name).drop_nulls().group_by(name).len()
        ordered = counted.sort(["len", name], descending=[True, False])
        vocabularies[name] = ordered.select(name).with_row_index("code", offset=FIRST_CODE)
    logs = table.select(logged(name).cast(pl.Float64).alias(name) for name in conts)
    means, stds = logs.mean().row(0), logs.std().row(0)
    return Learnt(vocabularies, {n: (m, s) for n, m, s in zip(conts, means, stds, strict=True)})


def transform(path: Path, learnt: Learnt, target: Path, label: str) -> int:
    """One file: a left join for each vocabulary, and the numbers scaled."""
    table = pl.read_parquet(path)
    for name, vocabulary in learnt.vocabularies.items():
        table = table.join(vocabulary, on=name, how="left", maintain_order="left").with_columns(
            pl.when(pl.col(name).is_null()).then(1).otherwise(pl.col("code").fill_null(2)).cast(pl.Int64).alias(name)
        )
        table = table.drop("code")
    scaled = [((logged(n).cast(pl.Float64) - m) / s).cast(pl.Float32).alias(n) for n, (m, s) in learnt.moments.items()]
    made = table.with_columns(scaled).select(*learnt.moments, *learnt.vocabularies, label)
    made.write_parquet(target, compression="snappy")
    return made.height
