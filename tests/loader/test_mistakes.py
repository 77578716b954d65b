"""What newcomers type: whatever can be meant works, and the rest gets a sentence at once."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rowmill
from rowmill import Workflow, ops
from rowmill.errors import ArgumentError, StateError
from rowmill.loader.torch import Loader, TorchAsyncItr

FRAME = pl.DataFrame({"id": [1, 2, 3, 4], "x": [0.5, 1.5, 2.5, 3.5], "name": ["a", "b", "c", "d"], "y": [0, 1, 0, 1]})


def test_paths_and_frames_are_opened(tmp_path):
    FRAME.write_parquet(tmp_path / "a.parquet")
    for given in (tmp_path, str(tmp_path / "*.parquet"), FRAME, FRAME.to_pandas(), {"id": [1, 2, 3, 4]}):
        (batch,) = Loader(given, 4, columns=["id"])
        assert batch[0]["id"].tolist() == [1, 2, 3, 4]
        (x_cat, _, _) = next(iter(TorchAsyncItr(given, cats=["id"], conts=[], labels=[], batch_size=4)))
        assert x_cat[:, 0].tolist() == [1, 2, 3, 4]


def test_whole_numbers_of_any_kind():
    assert len(Loader(FRAME, np.int64(3), columns=["id"], seed=np.uint8(4))) == 2
    for wrong in (2.0, "3", True, None):
        with pytest.raises(ArgumentError, match="batch_size"):
            Loader(FRAME, wrong, columns=["id"])
    with pytest.raises(ArgumentError, match="seed is 'a'; wanted a whole number"):
        Loader(FRAME, 2, columns=["id"], seed="a")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Loader(FRAME, 2, workflow="folder"), r"workflow='folder'; wanted a Workflow; load a saved one"),
        (lambda: TorchAsyncItr(FRAME, ["id"], ["x"], ["y"], index_dtype="float32"), "ids as float32; wanted integers"),
        (lambda: Loader(FRAME, 2, weights="name"), "weights='name' is a column of string; wanted numbers"),
        (lambda: ops.Clip(5, 1), "Clip from 5 to 1; wanted min_value <= max_value"),
        (lambda: Workflow(["id"] >> ops.Categorify(), client="tcp://x").fit(FRAME), "wanted a running dask"),
    ],
)
def test_what_cannot_be_meant_gets_a_sentence(make, says):
    with pytest.raises(ArgumentError, match=says):
        make()


def test_a_state_of_other_columns_says_so_and_not_that_memory_differs():
    big = pl.DataFrame({name: np.zeros(20_000) for name in "abc"})
    state = Loader(big, 10, columns=["a"], shuffle=True, memory="200KB").state_dict()
    with pytest.raises(StateError, match="files, columns or dtypes differ"):
        Loader(big, 10, columns=["a", "b"], shuffle=True, memory="200KB").load_state_dict(state)


def test_nulls_that_cannot_be_masked_are_not_said_to_be():
    holes = rowmill.Dataset(pd.DataFrame({"id": [1, 2], "x": [1.0, None], "y": [0.0, 1.0]}))
    with pytest.raises(ValueError, match="fill them") as caught:
        list(TorchAsyncItr(holes, ["id"], ["x"], ["y"], batch_size=2))
    assert "mask" not in str(caught.value)
    with pytest.raises(ValueError, match="'mask'"):
        list(Loader(holes, 2, columns=["x"]))
