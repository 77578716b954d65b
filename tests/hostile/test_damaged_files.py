"""Damaged data files: an error that names the file, never a crash, a hang, other row counts or gigabytes of memory."""

import json
import subprocess
import sys

import pytest

from rowmill.sources.parquet.thrift import page_header, parse_footer
from tests.counts import hostile
from tests.hostile.mutate import write

TRIES = {"parquet": (60, 3_000), "checked": (40, 2_000), "ipc": (30, 600), "csv": (20, 400)}
NAMES = {
    "parquet": "mutated Parquet files",
    "checked": "flipped bits in pages with checksums",
    "ipc": "mutated IPC files",
    "csv": "mutated CSV files",
}
LOT = 100  # files that one child process reads


def lots():
    for kind, tries in TRIES.items():
        total = hostile(*tries)
        for first in range(0, total, LOT):
            yield kind, first, min(first + LOT, total)


@pytest.mark.parametrize(("kind", "first", "last"), list(lots()))
def test_damaged_copies(tmp_path, tried, kind, first, last):
    """In a child process, so that a crash is seen as one. "checked": one bit of a page that has a checksum."""
    arguments = [sys.executable, "-m", "tests.hostile.mutate", str(tmp_path), kind, str(first), str(last)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=280, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"the process ended at number {lines[-1:]}: {done.stderr[-2000:]}"
    found = json.loads(lines[-1])
    tried(NAMES[kind], last - first)
    assert found["violations"] == []
    assert found["error"] > (last - first) // 4, "so few errors that the damage cannot have been real"
    if kind == "checked":
        assert found["error"] == last - first


@pytest.mark.parametrize("variant", range(12))
def test_our_reader_of_footers_agrees_with_arrow(tmp_path, variant):
    import pyarrow.parquet as pq

    write(tmp_path / "a.parquet", "parquet", variant)
    data = (tmp_path / "a.parquet").read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    rows, groups = parse_footer(data[start:-8])
    wanted = pq.read_metadata(tmp_path / "a.parquet")
    assert rows == wanted.num_rows
    for number, group in enumerate(groups):
        stored = wanted.row_group(number)
        assert group.rows == stored.num_rows
        for leaf, chunk in enumerate(group.columns):
            column = stored.column(leaf)
            assert chunk.values == column.num_values
            assert chunk.compressed == column.total_compressed_size
            assert chunk.uncompressed == column.total_uncompressed_size
            assert chunk.data_offset == column.data_page_offset
            at, values = chunk.start, 0
            while values < chunk.values:
                page = page_header(data[at : at + 100_000])
                at += page.header + page.compressed
                values += page.values if page.holds_data else 0
            assert (at, values) == (chunk.start + chunk.compressed, chunk.values)


def test_a_page_header_with_long_statistics(tmp_path):
    """Longer than what is read at first to find a header."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rowmill import Dataset

    texts = [f"{i}" * 5_000 for i in range(50)]
    pq.write_table(pa.table({"s": texts}), tmp_path / "a.parquet", use_dictionary=False, compression="none")
    assert Dataset(tmp_path).to_polars()["s"].to_list() == texts


def test_strings_and_lists_before_a_failure_are_complete(tmp_path):
    """Six row groups of which the fifth is damaged: the complete batches before it have all their columns."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rowmill import Dataset
    from rowmill.errors import DataFileError
    from rowmill.loader.torch import Loader

    rows = 60_000
    table = pa.table({"v": np.arange(rows), "s": [f"text {i}" for i in range(rows)], "l": [[i] for i in range(rows)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=10_000, write_page_checksum=True)
    place = pq.read_metadata(path).row_group(4).column(1).data_page_offset + 200
    data = bytearray(path.read_bytes())
    data[place] ^= 255
    path.write_bytes(data)
    for memory, complete in (("4MB", 40_000), ("1GB", 0)):  # with more memory the row groups are read together
        seen: list[int] = []
        with pytest.raises(DataFileError, match="row group 4"):
            for batch, _ in Loader(Dataset(path), batch_size=1_000, memory=memory):
                numbers = batch["v"].tolist()
                assert batch["s"].tolist() == [f"text {i}" for i in numbers]
                assert batch["l__values"].tolist() == numbers
                seen += numbers
        assert seen == list(range(len(seen)))
        assert len(seen) == complete
