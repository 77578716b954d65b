"""Draws what the demonstration measured: laps and trainings in, a PNG out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rowmill.tools.demo.model import Training
from rowmill.tools.demo.race import Lap

# Okabe and Ito's colours, which colour-blind readers can tell apart; each is also named in place.
COLOURS = ("#8A9099", "#0072B2")
WAITING, INK, FAINT = "#E69F00", "#22262B", "#6A7078"


def draw(laps: Mapping[str, Lap], trainings: Mapping[str, Training], path: Path, caption: str) -> None:
    """Three panels: the race, where the time of training went, and the loss over that time."""
    figure = Figure(figsize=(13, 4.6), facecolor="white")
    FigureCanvasAgg(figure)
    race, time, loss = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
    _race(race, laps)
    _time(time, trainings)
    _loss(loss, trainings)
    for axes in (race, time, loss):
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color("#C9CDD2")
        axes.tick_params(colors=FAINT, labelsize=9)
        axes.set_axisbelow(True)
    figure.text(0.012, 0.93, "One table, one model, two ways to load it", fontsize=14, color=INK, weight="bold")
    figure.text(0.012, 0.02, caption, fontsize=8.5, color=FAINT)
    figure.tight_layout(rect=(0, 0.05, 1, 0.91), w_pad=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _race(axes: Any, laps: Mapping[str, Lap]) -> None:
    speeds = [lap.rows_per_second / 1e6 for lap in laps.values()]
    axes.bar(list(laps), speeds, color=COLOURS, width=0.7)
    for place, speed in enumerate(speeds):
        axes.text(place, speed, f"{speed:.2g}M", ha="center", va="bottom", fontsize=12, fontweight="bold", color=INK)
    axes.set_ylim(0, max(speeds) * 1.15)
    axes.set_title(f"Loading alone: {speeds[1] / speeds[0]:.0f} times the rows per second", loc="left", fontsize=11)
    axes.set_ylabel("million rows per second", color=FAINT)
    axes.grid(axis="y", color="#EEF0F2")


def _time(axes: Any, trainings: Mapping[str, Training]) -> None:
    names = list(trainings)
    waits = [training.waited for training in trainings.values()]
    works = [training.seconds - training.waited for training in trainings.values()]
    axes.bar(names, works, color=COLOURS, width=0.7)
    axes.bar(names, waits, bottom=works, color=WAITING, width=0.7)
    top = max(training.seconds for training in trainings.values())
    for place, (work, wait) in enumerate(zip(works, waits, strict=True)):
        axes.text(place, work / 2, f"model\n{work:.1f} s", ha="center", va="center", color="white")
        if wait > 0.12 * top:
            axes.text(place, work + wait / 2, f"waiting for data\n{wait:.1f} s", ha="center", va="center", color=INK)
        else:
            axes.text(place, work + wait, f"waiting for data\n{wait:.2g} s", ha="center", va="bottom", color=INK)
    axes.set_ylim(0, top * 1.15)
    axes.set_title("Training: where the seconds go", loc="left", fontsize=11)
    axes.set_ylabel("seconds for one epoch", color=FAINT)
    axes.grid(axis="y", color="#EEF0F2")


def _loss(axes: Any, trainings: Mapping[str, Training]) -> None:
    for (name, training), colour in zip(trainings.items(), COLOURS, strict=True):
        axes.plot(training.times, training.losses, color=colour, linewidth=2.2)
        axes.plot(training.times[-1], training.losses[-1], "o", color=colour, markersize=6)
        last = training.seconds == max(each.seconds for each in trainings.values())
        axes.annotate(
            f"{name}\nAUC {training.auc:.3f}",
            (training.times[-1], training.losses[-1]),
            (0, 34) if last else (10, 0),
            textcoords="offset points",
            ha="right" if last else "left",
            va="bottom" if last else "center",
            color=colour,
            fontsize=10,
            fontweight="bold",
        )
    axes.set_xlim(left=0)
    axes.set_title("Training: the same loss, sooner", loc="left", fontsize=11)
    axes.set_xlabel("seconds", color=FAINT)
    axes.set_ylabel("loss", color=FAINT)
    axes.grid(color="#EEF0F2")
