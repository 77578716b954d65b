"""Pictures as inline SVG: a picture in, a string out. Colours are CSS variables, so they follow light and dark.

A picture is 400 units wide, about the width of a phone; text of 13 units stays readable there.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rowmill.report.pictures import Bars, Histogram, Line, Picture

WIDTH = 400.0
LETTER = 7.5  # units of a letter, about
TEXTS = 62.0  # units for the figures beside them
ROW = 22.0
PLOT = 120.0  # height of a histogram or a line
LETTERS = 18  # of a name beside its bar


def draw(picture: Picture) -> str:
    """The picture with its title as a caption for readers that do not see."""
    if isinstance(picture, Bars):
        return _bars(picture)
    if isinstance(picture, Histogram):
        return _framed(picture, _columns(picture.values, WIDTH, PLOT))
    return _framed(picture, _line(picture))


def spark(values: Sequence[float], title: str) -> str:
    """A distribution small enough for a cell of a table."""
    return _svg(96.0, 24.0, title, _columns(values, 96.0, 24.0), "spark")


def _svg(width: float, height: float, title: str, inner: str, kind: str = "chart") -> str:
    label = escape(title, quote=True)
    return f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}">{inner}</svg>'


def _bars(picture: Bars) -> str:
    longest = max(picture.values, default=0.0) or 1.0
    names = 12 + LETTER * min(LETTERS, max(map(len, picture.labels), default=0))
    parts = []
    for number, (label, value, text) in enumerate(zip(picture.labels, picture.values, picture.texts, strict=True)):
        y = number * ROW
        width = max(1.0, value / longest * (WIDTH - names - TEXTS)) if value > 0 else 0.0
        short = label if len(label) <= LETTERS else label[: LETTERS - 1] + "…"
        parts.append(
            f"<g><title>{escape(label)}: {escape(text)}</title>"
            f'<text class="name" x="{names - 8:g}" y="{y + 15:g}" text-anchor="end">{escape(short)}</text>'
            f'<rect class="mark" x="{names:g}" y="{y + 4:g}" width="{width:.1f}" height="{ROW - 8:g}" rx="3"/>'
            f'<text class="figure" x="{names + width + 6:.1f}" y="{y + 15:g}">{escape(text)}</text></g>'
        )
    return _svg(WIDTH, max(ROW, len(picture.labels) * ROW), picture.title, "".join(parts))


def _columns(values: Sequence[float], width: float, height: float) -> str:
    tallest = max(values, default=0.0) or 1.0
    step = width / max(8, len(values))
    gap = min(2.0, step / 5)
    parts = []
    for number, value in enumerate(values):
        tall = max(1.0, value / tallest * height) if value > 0 else 0.0
        parts.append(
            f'<rect class="mark" x="{number * step:.1f}" y="{height - tall:.1f}" width="{step - gap:.1f}" '
            f'height="{tall:.1f}" rx="{min(2.0, step / 6):.1f}"/>'
        )
    return "".join(parts)


def _line(picture: Line) -> str:
    high = max(picture.y, default=0.0) or 1.0
    end = max(picture.x, default=0.0) or 1.0
    points = [(x / end * WIDTH, PLOT - y / high * (PLOT - 4)) for x, y in zip(picture.x, picture.y, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{PLOT:g} {path} {points[-1][0]:.1f},{PLOT:g}" if points else ""
    return f'<polygon class="area" points="{area}"/><polyline class="line" points="{path}"/>'


def _framed(picture: Histogram | Line, inner: str) -> str:
    """The plot with its highest value above and the ends of its axis below."""
    left = picture.left if isinstance(picture, Histogram) else "0"
    frame = (
        f'<text class="figure" x="0" y="12">{escape(picture.top)}</text>'
        f'<line class="rule" x1="0" x2="{WIDTH:g}" y1="18" y2="18"/>'
        f'<g transform="translate(0 18)">{inner}</g>'
        f'<line class="rule" x1="0" x2="{WIDTH:g}" y1="{PLOT + 18:g}" y2="{PLOT + 18:g}"/>'
        f'<text class="name" x="0" y="{PLOT + 34:g}">{escape(left)}</text>'
        f'<text class="name" x="{WIDTH:g}" y="{PLOT + 34:g}" text-anchor="end">{escape(picture.right)}</text>'
    )
    return _svg(WIDTH, PLOT + 40, picture.title, frame)
