"""What once went wrong without a word: each is right now, or an error that says what to do."""

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError, DtypeError, RowmillError, StartedError
from rowmill.loader import numpy as array_loader
from rowmill.loader.torch import Loader
from rowmill.sources.parquet.thrift import parse_footer


def test_a_number_of_more_than_64_bits_in_a_footer_is_damage():
    with pytest.raises(ValueError, match="longer than 64 bits"):
        parse_footer(b"\x36" + b"\xff" * 9 + b"\x7f\x00")


def test_target_encoding_recognises_dicts_and_lists_of_rows():
    rng = np.random.Generator(np.random.Philox(1))
    frame = pl.DataFrame({"k": rng.integers(0, 5, 300), "y": rng.random(300)})
    workflow = Workflow(["k"] >> ops.TargetEncoding("y")).fit(frame)
    wanted = workflow.transform(frame).get_column("TE_k_y").to_list()  # out of fold
    assert wanted != workflow.transform(frame, fitted_rows=False).get_column("TE_k_y").to_list()
    assert list(workflow.transform(frame.to_dict(as_series=False))["TE_k_y"]) == wanted
    assert [row["TE_k_y"] for row in workflow.transform(frame.to_dicts())] == wanted


@pytest.mark.parametrize("row", [[[1, 2, 3], [4, 5], [6, 7, 8]], [[1, 2, 3], None, [6, 7, 8]], [[1, 2, 3]]])
def test_inner_lists_of_another_length_than_declared_are_refused(row):
    data = Dataset(pl.DataFrame({"v": [row, [[1, 2, 3], [4, 5, 6]]]}))
    data.schema["v"] = data.schema["v"].with_shape((None, 2, 3))
    with pytest.raises(RowmillError, match="'v'"):
        list(Loader(data, 2, nulls=0))


def test_a_matrix_of_numpy_has_no_padding_and_no_rounded_ids():
    data = Dataset({"id": np.array([1, 2**53 + 1]), "x": np.array([0.5, 1.5]), "y": np.array([0.0, 1.0])})
    with pytest.raises(ArgumentError, match="mask"):
        array_loader.Loader(data, 4, targets="y", last="pad", batch_format="matrix")
    with pytest.raises(DtypeError, match="'id' has integers beyond 2\\^53"):
        list(array_loader.Loader(data, 2, targets="y", batch_format="matrix"))
    x, y = next(iter(array_loader.Loader(data, 1, targets="y", batch_format="matrix")))
    assert x.tolist() == [[1.0, 0.5]] and y.tolist() == [0.0]


def test_a_padded_list_can_be_a_target_of_tensordicts():
    data = Dataset(pl.DataFrame({"x": [1.0, 2.0], "v": [[1.0], [2.0, 3.0]]}))
    batch = next(iter(Loader(data, 2, targets="v", pad={"v": 2}, batch_format="tensordict")))
    assert batch["v"].tolist() == [[1.0, 0.0], [2.0, 3.0]] and batch["x"].tolist() == [1.0, 2.0]


def test_narrowing_the_schema_keeps_epoch_and_batch_size():
    data = Dataset({"x": np.arange(8.0), "z": np.arange(8.0)})
    loader = Loader(data, 2)
    loader.set_epoch(3)
    loader.batch_size = 4
    loader.input_schema = data.schema.select_by_name(["x"])
    assert (loader.epoch, loader.batch_size) == (3, 4) and list(loader.peek()[0]) == ["x"]
    started = Loader(data, 2)
    state = {**started.state_dict(), "batch": 1}
    started.load_state_dict(state)
    with pytest.raises(StartedError, match="before that"):
        started.input_schema = data.schema.select_by_name(["x"])


def test_an_operator_that_makes_other_types_of_rows_than_of_none_is_refused():
    class Halved(ops.Operator):
        def transform(self, selector, frame):
            return frame[selector.names] / 2 if len(frame) else frame[selector.names]

    frame = pl.DataFrame({"x": [1, 2, 3]})
    with pytest.raises(ArgumentError, match="'x' as Float64, and as Int64 of an empty frame"):
        Workflow(["x"] >> Halved()).fit(frame).transform(frame)
