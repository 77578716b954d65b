"""Partitions for operators that look at whole ones (Groupby, DifferenceLag): rows that belong together in one of them.

A dataset comes in; it goes out as it is where `shuffle_by_keys` has brought the keys together, as one partition where
it is small, and otherwise as it is with a warning. Called by `Workflow`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowmill.dataset import Dataset
from rowmill.errors import PartitionWarning, warn
from rowmill.graph.node import Apply, Node, walk

LARGEST = 256 << 20  # bytes of rows in memory that are taken as one partition


def whole_partitions(data: Dataset, columns: Sequence[str], output: Node) -> Dataset:
    """The dataset in partitions that each hold all rows of a key, as far as possible. `columns` are those read."""
    nodes = [node for node in walk(output) if isinstance(node, Apply) and not node.operator.rowwise]
    keys = [frozenset(getattr(node.operator, "keys", ())) for node in nodes]
    if data.npartitions <= 1 or (data.keyed_by and all(data.keyed_by <= each for each in keys)):
        return data
    size = data.num_rows * data.source.row_bytes(list(columns))
    if size <= LARGEST:
        return data.repartition(npartitions=1)
    names = sorted(keys[0]) if keys else []
    warn(
        f"{nodes[0].label} looks at one partition at a time, and rows with the same {names} may be in several of the "
        f"{data.npartitions} partitions, so a key may come out several times; the table is too large "
        f"({size / 1e6:,.0f} MB) to be taken as one; use dataset.shuffle_by_keys({names}) first",
        PartitionWarning,
    )
    return data
