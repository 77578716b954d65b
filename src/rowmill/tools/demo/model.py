"""A small click model, and how it is trained: loader in, seconds, waiting time, losses and AUC out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from rowmill.tools.demo.race import CATS, CONTS
from rowmill.tools.synthetic import CARDINALITIES

# Ids are numbered by frequency, so the rare ones beyond these share one row of their embedding table.
MAX_IDS = 10_000
WIDTH = 16


class ClickModel(nn.Module):
    """An embedding for each id column beside the numbers, then three layers down to log-odds of a click."""

    def __init__(self) -> None:
        super().__init__()
        sizes = torch.tensor([min(CARDINALITIES[name], MAX_IDS) for name in CATS])
        self.last = nn.Buffer(sizes - 1)
        self.first = nn.Buffer(sizes.cumsum(0) - sizes)
        self.embedding = nn.Embedding(int(sizes.sum()), WIDTH)  # one table: one look-up for all columns
        nn.init.normal_(self.embedding.weight, std=0.05)
        self.layers = nn.Sequential(
            nn.Linear(len(CATS) * WIDTH + len(CONTS), 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, cats: torch.Tensor, conts: torch.Tensor) -> torch.Tensor:
        embedded = self.embedding(torch.minimum(cats, self.last) + self.first)
        odds: torch.Tensor = self.layers(torch.cat([embedded.flatten(1), conts], dim=1))
        return odds.squeeze(1)


@dataclass
class Training:
    """One epoch: how long, how much of it waiting for data, and the loss after each step."""

    seconds: float = 0.0
    waited: float = 0.0
    rows: int = 0
    auc: float = 0.0
    times: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """The mean of the last steps, which is steadier than the last one."""
        tail = self.losses[-8:]
        return sum(tail) / len(tail)


def new_model() -> ClickModel:
    """Always the same weights; PyTorch's own generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ClickModel()


def train(loader: Iterable[Any], valid: Iterable[Any], passed: Callable[[int], None]) -> Training:
    """Train a new model on one epoch of `loader`, then score it on `valid`. Only the first is timed."""
    model, done = new_model(), Training()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_of = nn.BCEWithLogitsLoss()
    start = time.perf_counter()
    batches = iter(loader)
    while True:
        asked = time.perf_counter()
        batch = next(batches, None)
        done.waited += time.perf_counter() - asked
        if batch is None:
            break
        cats, conts, label = batch
        loss = loss_of(model(cats, conts), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done.rows += len(label)
        done.losses.append(float(loss.detach()))
        done.times.append(time.perf_counter() - start)
        passed(len(label))
    done.seconds = time.perf_counter() - start
    done.auc = score(model, valid)
    return done


@torch.inference_mode()
def score(model: ClickModel, valid: Iterable[Any]) -> float:
    """The area under the ROC curve: how often a click is ranked above a row without one."""
    scored = [(model(cats, conts), label) for cats, conts, label in valid]
    odds, label = (torch.cat(part) for part in zip(*scored, strict=True))
    ranks = torch.empty(len(odds), dtype=torch.float64)
    ranks[odds.argsort()] = torch.arange(1, len(odds) + 1, dtype=torch.float64)
    clicks = float(label.sum())
    others = len(label) - clicks
    return float((ranks[label > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * others))
