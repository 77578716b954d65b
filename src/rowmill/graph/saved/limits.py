"""Bounds on what a graph of operators may do with small tables: a saved workflow can come from anybody.

Each operator says how many times as large as its input its output can be (`Operator.growth`). Along a path of the graph
these multiply; side by side, what each adds is added.
"""

from __future__ import annotations

from rowmill.errors import WorkflowFileError
from rowmill.graph.node import Apply, Node, walk
from rowmill.graph.saved.expressions import MAX_GROWTH

MAX_NODES = 2_000
MAX_DEPTH = 200  # operators one after another


def check_limits(output: Node) -> None:
    """Refuse a graph of too many nodes, or one that can make its input more than `MAX_GROWTH` times as large."""
    growth: dict[int, float] = {}
    depth: dict[int, int] = {}
    for number, node in enumerate(walk(output)):
        before = 1.0 + sum(growth[number] - 1.0 for number in {id(parent) for parent in node.upstream})
        own = float(node.operator.growth) if isinstance(node, Apply) else 1.0
        growth[id(node)] = before * max(1.0, own)
        depth[id(node)] = max((depth[id(parent)] for parent in node.upstream), default=0) + 1
        if number >= MAX_NODES or depth[id(node)] > MAX_DEPTH:
            raise WorkflowFileError(
                f"the graph has more than {MAX_NODES:,} nodes, or more than {MAX_DEPTH} one after another. It can be "
                f"neither saved nor loaded; apply each operator to many columns at once"
            )
        if not growth[id(node)] <= MAX_GROWTH:
            raise WorkflowFileError(
                f"{node.label} can make its input more than {MAX_GROWTH:,} times as large, together with what is "
                f"before it. It can be neither saved nor loaded; make its lists, texts or joins smaller"
            )
