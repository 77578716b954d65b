"""Rowmill feeds tables to models: Parquet (or any frame) in, shuffled batches of tensors out."""

from rowmill import cache, io
from rowmill.dataset import Dataset
from rowmill.schema import ColumnSchema, Schema, Tags

__version__ = "0.1.0"
__all__ = ["ColumnSchema", "Dataset", "Schema", "Tags", "__version__", "cache", "io"]
