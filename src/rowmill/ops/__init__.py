"""The operators. `OPERATORS` is all that a saved workflow can name."""

from rowmill.graph.node import Subgraph
from rowmill.graph.operator import Operator, StatOperator
from rowmill.graph.selector import ColumnSelector
from rowmill.ops.bucket import Bucketize, HashBucket, HashedCross
from rowmill.ops.categorify import Categorify
from rowmill.ops.column_similarity import ColumnSimilarity
from rowmill.ops.describe import (
    AddMetadata,
    AddProperties,
    AddTags,
    DataStats,
    DropLowCardinality,
    ReduceDtypeSize,
    Rename,
    TagAsItemFeatures,
    TagAsItemID,
    TagAsUserFeatures,
    TagAsUserID,
)
from rowmill.ops.embedding import get_embedding_sizes
from rowmill.ops.fill import FillMedian, FillMissing
from rowmill.ops.join import JoinExternal, JoinGroupby
from rowmill.ops.lists import ListSlice, ValueCount
from rowmill.ops.rows import DifferenceLag, Dropna, Filter, Groupby
from rowmill.ops.scale import Clip, LogOp, Normalize, NormalizeMinMax
from rowmill.ops.target import TargetEncoding
from rowmill.ops.times import DateParts, JoinAsOf, TimeDifference
from rowmill.ops.udf import Expr, LambdaOp

OPERATORS: dict[str, type[Operator]] = {
    operator.__name__: operator
    for operator in (
        AddMetadata, AddProperties, AddTags, Bucketize, Categorify, Clip, ColumnSimilarity, DataStats,
        DateParts, DifferenceLag, DropLowCardinality, Dropna, Expr, FillMedian, FillMissing, Filter, Groupby,
        HashBucket, HashedCross, JoinAsOf, JoinExternal, JoinGroupby, LambdaOp, ListSlice, LogOp, Normalize,
        NormalizeMinMax, ReduceDtypeSize, Rename, TagAsItemFeatures, TagAsItemID, TagAsUserFeatures,
        TagAsUserID, TargetEncoding, TimeDifference, ValueCount,
    )
}  # fmt: skip

__all__ = [
    "OPERATORS",
    "AddMetadata",
    "AddProperties",
    "AddTags",
    "Bucketize",
    "Categorify",
    "Clip",
    "ColumnSelector",
    "ColumnSimilarity",
    "DataStats",
    "DateParts",
    "DifferenceLag",
    "DropLowCardinality",
    "Dropna",
    "Expr",
    "FillMedian",
    "FillMissing",
    "Filter",
    "Groupby",
    "HashBucket",
    "HashedCross",
    "JoinAsOf",
    "JoinExternal",
    "JoinGroupby",
    "LambdaOp",
    "ListSlice",
    "LogOp",
    "Normalize",
    "NormalizeMinMax",
    "Operator",
    "ReduceDtypeSize",
    "Rename",
    "StatOperator",
    "Subgraph",
    "TagAsItemFeatures",
    "TagAsItemID",
    "TagAsUserFeatures",
    "TagAsUserID",
    "TargetEncoding",
    "TimeDifference",
    "ValueCount",
    "get_embedding_sizes",
]
