"""Any byte changed or cut off is found before its rows are delivered; the store is built again, rows are right."""

import os
import random
import shutil
import warnings

import pytest

from rowmill.errors import CacheWarning, StoreError
from rowmill.store import files
from tests.counts import thorough
from tests.store.common import digest, epochs, lists_folder, settle, stream

FLIPS, CUTS = thorough(100, 10_000), thorough(40, 1_000)
HARMLESS = {"journal", "claims", "meta.json"}  # never read again once a store is complete


@pytest.fixture
def built(tmp_path):
    folder = lists_folder(tmp_path, 400)
    whole = stream(folder, tmp_path / "cache")
    digest(whole.batches())
    settle(whole)
    (stored,) = (tmp_path / "cache").iterdir()
    shutil.copytree(stored, tmp_path / "good")
    return folder, stored, tmp_path / "good"


def files_of(stored):
    found = [p for p in sorted(stored.rglob("*")) if p.is_file() and p.name not in HARMLESS and p.stat().st_size]
    return found, [p.stat().st_size for p in found]


def broken(damage, built, dice, wanted):
    """Damage a whole store, run an epoch, and say whether the damage was noticed."""
    folder, stored, good = built
    found, sizes = files_of(stored)
    damage(*dice.choices([(p, s) for p, s in zip(found, sizes, strict=True)], weights=sizes)[0], dice)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        again = stream(folder, stored.parent)
        assert digest(again.batches()) == wanted
        settle(again)
    shutil.rmtree(stored.parent)
    shutil.copytree(good, stored)
    return any("built again" in str(w.message) for w in seen if issubclass(w.category, CacheWarning))


def flip(path, size, dice):
    at = dice.randrange(size)
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)[0]
        file.seek(at)
        file.write(bytes([old ^ dice.randrange(1, 256)]))


def cut(path, size, dice):
    os.truncate(path, dice.randrange(size))


@pytest.mark.parametrize(("damage", "times"), [(flip, FLIPS), (cut, CUTS)], ids=["flips", "cuts"])
def test_damage_is_found_and_mended(built, tried, damage, times):
    dice, wanted = random.Random(5), digest(stream(built[0]).batches())
    assert sum(broken(damage, built, dice, wanted) for _ in range(times)) == times
    tried({flip: "flipped bytes of stores", cut: "truncations of stores"}[damage], times)


def test_a_missing_file_is_found_and_mended(built):
    folder, stored, good = built
    wanted = digest(stream(folder).batches())
    for name in [str(p.relative_to(stored)) for p in files_of(stored)[0]]:
        (stored / name).unlink()
        with pytest.warns(CacheWarning, match="built again"):
            again = stream(folder, stored.parent)
            assert digest(again.batches()) == wanted
        settle(again)
        assert (stored / name).read_bytes() == (good / name).read_bytes()


def test_rows_written_before_a_crash_are_summed_too(tmp_path):
    """Power fails: the journal is on the disk, the data it tells of are not."""
    folder = lists_folder(tmp_path)
    wanted = epochs(stream(folder), 2)
    first = stream(folder, tmp_path / "cache")
    batches = first.batches()
    next(batches)
    first.cached.finish = lambda: None  # never completed
    batches.close()
    (building,) = (tmp_path / "cache").iterdir()
    for path in building.rglob("*.memmap"):
        path.write_bytes(bytes(path.stat().st_size))
    assert epochs(stream(folder, tmp_path / "cache"), 2) == wanted


def test_cut_while_it_is_open(built):
    """The map is not touched beyond the end of a file: that would kill the process."""
    folder, stored, _ = built
    wanted = epochs(stream(folder), 2)
    again = stream(folder, stored.parent)
    assert digest(again.batches()) == wanted[0]
    os.truncate(stored / "int32.memmap", 8)
    with pytest.warns(CacheWarning, match="built again"):
        assert digest(again.batches()) == wanted[1]
    settle(again)


def test_damage_before_a_full_shuffle_is_an_error_that_says_what_to_do(built):
    folder, stored, _ = built
    flip(stored / "int32.memmap", 100, random.Random(1))
    full = stream(folder, stored.parent, shuffle="full")
    with pytest.warns(CacheWarning, match="built again"), pytest.raises(StoreError, match="build_cache"):
        full.batches()
    full.build_cache()
    assert sum(batch.rows for batch in full.batches()) == 400


def test_readers_keep_their_view_while_a_store_is_rebuilt(built):
    folder, stored, _ = built
    wanted = epochs(stream(folder), 8)
    reader = stream(folder, stored.parent)
    for number in range(8):
        batches = reader.batches()
        got = [next(batches)]
        if number % 2:
            assert files.remove(stored, used=True)  # what a process does that finds damage
        other = stream(folder, stored.parent)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            digest(other.batches())
            settle(other)
            got += batches
        assert digest(got) == wanted[number]
    settle(reader)
