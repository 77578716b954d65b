"""Writing on a real cluster: workers that see another disk, and workers that are killed while they write."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import polars as pl
import pytest

from rowmill import Dataset
from rowmill.errors import DataFileError
from rowmill.sinks import shared
from rowmill.tools.synthetic import criteo

pytestmark = pytest.mark.timeout(300)


def can_hide():
    """Whether a process can be started that sees another disk in place of a folder."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    return (
        subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
    )


@pytest.fixture
def cluster():
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None, processes=True) as made,
        Client(made) as client,
    ):
        yield client


@pytest.fixture
def workers(cluster):
    """Starts worker processes; those with a folder to hide see an empty one in its place."""
    started = []

    def start(hidden=None):
        command = [sys.executable, "-m", "dask", "worker", cluster.scheduler.address, "--no-nanny", "--nthreads", "1"]
        command += ["--no-dashboard", "--host", "127.0.0.1"]
        if hidden is not None:
            command = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {hidden} && exec "$@"', "sh", *command]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        cluster.wait_for_workers(len(started), timeout=60)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def raw(tmp_path):
    criteo(tmp_path / "raw", 20_000, files=4, row_group_rows=1_000)
    return tmp_path / "raw"


def listing(folder):
    return sorted((str(p.relative_to(folder)), p.stat().st_size) for p in folder.rglob("*"))


@pytest.mark.skipif(not can_hide(), reason="needs root, to give a process another disk")
@pytest.mark.parametrize("seeing", [0, 1])
def test_workers_that_do_not_see_the_folder_replace_nothing(cluster, workers, raw, tmp_path, seeing):
    target = tmp_path / "shared" / "out"
    Dataset(raw).to_parquet(target, output_files=2)
    before, wanted = listing(tmp_path / "shared"), Dataset(target).to_polars()
    for _ in range(seeing):
        workers()
    workers(hidden=target.parent)
    with pytest.raises(DataFileError, match=r"does not see the folder.*all workers share"):
        Dataset(raw, client=cluster).to_parquet(target, output_files=4)
    assert listing(tmp_path / "shared") == before
    assert Dataset(target).to_polars().equals(wanted)


@pytest.mark.skipif(not can_hide(), reason="needs root, to give a process another disk")
def test_a_worker_that_joins_later_checks_for_itself(cluster, workers, raw, tmp_path, monkeypatch):
    target = tmp_path / "shared" / "out"
    target.parent.mkdir()
    monkeypatch.setattr(shared.SharedFolder, "check_workers", lambda self, client: None)
    workers(hidden=target.parent)
    with pytest.raises(DataFileError, match="does not see the folder"):
        Dataset(raw, client=cluster).to_parquet(target, output_files=2)
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_files_are_looked_at_before_they_are_published(raw, tmp_path, monkeypatch, damage):
    """Whatever a worker says: a file that is not there, or has other rows, is found by the client."""
    target = tmp_path / "out"
    Dataset(raw).to_parquet(target, output_files=2)
    before, close = listing(target), shared.SharedFolder.close

    def damaged(self, files):
        path = self.folder / "part_1.parquet"
        frame = pl.read_parquet(path)
        path.unlink()
        if damage == "short":
            frame.head(5).write_parquet(path)
        close(self, files)

    monkeypatch.setattr(shared, "VISIBLE_SECONDS", 0.1)
    monkeypatch.setattr(shared.SharedFolder, "close", damaged)
    with pytest.raises(DataFileError, match=r"part_1.parquet .*nothing was published"):
        Dataset(raw).to_parquet(target, output_files=4)
    assert listing(target) == before and sorted(os.listdir(tmp_path)) == ["out", "raw"]


def test_a_worker_killed_while_it_writes_leaves_nothing(cluster, workers, raw, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    Dataset(raw).to_parquet(here, output_files=4, row_group_size=100)
    victims = [workers(), workers()]
    killed = threading.Event()

    def kill():
        """End a worker as soon as there is a file that it has begun."""
        while not killed.is_set():
            if [p for p in tmp_path.glob(".there.*/.unfinished/*.parquet") if p.stat().st_size]:
                os.kill(victims[0].pid, signal.SIGKILL)
                killed.set()
            time.sleep(0.0005)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        Dataset(raw, client=cluster).to_parquet(there, output_files=4, row_group_size=100)
        assert killed.is_set()
    finally:
        killed.set()
        killer.join()
    assert [name for name, _ in listing(there)] == [name for name, _ in listing(here)]
    assert Dataset(there).to_polars().equals(Dataset(here).to_polars())
    Dataset(raw).to_parquet(there, output_files=2)  # which refuses a folder with a file that it did not write
