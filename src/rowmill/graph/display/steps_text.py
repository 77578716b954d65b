"""A graph as lines of text: what each branch of it selects, and which operators it goes through."""

from __future__ import annotations

from rowmill.graph.node import Apply, Concat, Node, Select, walk

_LONG = 160  # letters of a line


def steps_text(output: Node) -> list[str]:
    """A line for each operand of the last `+`: `[C1, C2] >> Categorify`."""
    texts: dict[int, str] = {}
    for node in walk(output):
        texts[id(node)] = _shortened(_text(node, [texts[id(parent)] for parent in node.upstream]))
    branches = output.upstream if isinstance(output, Concat) else (output,)
    return [texts[id(branch)] for branch in branches]


def _text(node: Node, parents: list[str]) -> str:
    if isinstance(node, Select):
        return f"[{node.label}]"
    if isinstance(node, Concat):
        return f"({' + '.join(parents)})"
    return f"{parents[0]} >> {node.label}" if isinstance(node, Apply) else f"{parents[0]} ({node.label})"


def _shortened(text: str) -> str:
    """The ends of a long line: where it begins, and what it does last."""
    half = _LONG // 2
    return text if len(text) <= _LONG else f"{text[: half - 3]} ... {text[-half:]}"
