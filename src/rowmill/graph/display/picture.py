"""The picture of a graph: SVG drawn by ourselves, columns at the top and what is made of them below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike

from rowmill.graph.node import Apply, Node, Select, walk
from rowmill.schema import Schema
from rowmill.sources.files.paths import local_path

_LINE, _LETTER, _GAP, _HIGH = 64, 7.2, 28, 34


@dataclass(frozen=True)
class Picture:
    """Shows itself in a notebook; `save(path)` writes an SVG file."""

    node: Node

    @property
    def output_node(self) -> Node:
        return self.node

    @property
    def input_schema(self) -> Schema:
        """The columns of the table that the graph selects, once a workflow with it has seen a table."""
        selected = [node.output_schema for node in walk(self.node) if isinstance(node, Select)]
        return Schema({column.name: column for schema in selected for column in schema})

    @property
    def output_schema(self) -> Schema:
        """The columns that come out, once a workflow with the graph has seen a table."""
        return self.node.output_schema

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | PathLike[str]) -> None:
        local_path(path, "path").write_text(self.svg())

    def svg(self) -> str:
        nodes = list(walk(self.node))
        place = _places(nodes)
        total = max(x + _width(node) / 2 for node in nodes for x, _ in [place[id(node)]]) + _GAP / 2
        high = max(y for _, y in place.values()) + _HIGH / 2 + 8
        drawn = [_edge(place[id(p)], place[id(n)]) for n in nodes for p in n.upstream]
        drawn += [_box(node, place[id(node)]) for node in nodes]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:.0f} {high:.0f}" width="{total:.0f}" '
            f'height="{high:.0f}" font-family="monospace" font-size="12">{"".join(drawn)}</svg>'
        )


def _places(nodes: Sequence[Node]) -> dict[int, tuple[float, float]]:
    """The middle of each box: a node stands below its parents, just above its child, beside those of its line."""
    below = dict.fromkeys(map(id, nodes), 0)  # lines between a node and the last
    for node in reversed(nodes):
        for parent in node.upstream:
            below[id(parent)] = max(below[id(parent)], below[id(node)] + 1)
    x: dict[int, float] = {}
    right = 0.0
    for node in nodes:
        if node.upstream:
            x[id(node)] = sum(x[id(parent)] for parent in node.upstream) / len(node.upstream)
        else:
            x[id(node)] = right + _GAP / 2 + _width(node) / 2
            right += _width(node) + _GAP
    lines = max(below.values())
    for line in range(lines + 1):
        end = 0.0
        for node in sorted((n for n in nodes if below[id(n)] == line), key=lambda n: x[id(n)]):
            x[id(node)] = max(x[id(node)], end + _GAP / 2 + _width(node) / 2)
            end = x[id(node)] + _width(node) / 2 + _GAP / 2
    return {id(node): (x[id(node)], (lines - below[id(node)]) * _LINE + _HIGH / 2 + 8) for node in nodes}


def _text(node: Node) -> str:
    return node.label if len(node.label) <= 44 else node.label[:43] + "…"


def _width(node: Node) -> float:
    return max(36.0, len(_text(node)) * _LETTER + 20)


def _box(node: Node, at: tuple[float, float]) -> str:
    fill = "#dbeafe" if isinstance(node, Select) else "#dcfce7" if isinstance(node, Apply) else "#f1f5f9"
    x, y = at[0] - _width(node) / 2, at[1] - _HIGH / 2
    return (
        f'<g><title>{escape(node.label)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{_width(node):.1f}" '
        f'height="{_HIGH}" rx="7" fill="{fill}" stroke="#64748b"/><text x="{at[0]:.1f}" y="{at[1] + 4:.1f}" '
        f'text-anchor="middle" fill="#0f172a">{escape(_text(node))}</text></g>'
    )


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = (start[0], start[1] + _HIGH / 2), (end[0], end[1] - _HIGH / 2)
    middle = (y + to_y) / 2
    path = f"M{x:.1f},{y:.1f} C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}"
    return f'<path d="{path}" fill="none" stroke="#94a3b8"/>'
