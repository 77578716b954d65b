"""Rowmill feeds tables to models: Parquet (or any frame) in, shuffled batches of tensors out."""

from rowmill import cache, dtypes, io, ops
from rowmill.dataset import Dataset
from rowmill.graph.node import Node as WorkflowNode
from rowmill.graph.selector import ColumnGroup, ColumnSelector
from rowmill.schema import ColumnSchema, Schema, Tags, TagSet
from rowmill.workflow import Workflow

__version__ = "0.1.0"
__all__ = [
    "ColumnGroup",
    "ColumnSchema",
    "ColumnSelector",
    "Dataset",
    "Schema",
    "TagSet",
    "Tags",
    "Workflow",
    "WorkflowNode",
    "__version__",
    "cache",
    "dtypes",
    "io",
    "ops",
]
