"""Rows for categories that an embedding has not seen: a trained matrix in, one with more rows out.

Called by `grow_embedding` of the frameworks. The same numbers come out in each of them, and on every rank.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from rowmill.errors import ArgumentError

_RESERVED = 3  # codes for padding, null and unseen values, whose rows are no examples of what a category looks like


def with_rows(trained: NDArray[np.floating], rows: int, seed: int = 0) -> NDArray[np.floating]:
    """The trained rows, and new ones after them, drawn from a normal distribution with the mean and the standard
    deviation that the trained rows have in each dimension."""
    if not isinstance(rows, int | np.integer) or isinstance(rows, bool) or rows < len(trained):
        raise ArgumentError(
            f"cannot grow an embedding of {len(trained)} rows to {rows!r}; wanted a whole number, and at least as "
            f"many: the second of the two cardinalities that workflow.update() returns"
        )
    examples = trained[_RESERVED:] if len(trained) > _RESERVED + 1 else trained
    if len(examples) < 2:  # no example, or one, has no deviation
        mean, deviation = np.zeros(trained.shape[1:]), np.full(trained.shape[1:], 0.05)
    else:
        mean, deviation = examples.mean(axis=0, dtype=np.float64), examples.std(axis=0, dtype=np.float64)
    drawn = Generator(Philox(seed)).normal(size=(int(rows) - len(trained), *trained.shape[1:]))
    return np.concatenate([trained, (mean + deviation * drawn).astype(trained.dtype)])
