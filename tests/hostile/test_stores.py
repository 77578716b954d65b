"""Whatever stands in a cache folder: rows are right, nothing outside is touched, nothing hangs, one warning at most."""

import fcntl
import json
import os
import random
import shutil
import socket
import stat
import zlib

import pytest

from rowmill.store import format
from tests.counts import hostile
from tests.hostile.common import snapshot, visitors
from tests.store.common import digest, epochs, lists_folder, settle, stream

pytestmark = pytest.mark.timeout(1800)
STRANGER = 54321  # a user that is not us
IS_ROOT = os.geteuid() == 0
MOST_MB = 300  # that a child may grow by


@pytest.fixture(scope="module")
def visit():
    with visitors() as run:
        yield run


@pytest.fixture(scope="module")
def visit_wrapped():
    with visitors("wrap") as run:
        yield run


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table, what two epochs of it are, and a cache folder with a complete and one with an unfinished store of it."""
    home = tmp_path_factory.mktemp("stores")
    folder = lists_folder(home, 400)
    whole = stream(folder, home / "complete")
    digest(whole.batches())
    settle(whole)
    begun = stream(folder, home / "building")
    begun.cached.finish = lambda: None
    digest(begun.batches())
    return folder, epochs(stream(folder), 2), home


def plant(kind, path, outside):
    """Put something hostile in place of a file or folder. Returns False if that cannot be done here."""
    was_folder = path.is_dir() and not path.is_symlink()
    if kind == "foreign":
        if not IS_ROOT or not path.exists():
            return False
        os.chown(path, STRANGER, STRANGER)
        return True
    if kind == "hard link" and was_folder:
        return False
    shutil.rmtree(path) if was_folder else path.unlink(missing_ok=True)
    if kind == "link to a file":
        path.symlink_to(outside / "precious")
    elif kind == "link to a folder":
        path.symlink_to(outside / "folder")
    elif kind == "dangling link":
        path.symlink_to(outside / "new")
    elif kind == "link to zeros":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as held:
            here = os.open(path.parent, os.O_RDONLY)
            held.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
    elif kind == "device":
        if not IS_ROOT:
            return False
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except OSError:
            return False
    elif kind == "folder":
        path.mkdir()
        (path / "inside").write_text("x")
    elif kind == "hard link":
        os.link(outside / "precious", path)
    elif kind == "empty file":
        path.write_bytes(b"")
    elif kind == "endless file":
        path.write_bytes(b"x")
        os.truncate(path, 1 << 40)
    return True


KINDS = (
    "link to a file", "link to a folder", "dangling link", "link to zeros", "pipe", "socket", "device", "folder",
    "hard link", "empty file", "endless file", "foreign",
)  # fmt: skip
PLACES = {
    "complete": (".", "manifest.json", "int32.memmap", "float32.memmap", "lists", "lists/values_0.memmap",
                 "lists/offsets_0.memmap", "meta.json"),
    "building": (".", "journal", "claims", "int32.memmap", "lists", "lists/values_0.part", "lists/lengths_0.part",
                 "lists/values_0.memmap", "lists/offsets_0.memmap", "manifest.json", "meta.json", "lists/meta.json"),
}  # fmt: skip
ATTACKS = [(state, place, kind) for state in PLACES for place in PLACES[state] for kind in KINDS]


def outside_of(tmp_path):
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "precious").write_bytes(b"precious" * 1000)
    (outside / "folder" / "kept").write_text("kept")
    return outside


def copied(table, state, tmp_path):
    """A cache folder of one's own with the store in this state."""
    shutil.copytree(table[2] / state, tmp_path / "cache")
    (store,) = (tmp_path / "cache").iterdir()
    return store


def is_fine(answer, wanted):
    assert answer["error"] == ""
    assert answer["found"] == wanted
    assert len(answer["warnings"]) <= 1, answer["warnings"]
    assert answer["grew"] < MOST_MB


@pytest.mark.parametrize("part", range(4))
def test_what_others_put_in_a_store(visit, table, tmp_path, tried, part):
    attacks = random.Random(part).sample(ATTACKS[part::4], hostile(3, len(ATTACKS[part::4])))
    for number, (state, place, kind) in enumerate(attacks):
        here = tmp_path / str(number)
        outside, store = outside_of(here), copied(table, state, here)
        if not plant(kind, store if place == "." else store / place, outside):
            continue
        before = snapshot(outside)
        try:
            is_fine(visit(folder=str(table[0]), cache=str(here / "cache")), table[1])
            listed, cleared = (visit(what=what, cache=str(here / "cache")) for what in ("list", "clear"))
            assert listed["error"] == cleared["error"] == ""
            assert max(listed["grew"], cleared["grew"]) < MOST_MB
            assert snapshot(outside) == before
        except AssertionError as error:
            raise AssertionError(f"{kind} in place of {place} of a {state} store") from error
        tried("things planted in stores")
        shutil.rmtree(here)


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_put_under_the_names_of_a_store(visit, table, tmp_path, kind):
    """Nothing is stored yet, and something stands where the store is to be built, or where it will be."""
    (name,) = (path.name for path in (table[2] / "complete").iterdir())
    for ending in ("", ".building"):
        here = tmp_path / f"at{ending}"
        outside, cache = outside_of(here), here / "cache"
        cache.mkdir()
        if kind == "foreign":
            (cache / f"{name}{ending}").mkdir()
        if not plant(kind, cache / f"{name}{ending}", outside):
            continue
        before = snapshot(outside)
        is_fine(visit(folder=str(table[0]), cache=str(cache)), table[1])
        assert snapshot(outside) == before


def test_a_removed_store_that_is_a_link_or_a_pipe(visit, tmp_path):
    outside, cache = outside_of(tmp_path), tmp_path / "cache"
    cache.mkdir()
    (cache / ".gone-1").symlink_to(outside / "folder")
    os.mkfifo(cache / ".gone-2")
    (cache / f"{'a' * 12}-{'b' * 20}-3").symlink_to(outside / "folder")
    before = snapshot(outside)
    assert visit(what="clear", cache=str(cache))["error"] == ""
    assert visit(what="list", cache=str(cache))["found"] == []
    assert snapshot(outside) == before


def values():
    deep = []
    for _ in range(500):
        deep = [deep]
    huge = [2**63, 2**64, 2**200, -1, -(2**63), 0, 1]
    floats = [1.5, 1e308, float("nan"), float("inf")]
    return [*huge, *floats, True, None, "", "x" * 5000, "../../x", [], {}, deep, [[1, 2]]]


def places(content, path=()):
    yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def damaged(text, dice):
    """A manifest with one thing in it replaced, removed, doubled or added; half of them with a sum that is right."""
    content = json.loads(text)
    path = dice.choice([place for place in places(content) if place])
    target = content
    for key in path[:-1]:
        target = target[key]
    how = dice.randrange(4)
    if how == 0:
        del target[path[-1]]
    elif how == 1 and isinstance(target, list):
        target.insert(dice.randrange(len(target) + 1), dice.choice([target[path[-1]], *values()]))
    else:
        target[path[-1]] = dice.choice(values())
    summed = dice.random() < 0.5
    if summed:
        content.pop("sha256", None)
        content["sha256"] = format._sum(content)
    made = json.dumps(content).encode()
    if how == 2:
        key, _, rest = made.partition(b",")
        made = key + b"," + key[1:] + b"," + rest
    return made, summed


def test_manifests_that_are_none(visit, table, tmp_path, tried):
    dice = random.Random(11)
    store = copied(table, "complete", tmp_path)
    good = (store / "manifest.json").read_bytes()
    texts = [b"", b"[" * 100_000, b"{" * 5_000_000, b"[" + b"1," * 4_000_000 + b"1]", b"9" * 100_000, b"\xff\xfe\x00"]
    texts += [good[: len(good) // 2], good + good, b"null", b'"x"', good.replace(b'"rows": 400', b'"rows": 400.0')]
    plain = [(text, False) for text in dice.sample(texts, hostile(3, len(texts)))]
    for text, summed in [damaged(good, dice) for _ in range(hostile(5, 400))] + plain:
        if text == good:
            continue
        (store / "manifest.json").write_bytes(text)
        listed = visit(what="list", cache=str(store.parent))
        assert (listed["error"], listed["grew"] < MOST_MB) == ("", True)
        answer = visit(folder=str(table[0]), cache=str(store.parent))
        is_fine(answer, table[1])
        assert summed or "built again" in "".join(answer["warnings"]), text[:200]
        tried("manifests of stores")


def test_a_store_of_another_table_under_this_name(visit, table, tmp_path):
    """Both have the same columns and as many rows: the manifest says whose it is."""
    other = lists_folder(tmp_path / "other", 400)
    path = next(other.iterdir())
    import polars as pl

    pl.read_parquet(path).with_columns(pl.col("id") + 7).write_parquet(path)
    made = stream(other, tmp_path / "cache")
    digest(made.batches())
    settle(made)
    (store,) = (tmp_path / "cache").iterdir()
    (name,) = (path.name for path in (table[2] / "complete").iterdir())
    store.rename(store.with_name(name))
    answer = visit(folder=str(table[0]), cache=str(tmp_path / "cache"))
    is_fine(answer, table[1])
    assert "damaged" in answer["warnings"][0]


def line(content):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return b"\n%08x %b" % (zlib.crc32(text), text)


def journals(dice):
    numbers = [-1, 0, 1, 399, 400, 401, 2**31, 2**63 - 1, 2**63, 2**64, 2**200, 1.5, True, None, "1", [], {}]
    sums = ["0" * 16, "f" * 16, "", "xyz", "-1", "0" * 17, 5, None, "0x00000000000000"]
    for _ in range(hostile(5, 250)):
        lists = [dice.choice(numbers) for _ in range(dice.choice([0, 1, 1, 1, 2]))]
        entries = [[dice.choice(numbers), dice.choice(numbers), dice.choice(sums), lists] for _ in range(20)]
        yield b"".join(map(line, entries))
    yield b"".join(line([start, 10, "0" * 16, [0]]) for start in range(390))  # overlapping
    yield line([0, 400, "0" * 16, [2**62]])
    yield line(b"[" * 50_000) + line([[[]]]) + line({}) + line(7) + line(b"")
    yield b"\n" * 3_000_000
    yield b"x" * 9_000_000
    yield bytes(dice.randrange(256) for _ in range(10_000))


def test_journals_that_are_none(visit, table, tmp_path, tried):
    dice = random.Random(12)
    good = copied(table, "building", tmp_path)
    own = (good / "journal").read_bytes()
    texts = list(journals(dice))
    for number, text in enumerate(dice.sample(texts, hostile(6, len(texts)))):
        cache = tmp_path / str(number)
        shutil.copytree(good.parent, cache)
        (store,) = cache.iterdir()
        (store / "journal").write_bytes(dice.choice([text, own + text, text + own]))
        is_fine(visit(folder=str(table[0]), cache=str(cache)), table[1])
        tried("journals of stores")
        shutil.rmtree(cache)


def test_a_journal_of_terabytes_is_not_read(visit, table, tmp_path):
    store = copied(table, "building", tmp_path)
    os.truncate(store / "journal", 1 << 40)
    is_fine(visit(folder=str(table[0]), cache=str(store.parent)), table[1])


@pytest.mark.parametrize("state", ["complete", "building"])
def test_a_store_that_somebody_keeps_locked(visit, table, tmp_path, state):
    store = copied(table, state, tmp_path)
    handle = os.open(store, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    answer = visit(folder=str(table[0]), cache=str(store.parent))
    os.close(handle)
    is_fine(answer, table[1])
    assert "locked" in answer["warnings"][0]


def default(tmp_path, kind, outside):
    """A default cache folder in a shared place."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    folder = shared / "rowmill"
    if kind == "another user's":
        folder.mkdir()
        os.chown(folder, STRANGER, STRANGER)
    elif kind == "another user's link":
        folder.symlink_to(outside / "folder")
        os.chown(folder, STRANGER, STRANGER, follow_symlinks=False)
    elif kind == "open to all":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "a file":
        folder.write_text("x")
    return folder


@pytest.mark.parametrize("variable", ["ROWMILL_CACHE", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("kind", ["new", "another user's", "another user's link", "open to all", "a file"])
def test_the_default_folder_is_ours_alone(visit, table, tmp_path, kind, variable):
    if "user" in kind and not IS_ROOT:
        pytest.skip("needs root to make another user's files")
    outside = outside_of(tmp_path)
    folder = default(tmp_path, kind, outside)
    before = snapshot(outside), folder.is_dir() and os.listdir(folder)
    environ = {"ROWMILL_CACHE": "", variable: str(folder if variable == "ROWMILL_CACHE" else folder.parent)}
    options = {"memory": "100kB"}
    answer = visit(folder=str(table[0]), cache="auto", environ=environ, options=options)
    assert answer["error"] == "" and answer["found"] == epochs(stream(table[0], **options), 2)
    if kind == "new":
        assert answer["warnings"] == []
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and len(os.listdir(folder)) == 1
    else:
        assert len(answer["warnings"]) == 1 and "cannot be used" in answer["warnings"][0]
        assert (snapshot(outside), folder.is_dir() and os.listdir(folder)) == before


@pytest.mark.parametrize("state", ["complete", "building"])
def test_wrapped_datasets_follow_the_same_rules(visit_wrapped, tmp_path, tried, state):
    visit = visit_wrapped
    first = visit(what="wrap", cache=str(tmp_path / "good"))
    assert first["error"] == "" and first["found"]
    (good,) = (tmp_path / "good").iterdir()
    files = [path.name for path in good.iterdir() if path.name not in ("journal", "claims", "meta.json")]
    attacks = [(file, kind) for file in [".", *files] for kind in KINDS]
    for number, (file, kind) in enumerate(random.Random(13).sample(attacks, hostile(3, len(attacks)))):
        here = tmp_path / str(number)
        outside = outside_of(here)
        shutil.copytree(tmp_path / "good", here / "cache")
        (store,) = (here / "cache").iterdir()
        if state == "building":
            store = store.rename(store.with_name(store.name + ".building"))
        if not plant(kind, store if file == "." else store / file, outside):
            continue
        before = snapshot(outside)
        answer = visit(what="wrap", cache=str(here / "cache"))
        assert answer["found"] == first["found"] or answer["error"].startswith(("StoreError", "DataFileError")), (
            file,
            kind,
            answer,
        )
        assert answer["grew"] < MOST_MB and snapshot(outside) == before, (file, kind)
        tried("things planted in stores")
        shutil.rmtree(here)
