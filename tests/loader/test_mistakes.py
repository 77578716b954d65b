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
    with pytest.raises(StateError, match="other columns, dtypes or weights"):
        Loader(big, 10, columns=["a", "b"], shuffle=True, memory="200KB").load_state_dict(state)


LISTS = pl.DataFrame({"n": [[1], None], "s": [["a"], ["b"]]})


def test_nulls_that_cannot_be_masked_are_not_said_to_be():
    holes = rowmill.Dataset(pd.DataFrame({"id": [1, 2], "x": [1.0, None], "y": [0.0, 1.0]}))
    with pytest.raises(ValueError, match="fill them") as caught:
        list(TorchAsyncItr(holes, ["id"], ["x"], ["y"], batch_size=2))
    assert "mask" not in str(caught.value)
    with pytest.raises(ValueError, match="'mask'"):
        list(Loader(holes, 2, columns=["x"]))
    with pytest.raises(ValueError, match="fill them") as caught:
        list(Loader(LISTS, 2, columns=["n"]))
    assert "mask" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Loader(FRAME, 2, columns=3), "found 3 where names of columns were wanted"),
        (lambda: Loader(FRAME, 2, transforms=dict), "transforms is a function; wanted a list"),
        (lambda: list(Loader(FRAME, 2, transforms=[lambda f: None])), "a transform gave None; wanted the features"),
        (lambda: Loader(FRAME, 2, transforms=[5]), "transforms holds 5; wanted functions"),
        (lambda: Loader(FRAME, 2, threads=1.5), "threads is 1.5; wanted at least 1"),
        (lambda: Loader({"a": [1]}, 1, nulls={"a": "x"}), "nulls='x' for 'a', which is int64; wanted 'error', 'mask'"),
        (lambda: Loader({"a": [1]}, 1, weights=lambda rows: rows), r"wanted f\(first, rows\), which gives a weight"),
        (lambda: Loader({"a": [1]}, 1, shuffle="full"), r"pass cache='auto' or a folder, and call build_cache\(\)"),
        (lambda: Loader(LISTS, 1, columns=["n"], sparse_names=["n"], sparse_max={"n": 2, "m": 1}), "names 'm'"),
        (lambda: Loader(LISTS, 1, columns=["s"]), "turn it into numbers first, for example with Categorify"),
        (lambda: rowmill.Dataset(pd.DataFrame({"q": [1, 2], "a": [1, "x"]})), "column 'a' .* has values of int, str"),
        (lambda: Loader(pl.DataFrame({"s": [{"a": 1}]}), 1), "struct.*for example with Expr"),
        (lambda: rowmill.Dataset(FRAME).to_parquet("never", compression="zzz"), "compression is 'zzz'; wanted one of"),
        (
            lambda: rowmill.Dataset.merge(rowmill.Dataset({"k": [1]}), {"k": ["1"]}, on="k"),
            "cannot join 'k', which is int64, and 'k', which is string",
        ),
        (lambda: Workflow([]).fit(FRAME), "no columns"),
        (lambda: Loader(FRAME, 2, columns=["name"], nulls={"name": 0}), "nulls=0 for 'name', which holds strings"),
        (lambda: rowmill.Dataset(FRAME, partsize="1MB"), "did you mean 'part_size'"),
        (lambda: list(Loader(pl.concat([FRAME] * 900), 900, memory="10KB")), r"takes \d+\.\d kB"),
    ],
)
def test_more_that_cannot_be_meant(make, says):
    with pytest.raises((ValueError, TypeError), match=says):
        make()


def test_nulls_of_strings_and_of_targets():
    holes = FRAME.with_columns(pl.Series("name", ["a", None, "c", None]))
    ((features, target),) = Loader(holes, 4, columns=["name", "x"], targets="y", nulls="mask")
    assert sorted(features) == ["name", "name__null", "x", "x__null"]  # the target's are no feature
    assert features["name__null"].tolist() == [False, True, False, True] and target.tolist() == [0, 1, 0, 1]
    ((features, _),) = Loader(holes, 4, columns=["name"], nulls=0)  # a number fills numbers
    assert features["name"].tolist() == ["a", None, "c", None]
    ((features, _),) = Loader(holes, 4, columns=["name"], nulls={"name": "?"})
    assert features["name"].tolist() == ["a", "?", "c", "?"]


def test_a_stock_loader_of_ours_takes_batches_whole_by_default():
    from rowmill.loader.torch import DLDataLoader

    (batch,) = DLDataLoader(TorchAsyncItr(FRAME, ["id"], ["x"], ["y"], batch_size=4))
    assert batch[0].shape == (4, 1)


def test_loaders_and_workflows_say_what_they_are():
    assert repr(Loader(FRAME, 2, columns=["id"], shuffle=True)).startswith("Loader: 4 rows in batches of 2, shuffled")
    assert repr(Workflow(["id"] >> ops.Categorify())) == "Workflow: not fitted\n  [id] >> Categorify"
    assert repr(Workflow(["id"] >> ops.Categorify()).fit(FRAME)).startswith("Workflow: fitted, 1 columns in, 1 out")
    assert "1 rank," in str(Loader(FRAME, 2, columns=["id"]).plan())


def test_a_frame_is_no_dataset_of_items(tmp_path):
    pytest.importorskip("tensordict")
    from rowmill.loader.tensordict import dataset_to_tensordict

    with pytest.raises(ArgumentError, match=r"DataFrame.*Loader"):
        dataset_to_tensordict(ds=FRAME.to_pandas(), folder=tmp_path)
