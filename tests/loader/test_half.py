"""Columns of float16: as they are, or in the dtype that a loader asks for."""

import numpy as np
import polars as pl
import pytest
import torch

import rowmill
from rowmill.loader.torch import Loader, TorchAsyncItr


@pytest.fixture
def data():
    halves = pl.Series(np.array([0.5, -2.0, 65504.0, 7.0], np.float16))
    return rowmill.Dataset(pl.DataFrame({"h": halves, "i": [1, 2, 3, 4]}))


def test_float16_becomes_float32_where_that_is_wanted(data):
    _, numbers, _ = next(iter(TorchAsyncItr(data, ["i"], ["h"], [], batch_size=4)))
    assert numbers.dtype == torch.float32 and numbers[:, 0].tolist() == [0.5, -2.0, 65504.0, 7.0]


def test_float16_stays_where_nothing_is_asked(data):
    features, _ = next(iter(Loader(data, 4)))
    assert features["h"].dtype == torch.float16 and features["h"].tolist() == [0.5, -2.0, 65504.0, 7.0]
