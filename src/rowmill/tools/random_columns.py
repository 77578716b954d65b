"""Random columns as NumPy arrays: seed, block and column in, values out.

`rowmill.tools.recipes` makes tables of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray


def stream(seed: int, block: int, column: int) -> np.random.Generator:
    """The random numbers of one column of one block."""
    key = np.array([seed, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, column], dtype=np.uint64)))


def skewed_ids(draw: np.random.Generator, rows: int, cardinality: int) -> NDArray[np.int64]:
    """Ids from 0 to `cardinality - 1`; id k comes up in proportion to about k ** -0.75.

    The fourth power of a uniform number: as skewed as clicks are, for four float32 multiplications.
    """
    share = draw.random(rows, dtype=np.float32)
    share *= share
    share *= share
    share *= np.float32(cardinality)
    return share.astype(np.int64)


def hashed(ids: NDArray[np.int64], salt: int) -> NDArray[np.int32]:
    """Ids scattered over all 32 bits, as hashing leaves them; each step can be undone, so no two ids meet."""
    mixed = ids.astype(np.uint32)
    mixed += np.uint32(salt * 0x9E3779B1 & 0xFFFFFFFF)
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x7FEB352D)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x846CA68B)
    mixed ^= mixed >> np.uint32(16)
    return mixed.view(np.int32)


def levels(seed: int, block: int, column: int, rows: int) -> NDArray[np.uint16]:
    """A uniform 16-bit number for each row: where in its distribution a value is."""
    # Two out of each 32-bit number: a third of the time of drawing them as 16-bit numbers.
    pairs = stream(seed, block, column).integers(0, 1 << 32, -(-rows // 2), dtype=np.uint32)
    return pairs.view(np.uint16)[:rows]


@cache
def quantiles(place: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """A long-tailed count for each of 65,536 levels, and the same as a standardised logarithm.

    Looking a value up costs a sixth of drawing it. The counts of I2 start below zero, as they do in the logs.
    """
    share = (np.arange(1 << 16) + 0.5) / (1 << 16)
    counts = np.floor(np.exp(0.5 + 0.25 * place + 0.8 * np.log(share / (1 - share))))
    logs = np.log(counts + 1)
    scaled = ((logs - logs.mean()) / logs.std()).astype(np.float32)
    return (counts - (2 if place == 1 else 0)).astype(np.int32), scaled


@cache
def vocabulary(words: int, salt: int) -> list[str]:
    """Words of eight hexadecimal digits, all different."""
    return [f"{code & 0xFFFFFFFF:08x}" for code in hashed(np.arange(words), salt).tolist()]
