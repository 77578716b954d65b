"""The generated parts of docs/design.md and CONTRIBUTING.md: the tree of modules, and the table of layers.

python -m tests.design_page    rewrites what stands between the markers

The tree has the first line of every module's docstring; the table is the rule that `tests/test_layers.py` checks.
"""

import ast
import itertools
import re
from pathlib import Path

from tests.test_layers import ALLOWED

PROJECT = Path(__file__).parent.parent
ROOT = PROJECT / "src" / "rowmill"


def first_line(path: Path) -> str:
    text = (ast.get_docstring(ast.parse(path.read_text())) or "").strip()
    sentence = re.split(r"(?<=[a-z`)])\.\s|\n\n", text)[0]
    return " ".join(sentence.split()).rstrip(".")


def first_comment(path: Path) -> str:
    """The first sentence of the comment at the top of a C++ file."""
    lines = itertools.takewhile(lambda line: line.startswith("//"), path.read_text().splitlines())
    return re.split(r"\.(?:\s|$)", " ".join(line.removeprefix("//").strip() for line in lines))[0]


def _entries(folder: Path, depth: int) -> list[str]:
    indent, width = "  " * depth, 28 - 2 * depth
    modules = [path for path in sorted(folder.glob("*.py")) if path.name not in ("__init__.py", "__main__.py")]
    native = [f"{indent}{path.name:<{width}}{first_comment(path)}" for path in sorted(folder.glob("*.[ch]pp"))]
    lines = native + [f"{indent}{path.name:<{width}}{first_line(path)}" for path in modules]
    for path in sorted(p for p in folder.iterdir() if (p / "__init__.py").is_file()):
        lines.append(f"{indent}{path.name + '/':<{width}}{first_line(path / '__init__.py')}")
        lines += _entries(path, depth + 1)
    return lines


def tree() -> str:
    """Every module, with the first sentence of its docstring."""
    return "\n".join(["```", "src/rowmill/", *_entries(ROOT, 1), "```"])


def layers() -> str:
    """Who may import whom."""
    lines = ["| part | may import |", "|---|---|"]
    for part, allowed in ALLOWED.items():
        others = sorted(allowed - {part})
        text = "everything" if "*" in allowed else ", ".join(f"`{name}`" for name in others) or "nothing of Rowmill"
        lines.append(f"| `{part}` | {text} |")
    return "\n".join(lines)


PARTS = {
    PROJECT / "docs" / "design.md": {"tree": tree},
    PROJECT / "CONTRIBUTING.md": {"layers": layers},
}


def written(path: Path) -> str:
    """The page with its generated parts as they should be."""
    text = path.read_text()
    for name, make in PARTS[path].items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"{path}: no {begin} ... {end}"
        text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text


if __name__ == "__main__":
    for page in PARTS:
        page.write_text(written(page))
