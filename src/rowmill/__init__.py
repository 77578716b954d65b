"""Rowmill feeds tables to models: Parquet (or any frame) in, shuffled batches of tensors out.

The public names are imported when they are first used, so that a training program does not wait for what it leaves out.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_NAMES = {
    "ColumnGroup": ("graph.selector", "ColumnGroup"),
    "ColumnSchema": ("schema", "ColumnSchema"),
    "ColumnSelector": ("graph.selector", "ColumnSelector"),
    "Dataset": ("dataset", "Dataset"),
    "Schema": ("schema", "Schema"),
    "TagSet": ("schema", "TagSet"),
    "Tags": ("schema", "Tags"),
    "Workflow": ("workflow", "Workflow"),
    "WorkflowNode": ("graph.node", "Node"),
}
_MODULES = {"cache", "dtypes", "io", "ops"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"rowmill.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'rowmill' has no attribute {name!r}")
    module, attribute = _NAMES[name]
    globals()[name] = found = getattr(import_module(f"rowmill.{module}"), attribute)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
