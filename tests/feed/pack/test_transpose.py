"""Batches on their sides are the same batches: values, order, padding; and every column begins aligned."""

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import DtypeError
from rowmill.feed.memory.block import ALIGNMENT
from rowmill.feed.pack.selection import Selector
from rowmill.feed.pack.transpose import Transposer
from rowmill.feed.run.stream import Stream
from tests.store.common import lists_folder, stream


def columns_of(a_stream):
    """The columns of the next epoch, and whether they came on their sides."""
    sides = Transposer(a_stream.selection.layout.matrices)
    found, layouts = [], set()
    for batch in a_stream.batches():
        layouts.add(batch.column_major)
        arrays = sides.of(batch)
        found.append((batch.rows, batch.padding, [np.array(array) for array in arrays]))
    return found, layouts


@pytest.mark.parametrize("last", ["short", "drop", "pad"])
@pytest.mark.parametrize("batch_size", [512, 515, 999, 5000])
def test_a_turned_stream_gives_the_batches_of_the_other(tmp_path, batch_size, last):
    folder = lists_folder(tmp_path, 4003)
    for shuffle in (False, True):
        settings = {"batch_size": batch_size, "shuffle": shuffle, "last": last}
        one, other = (stream(folder, column_major=column_major, **settings) for column_major in (True, False))
        for _ in range(2):
            (found, was), (wanted, was_not) = columns_of(one), columns_of(other)
            assert (was, was_not) == (({True}, {False}) if wanted else (set(), set()))
            assert len(found) == len(wanted)
            for ours, theirs in zip(found, wanted, strict=True):
                assert ours[:2] == theirs[:2]
                assert all(np.array_equal(a, b) for a, b in zip(ours[2], theirs[2], strict=True))


def test_every_column_begins_aligned_whatever_the_batch_size(tmp_path):
    for batch_size in (512, 515, 600):
        for batch in stream(lists_folder(tmp_path, 4003), column_major=True, batch_size=batch_size).batches():
            for matrix in batch.matrices:
                if matrix.shape[0] != batch.rows:  # on its side
                    assert matrix.strides[0] % ALIGNMENT == 0
                    assert matrix.__array_interface__["data"][0] % ALIGNMENT == 0


def test_a_batch_that_is_kept_is_not_overwritten(tmp_path):
    folder = lists_folder(tmp_path, 20_003)
    kept = list(stream(folder, column_major=True, batch_size=512, memory="400KB").batches())
    assert all(batch.column_major for batch in kept) and len(kept) == 40
    copies = [[np.array(matrix) for matrix in batch.matrices] for batch in kept]
    for _ in stream(folder, column_major=True, batch_size=512).batches():
        pass
    for batch, copy in zip(kept, copies, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(batch.matrices, copy, strict=True))


def test_a_value_that_does_not_fit_is_found_on_this_way_too():
    data = Dataset(pl.DataFrame({"a": [1, 2**40, *range(1000)]}))
    selector = Selector(data.schema, "error")
    selector.matrix("a", ["a"], "int32")
    with pytest.raises(DtypeError, match="'a' has values from 0 to 1099511627776"):
        list(Stream(data, selector.selection(), batch_size=512, column_major=True).batches())


def test_a_value_of_a_list_that_does_not_fit_is_found_beside_columns_on_their_sides():
    lists = pl.Series("v", [[0.0, 1.0]] * 1001 + [[0.0, 1e300]], dtype=pl.Array(pl.Float64, 2))
    data = Dataset(pl.DataFrame({"a": range(1002)}).with_columns(lists))
    selector = Selector(data.schema, "error")
    selector.matrix("a", ["a"], "int64")
    selector.matrix("v", ["v"], "float32", wide=True)
    with pytest.raises(DtypeError, match=r"'v' has values from 0.0 to 1e\+300"):
        list(Stream(data, selector.selection(), batch_size=512, column_major=True).batches())


def test_small_batches_and_those_of_a_store_are_row_major(tmp_path):
    folder = lists_folder(tmp_path)
    for a_stream in (
        stream(folder, tmp_path / "cache", column_major=True, batch_size=600),
        stream(folder, column_major=True, batch_size=511),
    ):
        assert not any(batch.column_major for batch in a_stream.batches())
