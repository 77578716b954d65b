"""The pictures of a report as PNG files, drawn by matplotlib (the extra `demo` has it): a picture in, a file out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rowmill.errors import MissingExtraError
from rowmill.report.pictures import Bars, Line, Picture

INK, FAINT, MARK, RULE = "#22262B", "#6A7078", "#0072B2", "#C9CDD2"


def save(picture: Picture, path: Path) -> None:
    """Draw one picture."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "pictures as PNG need matplotlib, which is not installed; pip install 'rowmill[demo]'"
        ) from error
    tall = 0.9 + 0.24 * len(picture.labels) if isinstance(picture, Bars) else 2.6
    figure = Figure(figsize=(6, max(1.6, tall)), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(RULE)
    axes.tick_params(colors=FAINT, labelsize=9)
    axes.set_title(_plain(picture.title), loc="left", fontsize=11, color=INK)
    if picture.note:
        axes.set_xlabel(_plain(picture.note), fontsize=8, color=FAINT)
    _bars(axes, picture) if isinstance(picture, Bars) else _plot(axes, picture)
    figure.savefig(path, dpi=150)


def _bars(axes: Any, picture: Bars) -> None:
    places = range(len(picture.labels))
    axes.barh(places, picture.values, color=MARK, height=0.65)
    axes.set_yticks(places, [_plain(label) for label in picture.labels])
    axes.invert_yaxis()
    axes.set_xticks([])
    axes.set_xlim(0, 1.2 * (max(picture.values, default=0.0) or 1.0))
    for place, (value, text) in enumerate(zip(picture.values, picture.texts, strict=True)):
        axes.text(value, place, f" {_plain(text)}", va="center", fontsize=9, color=INK)


def _plot(axes: Any, picture: Any) -> None:
    if isinstance(picture, Line):
        axes.plot(picture.x, picture.y, color=MARK, linewidth=2)
        axes.fill_between(picture.x, picture.y, color=MARK, alpha=0.15)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        return
    axes.bar(range(len(picture.values)), picture.values, color=MARK, width=0.85)
    axes.set_xticks([0, max(0, len(picture.values) - 1)], [_plain(picture.left), _plain(picture.right)])
    axes.set_yticks([max(picture.values, default=0.0)], [_plain(picture.top)])


def _plain(text: str) -> str:
    """Dollar signs would begin a formula."""
    return text.replace("$", r"\$")
