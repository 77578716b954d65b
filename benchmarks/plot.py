"""Draws the race: records in, a PNG out. Measures nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from summary import Figure, figures
from titles import TITLES

# Okabe and Ito's colours, which colour-blind readers can tell apart; the lengths say the same again.
OURS, VARIANTS, PEERS, CEILING, INK = "#0072B2", "#56B4E9", "#B8BCC2", "#D55E00", "#22262B"


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Bars of rows/s and of CPU-seconds for each contestant, the ceiling as a line through both."""
    found = figures(records)
    ceiling = found.pop("ceiling")
    order = sorted(found, key=lambda name: found[name].rows_per_second)
    style = {"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.labelcolor": INK}
    with plt.rc_context(style):
        drawing, (left, right) = plt.subplots(
            1, 2, figsize=(12, 0.42 * len(order) + 1.8), sharey=True, width_ratios=(1.35, 1)
        )
        _bars(left, found, order, lambda figure: figure.rows_per_second / 1e6, ceiling)
        _bars(right, found, order, lambda figure: figure.cpu_per_million, ceiling)
        left.set_yticks(range(len(order)), [TITLES[name] for name in order])
        left.set_title("Million rows per second (longer is better)", loc="left", fontsize=10.5, pad=22)
        right.set_title("CPU-seconds per million rows (shorter is better)", loc="left", fontsize=10.5, pad=22)
        for label, name in zip(left.get_yticklabels(), order, strict=True):
            label.set_fontweight("bold" if name.startswith("rowmill") else "normal")
        drawing.text(0.005, 0.012, _caption(records), fontsize=8, color="#6A7078")
        drawing.tight_layout(rect=(0, 0.035, 1, 1), w_pad=2.5)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=160, facecolor="white")
        plt.close(drawing)


def _bars(
    axes: Any, found: dict[str, Figure], order: list[str], of: Callable[[Figure], float], ceiling: Figure
) -> None:
    values = [of(found[name]) for name in order]
    colours = [_colour(name) for name in order]
    axes.barh(range(len(order)), values, color=colours, height=0.7)
    axes.set_xscale("log")
    low, high = min(*values, of(ceiling)), max(*values, of(ceiling))
    axes.set_xlim(low / 2.2, high * 2.4)
    for place, value in enumerate(values):
        figure = f"{value:.2g}" if value < 10 else f"{value:.0f}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.text(value * 1.08, place, figure, va="center", fontsize=9.5, bbox=box)
    axes.axvline(of(ceiling), color=CEILING, linewidth=1.6, linestyle=(0, (4, 2)))
    axes.annotate(
        f"decoding alone: {of(ceiling):.2g}",
        (of(ceiling), 1.0),
        (0, 4),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="left" if of(ceiling) < 2 * low else "center",
        color=CEILING,
        fontsize=9,
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#C9CDD2")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", which="both", colors="#6A7078", labelsize=8.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.grid(axis="x", which="major", color="#E8EAED", linewidth=0.8)
    axes.set_axisbelow(True)


def _colour(name: str) -> str:
    return OURS if name == "rowmill" else VARIANTS if name.startswith("rowmill") else PEERS


def _caption(records: list[dict[str, Any]]) -> str:
    first = records[0]
    machine = first["machine"]
    return (
        f"26 int64 + 13 float32 columns + label, {first['table_rows'] / 1e6:g}M rows of Parquet, "
        f"batches of {first['batch_size']:,}; {machine['cores']} cores; {machine['date'][:10]}. Log scales."
    )
