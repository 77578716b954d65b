"""Integers of 8 bytes are stored in 4 where all fit, and nobody notices; for one that does not, it is begun anew."""

import json
import os
import time
import warnings

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import DtypeError
from rowmill.loader.torch import TorchAsyncItr
from rowmill.store.store import Store
from tests.conftest import write_files
from tests.store.common import digest, epochs, large_folder, lists_folder, settle, stream

LEAST, MOST = -(2**31), 2**31 - 1


@pytest.fixture(autouse=True)
def no_warnings():
    """What a store is made of is nobody's concern."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def dtypes(cache):
    (folder,) = cache.iterdir()
    matrices = json.loads((folder / "manifest.json").read_text())["matrices"]
    return {column: matrix["dtype"] for matrix in matrices for column in matrix["columns"]}


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 26])
def test_extremes_that_fit(tmp_path, width):
    random, rows = np.random.default_rng(width), 3001
    ids = {f"c{i}": random.choice([LEAST, MOST, -1, 0, 7], rows) for i in range(width)}
    write_files(tmp_path / "table", pl.DataFrame({**ids, "x": np.arange(rows) / 2}))
    wanted = epochs(stream(tmp_path / "table"), 3)
    first = stream(tmp_path / "table", tmp_path / "cache")
    assert epochs(first, 3) == wanted
    settle(first)
    assert {dtypes(tmp_path / "cache")[name] for name in ids} == {"int32"}
    full = stream(tmp_path / "table", tmp_path / "cache", shuffle="full", batch_size=500)
    got = [batch.matrices[0].copy() for batch in full.batches()]
    assert {array.dtype for array in got} == {np.dtype(np.int64)}
    table = np.stack(list(ids.values()), 1)
    assert np.array_equal(_sorted(np.concatenate(got)), _sorted(table))
    assert np.array_equal(full.take(np.array([7, 3000, 0])).matrices[0], table[[7, 3000, 0]])


def _sorted(rows):
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize("at", [0, 350, -1])
@pytest.mark.parametrize("value", [MOST + 1, LEAST - 1, 2**62])
def test_one_that_does_not_fit(tmp_path, at, value):
    folder, cache = large_folder(tmp_path, at, value), tmp_path / "cache"
    wanted = epochs(stream(folder), 3)
    first = stream(folder, cache)
    assert epochs(first, 3) == wanted
    settle(first)
    assert dtypes(cache)["id"] == "int64" and "100% there" in first.cached.text()
    later = stream(folder, cache)
    later.source.read = None  # nothing is decoded
    assert epochs(later, 3) == wanted


def test_one_that_does_not_fit_while_building(tmp_path):
    folder, cache = large_folder(tmp_path), tmp_path / "cache"
    full = stream(folder, cache, shuffle="full")
    full.build_cache()
    assert dtypes(cache)["id"] == "int64"
    ids = np.concatenate([batch.matrices[0][:, 0].copy() for batch in full.batches()])
    assert sorted(ids.tolist()) == [*range(699), 2**31]


def test_one_that_is_found_when_others_are_done(tmp_path, monkeypatch):
    """What a thread had stored before the store was begun anew is stored again."""
    folder, cache = large_folder(tmp_path), tmp_path / "cache"
    wanted = epochs(stream(folder), 2)
    built = stream(folder, cache, memory="64MB")
    real = built.source.read

    def read(fragment, columns):
        time.sleep(0.5 if fragment.unit == 2 else 0)
        return real(fragment, columns)

    monkeypatch.setattr(built.source, "read", read)
    built.build_cache()
    assert "100% there" in built.cached.text() and dtypes(cache)["id"] == "int64"
    assert epochs(stream(folder, cache), 2) == wanted


def test_in_memory_too(tmp_path):
    for number, folder in enumerate((lists_folder(tmp_path / "a"), large_folder(tmp_path / "b"))):
        wanted = epochs(stream(folder, memory="16MB"), 3)
        kept = stream(folder, "auto", memory="16MB")
        assert kept.cached.tier == "memory"
        assert epochs(kept, 3) == wanted
        settle(kept)
        assert kept.cached.store.complete and kept.cached.shape.layout.matrices[0].dtype.itemsize == (4, 8)[number]


def test_lists_of_fixed_length(tmp_path):
    values = np.arange(3000, dtype=np.int64).reshape(1000, 3)
    for number, most in enumerate((MOST, MOST + 1)):
        values[500, 1] = most
        frame = pl.DataFrame({"v": values, "x": np.arange(1000.0)}, schema_overrides={"v": pl.Array(pl.Int64, 3)})
        write_files(tmp_path / f"table{number}", frame)
        wanted = epochs(stream(tmp_path / f"table{number}"), 3)
        first = stream(tmp_path / f"table{number}", tmp_path / f"cache{number}")
        assert epochs(first, 3) == wanted
        settle(first)
        assert dtypes(tmp_path / f"cache{number}")["v"] == ("int32", "int64")[number]


def test_another_process_has_found_out(tmp_path):
    """A loader that began with 4 bytes goes on with the store of one that needed 8."""
    folder, cache = large_folder(tmp_path), tmp_path / "cache"
    wanted = epochs(stream(folder), 3)
    slow = stream(folder, cache, threads=1)
    batches = slow.batches()
    got = [next(batches)]
    other = stream(folder, cache)
    assert epochs(other, 2) == wanted[:2]
    settle(other)
    assert digest([*got, *batches]) == wanted[0]
    assert epochs(slow, 2) == wanted[1:]
    settle(slow)
    assert len(os.listdir(cache)) == 1 and dtypes(cache)["id"] == "int64"


def test_what_a_killed_process_has_begun_is_removed(tmp_path):
    folder, cache = large_folder(tmp_path), tmp_path / "cache"
    begun = stream(folder, cache).cached
    Store.building(begun.shape, begun.name).close()
    begun.shape = begun.widest
    Store.building(begun.shape, begun.name).close()
    assert len(os.listdir(cache)) == 2
    stream(folder, cache).build_cache()
    assert len(os.listdir(cache)) == 1 and dtypes(cache)["id"] == "int64"


def test_ids_that_the_loader_cannot_hold_are_an_error_as_without(tmp_path):
    folder = large_folder(tmp_path)
    settings = {"batch_size": 64, "index_dtype": "int32"}
    for cache in ({}, {"cache": tmp_path / "cache"}):
        loader = TorchAsyncItr(Dataset(folder), ["id", "cat_b"], ["x1"], ["label"], **settings, **cache)
        with pytest.raises(DtypeError, match=r"'id' has values from .* to 2147483648, which do not fit int32"):
            list(loader)
    with pytest.raises(DtypeError, match=r"'id' has values from .* to 2147483648, which do not fit int32"):
        loader.build_cache()
