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
    from rowmill._system import handles
    from rowmill.loader.numpy import Loader

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


WINDOWS = textwrap.dedent("""
    import builtins, os, select, sys, warnings

    for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "pread", "preadv", "pwrite",
                 "geteuid", "sysconf", "memfd_create", "posix_fallocate", "sched_getaffinity"):
        delattr(os, name)
    del select.epoll
    os.supports_dir_fd.clear()
    real_open, real_import = os.open, builtins.__import__

    def open_file(path, flags, mode=0o777, *, dir_fd=None):
        assert dir_fd is None, "this system has no handles on folders"
        if os.path.isdir(path):
            raise PermissionError(13, "a folder cannot be opened", path)
        return real_open(path, flags, mode)

    def import_module(name, *args, **kwargs):
        if name in ("fcntl", "resource"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    import numpy, polars, pyarrow.parquet, torch, tensordict  # which have found out by themselves what there is
    os.open, builtins.__import__ = open_file, import_module
    sys.modules.pop("fcntl", None)

    import rowmill
    from rowmill import ops
    from rowmill.errors import StoreError, WorkflowFileError
    from rowmill.loader.tensordict import dataset_to_tensordict
    from rowmill.loader.torch import Loader

    table, out = sys.argv[1:]
    data = rowmill.Dataset(table)
    rows = [row for batch, _ in Loader(data, 100, shuffle=True) for row in batch["id"].tolist()]
    assert sorted(rows) == list(range(3000))
    assert data.as_map_style(columns=["id"])[17]["id"] == 17
    made = rowmill.Workflow((["cat_a"] >> ops.Categorify()) + ["id"]).fit(data)
    made.save(out + "/workflow")
    loaded = rowmill.Workflow.load(out + "/workflow")
    wanted = made.transform(data).to_polars()
    assert loaded.transform(data).to_polars().equals(wanted)
    for _ in range(2):
        made.transform(data).to_parquet(out + "/made")
    assert rowmill.Dataset(out + "/made").to_polars().equals(wanted)
    for refused in (lambda: Loader(data, 100, cache=out), lambda: dataset_to_tensordict([1, 2], folder=out)):
        try:
            refused()
        except StoreError as error:
            assert "leave out cache=" in str(error)
        else:
            raise AssertionError("a store on a system without folder handles")
    os.rename(out + "/workflow/workflow.json", out + "/elsewhere.json")
    os.symlink(out + "/elsewhere.json", out + "/workflow/workflow.json")
    try:
        rowmill.Workflow.load(out + "/workflow")
    except WorkflowFileError as error:
        assert "not a regular file" in str(error)
        print("done")
""")


def test_all_but_stores_works_without_folder_handles(tmp_path):
    """Windows has no `fcntl`, no handles on folders, no flags against links and no reading at a position."""
    write_files(tmp_path / "table", make_table(3000), files=2, row_group=400)
    command = [sys.executable, "-c", WINDOWS, str(tmp_path / "table"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr[-3000:]
