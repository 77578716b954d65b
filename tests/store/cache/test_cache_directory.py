"""The folder of stores: its limit, what goes first, what is in use, and the two functions a user has for it."""

import os
import shutil
import time

import pytest

import rowmill
from rowmill import Dataset
from rowmill.errors import CacheWarning
from rowmill.store import files
from tests.conftest import make_table, write_files
from tests.store.common import digest, epochs, lists_folder, settle, stream

ROWS = 20_000  # of 28 bytes: 560 kB a store


@pytest.fixture
def folders(tmp_path):
    for number in range(4):
        write_files(tmp_path / f"t{number}", make_table(ROWS, number), files=1, row_group=5000)
    return [tmp_path / f"t{number}" for number in range(4)]


def built(folder, cache, **options):
    made = stream(folder, cache, memory="20MB", **options)
    epochs(made, 1)
    settle(made)
    return made.cached.name


def test_the_oldest_goes_first(folders, tmp_path):
    cache, names = tmp_path / "cache", []
    for number, folder in enumerate(folders[:3]):
        names.append(built(folder, cache, cache_size="2MB"))
        os.utime(names[-1], (1000 + number, 1000 + number))
    assert [entry.path for entry in rowmill.cache.list(cache)] == names
    built(folders[0], cache, cache_size="2MB")  # used again: no longer the oldest
    assert rowmill.cache.list(cache)[-1].path == names[0]
    newest = built(folders[3], cache, cache_size="2MB")
    assert {entry.path for entry in rowmill.cache.list(cache)} == {names[0], names[2], newest}
    assert sum(entry.nbytes for entry in rowmill.cache.list(cache)) <= 2_000_000


def test_a_store_in_use_stays(folders, tmp_path):
    cache = tmp_path / "cache"
    reader = stream(folders[0], cache, memory="20MB")
    reader.build_cache()
    wanted = epochs(stream(folders[1], memory="20MB"), 2)
    with pytest.warns(CacheWarning, match="does not fit in cache_size") as seen:
        crowded = stream(folders[1], cache, memory="20MB", cache_size="1MB")
        assert epochs(crowded, 2) == wanted
    assert len(seen) == 1
    assert rowmill.cache.clear(cache) == 0
    assert [entry.path for entry in rowmill.cache.list(cache)] == [reader.cached.name]
    del reader
    assert rowmill.cache.clear(cache) == 1
    assert os.listdir(cache) == []


def test_a_store_larger_than_the_limit_is_not_begun(folders, tmp_path):
    wanted = epochs(stream(folders[0], memory="20MB"), 2)
    with pytest.warns(CacheWarning, match="does not fit in cache_size=100.0 kB"):
        assert epochs(stream(folders[0], tmp_path / "cache", memory="20MB", cache_size=100_000), 2) == wanted
    assert rowmill.cache.list(tmp_path / "cache") == []


def test_what_list_says(folders, tmp_path):
    cache = tmp_path / "cache"
    before = time.time() - 1
    name = built(folders[0], cache)
    begun = stream(folders[1], cache, memory="2MB", threads=1)
    batches = begun.batches()
    next(batches)
    batches.close()
    done, half = sorted(rowmill.cache.list(cache), key=lambda entry: not entry.complete)
    assert (done.path, done.complete, done.rows) == (name, True, ROWS)
    assert "t0/part_0.parquet" in done.source and done.nbytes >= ROWS * 28 and done.used >= before
    assert (half.complete, half.rows) == (False, None)


def test_strangers_are_left_alone(folders, tmp_path):
    cache = tmp_path / "cache"
    built(folders[0], cache, cache_size="1MB")
    (cache / "mine").mkdir()
    (cache / "mine" / "file").write_text("keep")
    (cache / "note.txt").write_text("keep")
    assert rowmill.cache.clear(cache) == 1
    assert sorted(os.listdir(cache)) == ["mine", "note.txt"]
    assert rowmill.cache.list(tmp_path / "nowhere") == [] and rowmill.cache.clear(tmp_path / "nowhere") == 0


def test_what_was_killed_while_it_was_removed_goes_too(folders, tmp_path):
    cache = tmp_path / "cache"
    name = built(folders[0], cache)
    name.rename(cache / ".gone-0123")
    built(folders[1], cache)
    assert len(os.listdir(cache)) == 1


def test_the_folder_of_auto(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("ROWMILL_CACHE", str(tmp_path / "auto"))
    made = stream(Dataset(folders[0]), "auto", memory="2MB")
    made.build_cache()
    assert [entry.complete for entry in rowmill.cache.list()] == [True]
    monkeypatch.delenv("ROWMILL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert stream(folders[0], "auto", memory="2MB").cached.name.parent == tmp_path / "xdg" / "rowmill"


def test_a_store_that_is_removed_while_it_is_completed_is_gone_without_a_word(tmp_path, monkeypatch, recwarn):
    whole, real = stream(lists_folder(tmp_path), tmp_path / "cache"), files.sync

    def removed(handle):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        real(handle)

    monkeypatch.setattr(files, "sync", removed)
    wanted = digest(stream(tmp_path / "table").batches())
    assert digest(whole.batches()) == wanted
    settle(whole)
    monkeypatch.undo()
    assert not [str(one.message) for one in recwarn if issubclass(one.category, CacheWarning)]
