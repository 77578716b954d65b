"""What other systems lack (epoll, memfd, locks of open files, fallocate, huge pages, renameat2): plain fallbacks."""

import subprocess
import sys
import textwrap
import warnings

import pytest

from tests.store.common import make_table, write_files

PROGRAM = textwrap.dedent("""
    import fcntl, mmap, os, select, sys, warnings
    for module, name in ((select, "epoll"), (os, "memfd_create"), (os, "posix_fallocate"), (os, "sched_getaffinity"),
                         (fcntl, "F_OFD_SETLK"), (mmap, "MADV_HUGEPAGE")):
        if name in sys.argv[3:] or len(sys.argv) == 3:
            delattr(module, name)
    warnings.simplefilter("error")
    import rowmill
    from rowmill import handles
    from rowmill.loader.torch import Loader

    data = rowmill.Dataset(sys.argv[1])
    wanted = [batch["id"].tolist() for batch, _ in Loader(data, 100, columns=["id", "x1"], shuffle=True)]
    for cache in (sys.argv[2], "auto"):
        loader = Loader(data, 100, columns=["id", "x1"], shuffle=True, cache=cache)
        assert [batch["id"].tolist() for batch, _ in loader] == wanted
        loader.set_epoch(0)
        assert [batch["id"].tolist() for batch, _ in loader] == wanted
    full = Loader(data, 100, columns=["id", "x1"], shuffle="full", cache=sys.argv[2])
    assert sorted(row for batch, _ in full for row in batch["id"].tolist()) == list(range(3000))
    data.to_parquet(sys.argv[2] + "/out")
    data.to_parquet(sys.argv[2] + "/out")
    assert rowmill.Dataset(sys.argv[2] + "/out").num_rows == 3000
    print(handles.Handle.__name__)
""")


@pytest.mark.parametrize("without", ["", "epoll", "memfd_create", "F_OFD_SETLK", "posix_fallocate", "MADV_HUGEPAGE"])
def test_stores_and_writers_work_without(tmp_path, without):
    write_files(tmp_path / "table", make_table(3000), files=2, row_group=400)
    (tmp_path / "cache").mkdir()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "table"), str(tmp_path / "cache"), *without.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == ("PlainHandle" if without in ("", "epoll") else "epoll")


def test_a_folder_is_replaced_without_an_atomic_exchange(tmp_path, monkeypatch):
    import rowmill
    from rowmill.sinks import staging

    class Library:
        """A C library without renameat2."""

    monkeypatch.setattr(staging.ctypes, "CDLL", lambda *_, **__: Library())
    data = rowmill.Dataset({"a": list(range(50))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            data.to_parquet(tmp_path / "out")
    assert rowmill.Dataset(tmp_path / "out").num_rows == 50
