"""Rowmill feeds tables to models: Parquet (or any frame) in, shuffled batches of tensors out."""

from rowmill import cache, io, ops
from rowmill.dataset import Dataset
from rowmill.graph.node import Node as WorkflowNode
from rowmill.graph.selector import ColumnSelector
from rowmill.schema import ColumnSchema, Schema, Tags
from rowmill.workflow import Workflow

__version__ = "0.1.0"
__all__ = [
    "ColumnSchema",
    "ColumnSelector",
    "Dataset",
    "Schema",
    "Tags",
    "Workflow",
    "WorkflowNode",
    "__version__",
    "cache",
    "io",
    "ops",
]
