"""Bounds on what a graph of operators may do with small tables: a saved workflow can come from anybody.

Each operator says how many times as large as its input its output can be (`Operator.growth`). Along a path of the graph
these multiply.
"""

from __future__ import annotations

from rowmill.errors import WorkflowFileError
from rowmill.graph.expressions import MAX_GROWTH
from rowmill.graph.node import Apply, Node, walk


def check_growth(output: Node) -> None:
    """Refuse a graph that can make values or tables more than `MAX_GROWTH` times as large as what goes in."""
    growth: dict[int, float] = {}
    for node in walk(output):
        before = max((growth[id(parent)] for parent in node.parents), default=1.0)
        own = float(node.operator.growth) if isinstance(node, Apply) else 1.0
        growth[id(node)] = before * max(1.0, own)
        if not growth[id(node)] <= MAX_GROWTH:
            raise WorkflowFileError(
                f"{node.label} can make its input more than {MAX_GROWTH:,} times as large, together with what "
                f"is before it. It can be neither saved nor loaded; make its lists, texts or joins smaller"
            )
