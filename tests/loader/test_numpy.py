"""The NumPy loader takes its rank from PyTorch's process group, where a program has one, without loading PyTorch."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from rowmill import Dataset
from rowmill.loader.numpy import Loader


def _rows(rank: int, patch: pytest.MonkeyPatch) -> list[int]:
    loader = Loader(Dataset({"x": np.arange(12)}), batch_size=3)  # made before the process group
    group = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2, get_rank=lambda: rank
    )
    with patch.context() as changed:
        changed.setitem(sys.modules, "torch.distributed", group)
        return [int(x) for features, *_ in loader for x in features["x"]]


def test_each_rank_of_a_process_group_has_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _rows(0, monkeypatch), _rows(1, monkeypatch)
    assert len(first) == len(second) == 6
    assert sorted(first + second) == list(range(12))
