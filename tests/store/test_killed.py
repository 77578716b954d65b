"""Processes that are killed, that run out of disk, and that start together: real ones, and never a wrong row."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import make_table, write_files
from tests.counts import THOROUGH, thorough
from tests.store.common import epochs, large_folder, lists_folder, stream

pytestmark = pytest.mark.timeout(3600 if THOROUGH else 300)
ROOT = Path(__file__).parents[2]
MOMENTS = thorough(8, 200)
ROUNDS = thorough(1, 20)
# Every so many-th operation.
STEPS = {"table": thorough(31, 1), "large": thorough(67, 1), "scalars": thorough(23, 1)}


@pytest.fixture(scope="module")
def forge():
    """Gives the function that runs orders in forked children, all at once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.forge"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )

    def run(*orders):
        process.stdin.write(json.dumps(orders) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield run
    process.stdin.close()
    process.wait(timeout=60)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = lists_folder(tmp_path_factory.mktemp("killed"), 700)
    return str(folder), epochs(stream(folder), 2)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A table whose store is begun anew, because one of its last ids needs 8 bytes."""
    folder = large_folder(tmp_path_factory.mktemp("large"), -50)
    return str(folder), epochs(stream(folder), 2)


@pytest.fixture(scope="module")
def scalars(tmp_path_factory):
    """A table without lists."""
    folder = tmp_path_factory.mktemp("scalars")
    write_files(folder, make_table(700), row_group=400)
    return str(folder), epochs(stream(folder), 2)


def leftovers(cache):
    return [p.name for p in Path(cache).iterdir() if p.name.startswith(".") or p.name.endswith(".building")]


@pytest.mark.parametrize("which", ["table", "large", "scalars"])
def test_killed_at_every_file_operation(forge, which, request, tmp_path, tried):
    folder, wanted = request.getfixturevalue(which)
    (whole,) = forge({"folder": folder, "cache": str(tmp_path / "whole"), "epochs": 2})
    assert whole["digests"] == wanted and whole["operations"] > 60
    for at in range(1, whole["operations"] + 1, STEPS[which]):
        cache = str(tmp_path / str(at))
        order = {"folder": folder, "cache": cache, "epochs": 2}
        (killed,) = forge({**order, "at": at, "action": "kill"})
        assert killed.get("signal") == 9 or killed["digests"] == wanted  # threads race: some runs have fewer operations
        (again,) = forge(order)
        assert again["digests"] == wanted, at
        assert again["warnings"] == [] and "100% there" in again["text"], (at, again)
        assert leftovers(cache) == [], at
        assert len(os.listdir(cache)) == 1
        tried("kills of processes that write a store")


@pytest.mark.parametrize("which", ["table", "large", "scalars"])
def test_killed_at_random_moments(forge, which, request, tmp_path, tried):
    folder, wanted = request.getfixturevalue(which)
    dice, kills = random.Random(7), 0
    cache = str(tmp_path / "cache")
    for _ in range(MOMENTS):
        order = {"folder": folder, "cache": cache, "epochs": 2}
        (killed,) = forge({**order, "after": dice.uniform(0.0, 0.12)})
        kills += killed.get("signal") == 9
        assert killed.get("signal") == 9 or killed["digests"] == wanted
        if dice.random() < 0.4:
            (again,) = forge(order)
            assert again["digests"] == wanted and again["warnings"] == []
            assert leftovers(cache) == []
            cache = str(tmp_path / str(dice.random()))
    assert kills > MOMENTS / 3
    tried("kills of processes that write a store", kills)


@pytest.mark.parametrize("which", ["table", "large", "scalars"])
def test_no_room_at_any_write(forge, which, request, tmp_path, tried):
    """From the n-th write on the disk is full: one warning, the right rows, and a next run that just works."""
    folder, wanted = request.getfixturevalue(which)
    only = ["pwrite", "write", "fsync", "posix_fallocate", "ftruncate"]
    order = {"folder": folder, "epochs": 2, "only": only}
    (whole,) = forge({**order, "cache": str(tmp_path / "whole"), "at": 10**9, "action": "full"})
    assert whole["digests"] == wanted and whole["operations"] > 20
    for at in range(1, whole["operations"] + 1, STEPS[which]):
        cache = str(tmp_path / str(at))
        (full,) = forge({**order, "cache": cache, "at": at, "action": "full"})
        assert full["digests"] == wanted, at
        assert len(full["warnings"]) <= 1, full["warnings"]
        complete = "100% there" in full["text"]  # the last call says that the name of a complete store is on the disk
        assert full["warnings"] or full["operations"] < at or (complete and at >= whole["operations"]), at
        (again,) = forge({**order, "cache": cache})
        assert again["digests"] == wanted and again["warnings"] == [] and "100% there" in again["text"], (at, again)
        tried("stores that find no room")


def test_a_real_small_disk(table, tmp_path):
    """A tmpfs of a few sizes, in a mount namespace of its own."""
    folder, wanted = table
    code = (
        "import sys, json, warnings; sys.path[:0] = ['src', '.']\n"
        "from tests.store.forge import run\n"
        f"print(json.dumps(run({{'folder': {folder!r}, 'cache': sys.argv[1] + '/c', 'epochs': 2}})))\n"
    )
    sizes = (8, 32, 64, 128, 192, 1024)
    script = "set -e\n" + "\n".join(
        f"mkdir {tmp_path}/{size}; mount -t tmpfs -o size={size}k tmpfs {tmp_path}/{size}; "
        f"{sys.executable} {tmp_path}/code.py {tmp_path}/{size}"
        for size in (sizes if THOROUGH else sizes[1::2])
    )
    (tmp_path / "code.py").write_text(code)
    found = subprocess.run(["unshare", "-m", "bash", "-c", script], cwd=ROOT, capture_output=True, text=True)
    if "Operation not permitted" in found.stderr or "unshare failed" in found.stderr:
        pytest.skip("no mount namespaces here")
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert found.returncode == 0, found.stderr
    assert all(answer["digests"] == wanted for answer in answers)
    assert len(answers[0]["warnings"]) == 1 and "no space left on device" in answers[0]["warnings"][0]
    assert answers[-1]["warnings"] == [] and "100% there" in answers[-1]["text"]


def test_eight_processes_build_it_once(forge, table, tmp_path):
    folder, wanted = table
    for number in range(ROUNDS):
        cache = str(tmp_path / str(number))
        order = {"folder": folder, "cache": cache, "epochs": 2, "wait": time.time() + 0.1}
        answers = forge(*[order] * 8)
        assert [answer.get("digests") for answer in answers] == [wanted] * 8, answers
        assert sum(answer["written"] for answer in answers) == 700
        assert [answer["warnings"] for answer in answers] == [[]] * 8
        assert len(os.listdir(cache)) == 1 and leftovers(cache) == []


def test_eight_processes_find_a_large_id(forge, large, tmp_path):
    folder, wanted = large
    for number in range(ROUNDS):
        cache = str(tmp_path / str(number))
        order = {"folder": folder, "cache": cache, "epochs": 2, "wait": time.time() + 0.1}
        answers = forge(*[order] * 8)
        assert [answer.get("digests") for answer in answers] == [wanted] * 8, answers
        assert [answer["warnings"] for answer in answers] == [[]] * 8
        (again,) = forge({**order, "wait": 0})
        assert again["digests"] == wanted and again["warnings"] == [] and "100% there" in again["text"]
        assert len(os.listdir(cache)) == 1 and leftovers(cache) == []


def test_a_killed_builder_blocks_nobody(forge, table, tmp_path):
    """Each of the eight begins, three are killed on their way; the others and the next run finish the store."""
    folder, wanted = table
    dice = random.Random(3)
    for number in range(ROUNDS):
        cache = str(tmp_path / str(number))
        order = {"folder": folder, "cache": cache, "epochs": 2, "wait": time.time() + 0.1}
        kills = [{**order, "action": "kill", "at": dice.randrange(20, 80)} for _ in range(3)]
        answers = forge(*[order] * 5, *kills)
        assert [answer.get("digests") for answer in answers[:5]] == [wanted] * 5, answers
        (again,) = forge({**order, "wait": 0})
        assert again["digests"] == wanted and again["warnings"] == [] and leftovers(cache) == []


def test_eight_ranks_fill_it_together(forge, table, tmp_path):
    folder, _ = table
    order = {"folder": folder, "cache": str(tmp_path / "cache"), "epochs": 1}
    answers = forge(*[{**order, "options": {"ranks": 8, "rank": rank}} for rank in range(8)])
    assert sum(answer["written"] for answer in answers) == 700
    wanted = [epochs(stream(folder, ranks=8, rank=rank), 1) for rank in range(8)]
    assert [answer["digests"] for answer in answers] == wanted
