"""With a cache come the same batches as without: whatever the tier, the settings, and what is stored already."""

import pickle
import shutil
import warnings

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import ArgumentError, CacheWarning
from rowmill.feed.pack import pack_columns
from rowmill.loader.torch import Loader, TorchAsyncItr
from tests.conftest import make_table, write_files
from tests.store.common import digest, epochs, lists_folder, settle, stream, table_with_lists

SETTINGS = [
    {},
    {"shuffle": False},
    {"ranks": 3, "rank": 1, "last": "pad"},
    {"elastic": 4, "ranks": 2, "rank": 1},
    {"last": "drop", "batch_size": 100},
    {"threads": 1, "memory": "1MB"},
]


def forbid_reading(a_stream, monkeypatch):
    def read(*_):
        raise AssertionError("a stored row was decoded")

    monkeypatch.setattr(a_stream.source, "read", read)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_same_bytes_as_without(tmp_path, settings):
    folder = lists_folder(tmp_path)
    wanted = epochs(stream(folder, **settings), 3)
    assert epochs(stream(folder, tmp_path / "cache", **settings), 3) == wanted
    assert epochs(stream(folder, tmp_path / "cache", **settings), 3) == wanted


@pytest.mark.parametrize("last", [7, 2**31], ids=["all fit", "one does not fit"])
@pytest.mark.parametrize("row_group", [9000, 700])
def test_pieces_of_many_strips(tmp_path, monkeypatch, row_group, last):
    """Packed, dealt, summed and written 256 rows at a time; the sums are those of whole pieces."""
    monkeypatch.setattr(pack_columns, "TILE_BYTES", 1)
    frame = make_table(9003)
    ids = np.append(np.arange(9002), last)
    write_files(tmp_path / "table", frame.with_columns(pl.Series("id", ids)), files=2, row_group=row_group)
    wanted = epochs(stream(tmp_path / "table", memory="40MB"), 3)
    made = stream(tmp_path / "table", tmp_path / "cache", memory="40MB")
    assert epochs(made, 3) == wanted
    settle(made)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = stream(tmp_path / "table", tmp_path / "cache", memory="40MB")
        forbid_reading(again, monkeypatch)
        assert epochs(again, 3) == wanted
    assert "100% there" in again.cached.text()


def test_columns_of_several_dtypes_in_one_matrix(tmp_path):
    """Ids of every width become int64 beside each other, floats float32: side by side in the table or not."""
    rng, rows = np.random.default_rng(5), 2003
    kinds = ["int64", "int8", "int8", "int32", "int32", "int32", "int32", "int32", "int64", "uint16"]
    cats = {f"c{i}": rng.integers(0, 100, rows).astype(kind) for i, kind in enumerate(kinds)}
    conts = {f"x{i}": rng.random(rows).astype("float64" if i % 3 else "float32") for i in range(7)}
    write_files(tmp_path / "table", pl.DataFrame({**cats, **conts, "label": np.arange(rows) % 2}), 3, row_group=150)

    def epoch(**cache):
        settings = {"batch_size": 64, "shuffle": True, "seed": 2, **cache}
        loader = TorchAsyncItr(Dataset(tmp_path / "table"), list(cats), list(conts), ["label"], **settings)
        return [tensor.numpy().tobytes() for batch in loader for tensor in batch]

    wanted = epoch()
    assert epoch(cache=tmp_path / "cache") == wanted == epoch(cache=tmp_path / "cache")


def test_later_epochs_and_runs_decode_nothing(tmp_path, monkeypatch):
    folder = lists_folder(tmp_path)
    wanted = epochs(stream(folder), 3)
    first = stream(folder, tmp_path / "cache")
    assert digest(first.batches()) == wanted[0]
    forbid_reading(first, monkeypatch)
    assert epochs(first) == wanted[1:]
    settle(first)
    second = stream(folder, tmp_path / "cache")
    forbid_reading(second, monkeypatch)
    assert epochs(second, 3) == wanted


def test_one_store_serves_all_settings(tmp_path, monkeypatch):
    folder = lists_folder(tmp_path)
    stream(folder, tmp_path / "cache").build_cache()
    for settings in SETTINGS:
        later = stream(folder, tmp_path / "cache", **settings)
        wanted = epochs(stream(folder, **settings))
        forbid_reading(later, monkeypatch)
        assert epochs(later) == wanted
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_ranks_fill_one_store_together(tmp_path):
    folder = lists_folder(tmp_path)
    ranks = [stream(folder, tmp_path / "cache", ranks=3, rank=rank) for rank in range(3)]
    for rank in ranks:
        digest(rank.batches())
        settle(rank)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [""]  # complete: no .building


def test_an_interrupted_epoch_keeps_what_it_has(tmp_path, monkeypatch):
    folder = lists_folder(tmp_path)
    first = stream(folder, tmp_path / "cache", memory="100kB", threads=1)
    batches = first.batches()
    for _ in range(4):
        next(batches)
    batches.close()
    kept = first.cached.store.pieces.rows
    assert 0 < kept < 1003
    second = stream(folder, tmp_path / "cache", memory="100kB", threads=1)
    read, rows = second.source.read, []
    monkeypatch.setattr(second.source, "read", lambda f, c: (rows.append(f.rows), read(f, c))[1])
    second.build_cache()
    assert sum(rows) == 1003 - kept
    assert "100% there" in second.cached.text()


def test_two_loops_over_one_loader_at_once(tmp_path):
    folder = lists_folder(tmp_path)
    wanted = epochs(stream(folder), 2)
    both = stream(folder, tmp_path / "cache")
    one, two = both.batches(), both.batches()
    pairs = list(zip(one, two, strict=True))
    assert [digest(a for a, _ in pairs), digest(b for _, b in pairs)] == wanted


def test_the_tiers_of_auto_give_the_same_and_say_which(tmp_path, monkeypatch):
    folder = lists_folder(tmp_path, 4000)
    monkeypatch.setenv("ROWMILL_CACHE", str(tmp_path / "auto"))
    wanted = epochs(stream(folder, memory="600kB"), 3)
    on_disk = stream(folder, "auto", memory="600kB")
    assert epochs(on_disk, 3) == wanted
    assert "mapped from" in on_disk.cached.text()
    large = epochs(stream(folder, memory="4MB"), 3)
    in_memory = stream(folder, "auto", memory="4MB")
    assert epochs(in_memory, 3) == large
    assert "in memory, 100% there" in in_memory.cached.text()
    monkeypatch.setattr("rowmill.store.cache.tier_policy.free_bytes", lambda folder: 1000)
    streamed = stream(folder, "auto", memory="600kB")
    assert epochs(streamed, 3) == wanted
    assert "none: rows are read from their source" in streamed.cached.text()


def test_a_store_in_memory_leaves_nothing_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("ROWMILL_CACHE", str(tmp_path / "auto"))
    small = stream(lists_folder(tmp_path), "auto")
    wanted = epochs(stream(tmp_path / "table"), 2)
    assert epochs(small, 2) == wanted
    assert not (tmp_path / "auto").exists()
    assert epochs(pickle.loads(pickle.dumps(small)), 1) == epochs(stream(tmp_path / "table"), 3)[2:]


def test_the_plan_of_a_loader_says_where_rows_come_from(tmp_path, folder):
    loader = Loader(Dataset(folder), 100, cache=tmp_path / "cache")
    assert "0% there" in str(loader.plan())
    list(loader)
    assert "100% there" in str(loader.plan())
    assert "store" not in str(Loader(Dataset(folder), 100).plan())


def test_both_torch_loaders(tmp_path, folder):
    for make in (
        lambda **o: Loader(Dataset(folder), 100, targets="label", shuffle=True, **o),
        lambda **o: TorchAsyncItr(
            Dataset(folder), ["cat_a", "cat_b"], ["x1"], ["label"], batch_size=100, shuffle=True, **o
        ),
    ):
        plain, cached = make(), make(cache=tmp_path / "cache")
        for _ in range(3):
            for a, b in zip(plain, cached, strict=True):
                assert str(a) == str(b)
    assert len(list((tmp_path / "cache").iterdir())) == 2  # other dtypes, another store


def test_nulls_filled_otherwise_are_another_store(tmp_path):
    frame = pl.DataFrame({"a": [1, None, 3], "b": [[1, None], None, [3]]})
    for fill in (5, 7):
        filled = stream(Dataset(frame), tmp_path / "cache", nulls=fill, shuffle=False)
        (batch,) = filled.batches()
        assert batch.matrices[0].ravel().tolist() == [1, fill, 3]
        assert batch.ragged["b"][0].tolist() == [1, fill, 3]
        settle(filled)


def test_what_cannot_be_kept_is_refused_or_streamed(tmp_path):
    strings = Dataset(pl.DataFrame({"a": [1, 2], "s": ["x", "y"]}))
    with pytest.raises(ArgumentError, match="'s', which holds strings"):
        stream(strings, tmp_path / "cache")
    assert "holds strings" in stream(strings, "auto").cached.text()
    with pytest.raises(ArgumentError, match="balance=a"):
        stream(Dataset({"a": [1, 2]}), tmp_path / "cache", balance="a")
    for bad in ("", 3, True):
        with pytest.raises(ArgumentError, match="wanted a folder"):
            stream(strings, bad)
    with pytest.raises(ArgumentError, match="cache_size without cache"):
        stream(strings, None, cache_size="1GB")


def test_tables_without_rows_and_of_one_row(tmp_path):
    for rows in (0, 1):
        write_files(tmp_path / str(rows), table_with_lists(1)[:rows], files=1)
        assert epochs(stream(tmp_path / str(rows), tmp_path / "cache")) == epochs(stream(tmp_path / str(rows)))


def test_a_cache_folder_that_vanishes_is_built_again(tmp_path):
    folder = lists_folder(tmp_path)
    wanted = epochs(stream(folder), 3)
    for _ in range(2):
        again = stream(folder, tmp_path / "cache")
        assert epochs(again, 3) == wanted
        settle(again)
        shutil.rmtree(tmp_path / "cache")


def test_a_cache_that_cannot_be_made_costs_one_warning(tmp_path, folder):
    (tmp_path / "file").write_text("in the way")
    wanted = epochs(stream(folder), 3)
    with pytest.warns(CacheWarning, match="cannot be used") as seen:
        assert epochs(stream(folder, tmp_path / "file" / "cache"), 3) == wanted
    assert len(seen) == 1


def test_values_of_every_dtype(tmp_path):
    rng = np.random.Generator(np.random.Philox(1))
    dtypes = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
    frame = make_table(700).with_columns(
        *(pl.Series(name, rng.integers(0, 100, 700).astype(name)) for name in dtypes),
        pl.Series("when", np.arange(700), dtype=pl.Datetime("us")),
        pl.Series("yes", rng.integers(0, 2, 700).astype(bool)),
    )
    assert epochs(stream(Dataset(frame), tmp_path / "cache"), 3) == epochs(stream(Dataset(frame)), 3)
