"""A store is a folder that anyone can read: with three lines of NumPy, and with TensorDict, without a copy."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset
from rowmill.store.huge_page_writer import HUGE
from rowmill.store.mapped_rows import summed
from tests.conftest import make_table, write_files
from tests.store.common import digest, lists_folder, settle, stream, table_with_lists


@pytest.fixture
def stored(tmp_path):
    """The folder of a complete store of 1,003 rows."""
    whole = stream(lists_folder(tmp_path), tmp_path / "cache")
    digest(whole.batches())
    settle(whole)
    (folder,) = (tmp_path / "cache").iterdir()
    return folder


def column(manifest, arrays, name):
    for matrix, array in zip(manifest["matrices"], arrays, strict=True):
        if name in matrix["columns"]:
            at = sum(matrix["widths"][: matrix["columns"].index(name)])
            return array[:, at : at + matrix["widths"][matrix["columns"].index(name)]]
    raise KeyError(name)


def test_three_lines_of_numpy(stored):
    manifest = json.loads((stored / "manifest.json").read_text())
    arrays = [np.memmap(stored / m["file"], m["dtype"], "r", shape=tuple(m["shape"])) for m in manifest["matrices"]]
    frame = table_with_lists(1003)
    for name in ("id", "cat_a", "x1", "label", "seen"):
        assert column(manifest, arrays, name).ravel().tolist() == frame[name].to_list()
    assert np.array_equal(column(manifest, arrays, "vec"), frame["vec"].to_numpy())
    assert all(array.__array_interface__["data"][0] % 64 == 0 for array in arrays)
    (tags,) = manifest["lists"]
    values, offsets = np.fromfile(stored / tags["values"], tags["dtype"]), np.fromfile(stored / tags["offsets"], "i8")
    assert [values[a:b].tolist() for a, b in pairwise(offsets)] == frame["tags"].to_list()


def test_tensordict_opens_it_without_a_copy(stored):
    from tensordict import TensorDict

    mapped = TensorDict.load_memmap(stored)
    manifest = json.loads((stored / "manifest.json").read_text())
    assert mapped.batch_size == (1003,)
    for matrix in manifest["matrices"]:
        tensor = mapped[Path(matrix["file"]).stem]
        assert Path(tensor.filename).resolve() == (stored / matrix["file"]).resolve()  # mapped, not read
        assert list(tensor.shape) == matrix["shape"] and str(tensor.dtype) == f"torch.{matrix['dtype']}"
        assert np.array_equal(tensor.numpy().ravel(), np.fromfile(stored / matrix["file"], matrix["dtype"]))
    lists = TensorDict.load_memmap(stored / "lists")
    starts, values = lists["offsets_0"], lists["values_0"]
    assert values[starts[7] : starts[8]].tolist() == table_with_lists(1003)["tags"][7].to_list()


def test_every_piece_has_its_checksum(stored):
    manifest = json.loads((stored / "manifest.json").read_text())
    arrays = [np.fromfile(stored / m["file"], m["dtype"]).reshape(m["shape"]) for m in manifest["matrices"]]
    values, offsets = (
        np.fromfile(stored / "lists/values_0.memmap", "i4"),
        np.fromfile(stored / "lists/offsets_0.memmap", "i8"),
    )
    for start, rows, checksum in manifest["pieces"]:
        own = offsets[start : start + rows + 1]
        parts = [*(array[start : start + rows] for array in arrays), np.diff(own), values[own[0] : own[-1]]]
        assert f"{summed(parts):016x}" == checksum


def test_nobody_can_write_through_a_map(stored, tmp_path):
    later = stream(tmp_path / "table", tmp_path / "cache")
    digest(later.batches())
    for held in later.cached.store.maps:
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 1
        with pytest.raises(ValueError):
            held.setflags(write=True)


def test_only_what_the_page_names_is_in_the_folder(stored):
    names = {str(path.relative_to(stored)) for path in stored.rglob("*") if path.is_file()}
    matrices = {f"{dtype}.memmap" for dtype in ("int32", "float32", "float64", "bool")}
    lists = {f"lists/{name}" for name in ("meta.json", "values_0.memmap", "offsets_0.memmap")}
    assert names == {"manifest.json", "meta.json", "journal", "claims"} | matrices | lists


def test_columns_never_become_file_names(tmp_path):
    names = ["../up", "/etc/x", "a b", "nul\x00", "x" * 300, "manifest.json", "é", "."]
    hostile = stream(Dataset({name: [1, 2, 3] for name in names}), tmp_path / "cache", shuffle=False)
    hostile.build_cache()
    (folder,) = (tmp_path / "cache").iterdir()
    assert sorted(os.listdir(folder)) == ["claims", "int32.memmap", "journal", "manifest.json", "meta.json"]
    assert sorted(os.listdir(tmp_path)) == ["cache"]


def test_the_programs_of_the_page_run(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "store.md"
    programs = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    assert len(programs) >= 4
    code = "\n".join(programs)
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert found.returncode == 0, found.stderr


def _noted_writes(tmp_path, monkeypatch):
    """A table of 20 ids and more, and a list that every write to a store is noted in: file, offset, bytes."""
    frame = make_table(120_000).select("id", *(pl.col("id").alias(f"c{i}") for i in range(19)), "x1", "label")
    write_files(tmp_path / "table", frame, files=4, row_group=30_000)
    writes = []
    real = os.pwrite

    def noted(handle, data, offset):
        writes.append((Path(os.readlink(f"/proc/self/fd/{handle}")).name, offset, memoryview(data).nbytes))
        return real(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", noted)
    return writes


def test_a_store_that_is_built_is_written_in_huge_pages(tmp_path, monkeypatch):
    """Whole windows of 2 MB, which the page cache keeps in one page."""
    writes = _noted_writes(tmp_path, monkeypatch)
    built = stream(tmp_path / "table", tmp_path / "built", memory="1GB", batch_size=1000, threads=2)
    built.build_cache()
    ids = [(offset, size) for name, offset, size in writes if name == "int32.memmap"]
    whole = [window for offset, size in ids for window in range(-(-offset // HUGE), (offset + size) // HUGE)]
    assert sum(size for _, size in ids) == 120_000 * 80 and len(ids) <= 8
    assert sorted(whole) == [0, 1, 3]  # each by one write; the first thread has two files, which end within window 2
    first = stream(tmp_path / "table", tmp_path / "first", memory="1GB", batch_size=1000)
    wanted = digest(stream(tmp_path / "table", memory="1GB", batch_size=1000).batches())
    assert digest(first.batches()) == wanted == digest(built.batches())
