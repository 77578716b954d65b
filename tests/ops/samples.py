"""One use of every operator, on a table that has something for each: what the contract is tested on."""

from datetime import datetime

import numpy as np
import polars as pl

from rowmill import ops
from rowmill.graph.node import Node, select

ROWS = 240


def table(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    draw = np.random.default_rng(seed)

    def holes(values, share=0.2):
        return pl.Series(values).set(pl.Series(draw.random(rows) < share), None)

    return pl.DataFrame(
        {
            "a": holes(draw.integers(-50, 50, rows)).cast(pl.Int32),
            "b": holes(draw.normal(1e6, 1.0, rows)),
            "f": pl.Series(draw.normal(0, 3, rows)).cast(pl.Float32),
            "c": holes(draw.zipf(1.5, rows) % 40).cast(pl.Int64),
            "d": holes(draw.integers(0, 9, rows)).cast(pl.Int16),
            "s": holes([f"word {i}" for i in draw.zipf(1.7, rows) % 20]),
            "t": pl.Series(draw.integers(0, 2, rows)).cast(pl.Float32),
            "i": draw.integers(0, 6, rows),
            "j": draw.integers(0, 6, rows),
            "l": pl.Series(
                [draw.integers(0, 30, draw.integers(0, 5)).tolist() for _ in range(rows)], dtype=pl.List(pl.Int64)
            ),
            "at": holes(draw.integers(0, 10**9, rows)).cast(pl.Datetime("ms")).cast(pl.Datetime("us")),
        }
    )


def double(column):
    return column * 2


def mixed(column, frame):
    return column.fillna(0) + frame["f"]


def positive(frame):
    return frame["f"] > 0


def shout(name):
    return name.upper()


FUNCTIONS = {"double": double, "mixed": mixed, "positive": positive, "shout": shout}

OTHER = pl.DataFrame({"key": range(0, 40, 2), "price": np.arange(20) / 3, "name": [f"item {i}" for i in range(20)]})
TWICE = pl.concat([OTHER, OTHER.head(3)])
PRICES = pl.DataFrame({"i": [0, 0, 2, 3, 3, 5], "j": [1, 1, 2, 2, 3, 4], "cost": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]})
FEATURES = np.array([[1, 0, 2], [0, 1, 0], [3, 0, 1], [0, 0, 0], [1, 1, 1], [0, 2, 0]], float)

SAMPLES: dict[str, Node] = {
    "AddMetadata": ["a", "c"] >> ops.AddMetadata(tags=["user"], properties={"k": 1}),
    "AddTags": ["a"] >> ops.AddTags(tags=["item"]),
    "AddProperties": ["a"] >> ops.AddProperties({"p": [1, 2]}),
    "TagAsUserID": ["c"] >> ops.TagAsUserID(),
    "TagAsItemID": ["c"] >> ops.TagAsItemID(),
    "TagAsUserFeatures": ["c"] >> ops.TagAsUserFeatures(),
    "TagAsItemFeatures": ["c"] >> ops.TagAsItemFeatures(),
    "Bucketize": ["a", "f"] >> ops.Bucketize([-10, 0, 0.5, 20]),
    "Categorify": ["c", "d", "s", "l"] >> ops.Categorify(),
    "Categorify joint": [["c", "d"], "s"] >> ops.Categorify(encode_type="joint", freq_threshold=3, num_buckets=4),
    "Categorify combo": [["c", "s"], "d"] >> ops.Categorify(encode_type="combo", max_size=12),
    "Categorify one table": ["c", "s"] >> ops.Categorify(single_table=True, dtype="int32"),
    "Categorify given": ["c", "s"] >> ops.Categorify(vocabs={"s": pl.Series(["word 1", "word 2"])}),
    "Clip": ["a", "b", "f"] >> ops.Clip(min_value=-1.5, max_value=10),
    "ColumnSimilarity": [("i", "j")] >> ops.ColumnSimilarity(FEATURES),
    "DataStats": ["a", "b", "f", "s", "c"] >> ops.DataStats(),
    "DifferenceLag": ["a", "f"] >> ops.DifferenceLag("i", shift=[1, -1]),
    "DropLowCardinality": ["c", "t"] >> ops.Categorify() >> ops.DropLowCardinality(6),
    "Dropna": ["a", "c", "f"] >> ops.Dropna(),
    "Expr": ["a", "f", "s"]
    >> ops.Expr(
        (pl.col("a") * 2 + pl.col("f")).alias("sum"), pl.col("s").str.len_chars(), keep=True, z=pl.col("f").abs()
    ),
    "FillMedian": ["a", "b", "f"] >> ops.FillMedian(add_binary_cols=True),
    "FillMissing": ["a", "b", "f"] >> ops.FillMissing(7, add_binary_cols=True),
    "FillMissing string": ["s"] >> ops.FillMissing("none"),
    "Filter": ["a", "f"] >> ops.Filter(positive),
    "Filter by expression": ["a", "f"] >> ops.Filter(pl.col("a") > 3),
    "Groupby": ["i", "a", "f", "c"]
    >> ops.Groupby(
        ["i"], sort_cols=["f"], aggs={"a": ["list", "first", "count"], "f": ["mean", "max", "std"], "c": "nunique"}
    ),
    "HashBucket": ["c", "s", "f", "l"] >> ops.HashBucket({"c": 10, "s": 7, "l": 5}),
    "HashedCross": [["c", "s"], ["d", "a"]] >> ops.HashedCross(100),
    "JoinExternal": ["c", "a"] >> ops.JoinExternal(OTHER, on="c", on_ext="key"),
    "JoinExternal inner": ["c", "a"]
    >> ops.JoinExternal(TWICE, on="c", on_ext="key", how="inner", columns_ext=["price"]),
    "JoinGroupby": ["c", ["d", "s"]]
    >> ops.JoinGroupby(cont_cols=["a", "b"], stats=["count", "sum", "mean", "std", "var", "min", "max"]),
    "LambdaOp": ["a", "b"] >> ops.LambdaOp(double),
    "LambdaOp with frame": ["a"] >> ops.LambdaOp(mixed, dependency=["f"], dtype="float64", tags=["continuous"]),
    "DateParts": ["at"] >> ops.DateParts(),
    "DateParts others": ["at"] >> ops.DateParts(["quarter", "week", "dayofyear", "is_weekend", "minute", "second"]),
    "JoinAsOf": ["i", "j"] >> ops.JoinAsOf(PRICES, on="i", by="j", tolerance=3),
    "JoinAsOf nearest": ["i", "a"] >> ops.JoinAsOf(PRICES, on="i", strategy="nearest", columns_ext=["cost"]),
    "TimeDifference": ["at"] >> ops.TimeDifference(datetime(1970, 1, 5), unit="h"),
    "TimeDifference of columns": ["at"] >> ops.TimeDifference("at", unit="d", name="none", out_dtype="float64"),
    "ListSlice": ["l"] >> ops.ListSlice(1, 3),
    "ListSlice padded": ["l"] >> ops.ListSlice(-3, pad=True, pad_value=-1),
    "LogOp": ["a", "f"] >> ops.Clip(min_value=0) >> ops.LogOp(),
    "Normalize": ["a", "b", "f", "l"] >> ops.Normalize(),
    "Normalize float64": ["a"] >> ops.Normalize(out_dtype="float64"),
    "NormalizeMinMax": ["a", "b", "f"] >> ops.NormalizeMinMax(),
    "ReduceDtypeSize": ["a", "c", "i", "b"] >> ops.ReduceDtypeSize(),
    "Rename": ["a", "b"] >> ops.Rename(postfix="_x"),
    "Rename by function": ["a", "b"] >> ops.Rename(shout),
    "Rename one": ["a"] >> ops.Rename(name="z"),
    "TargetEncoding": ["c", ["d", "s"]] >> ops.TargetEncoding("t", kfold=4, p_smooth=5),
    "TargetEncoding whole": ["s"] >> ops.TargetEncoding(["t", "f"], kfold=1, out_dtype="float64"),
    "ValueCount": ["l", "a"] >> ops.ValueCount(),
    "chain": (["a", "b"] >> ops.FillMissing() >> ops.Normalize() >> ops.Clip(min_value=-1))
    + (["c", "s"] >> ops.Categorify() >> ops.Rename(postfix="_id"))
    + select(["t"]),
    "learn twice": ["a", "b"] >> ops.FillMedian() >> ops.Normalize() >> ops.NormalizeMinMax(),
    "after a filter": (["a", "f"] >> ops.Filter(positive) >> ops.Normalize()) + ["c"],
    "by name": select(["a", "b", "f"])[["a", "f"]] - ["f"],
}
