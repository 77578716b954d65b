"""Files that change under an open dataset: an error names the file, and no row of the new file is used or stored."""

import itertools
import os
import random

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset
from rowmill.errors import CacheWarning, DataFileError, StateError
from rowmill.loader.torch import Loader
from tests.counts import hostile

ROWS, GROUP, FILES = 40_000, 1_000, 3


def frame(file: int, version: int, rows: int = ROWS) -> pl.DataFrame:
    """Rows that say which file and which version of it they are from."""
    rng = np.random.Generator(np.random.Philox(file))
    return pl.DataFrame({"version": np.full(rows, version), "id": np.arange(rows) + file * ROWS, "x": rng.random(rows)})


def write_parquet(path, table):
    """Without statistics, dictionaries or compression: nothing in the footer tells one version from another."""
    pq.write_table(
        table.to_arrow(), path, row_group_size=GROUP, compression="none", use_dictionary=False, write_statistics=False
    )


def write_rich_parquet(path, table):
    pq.write_table(table.to_arrow(), path, row_group_size=GROUP)


def write_csv(path, table):
    table.write_csv(path)


def write_ipc(path, table):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.to_arrow().schema) as writer:
        for start in range(0, table.height, GROUP):
            for batch in table.slice(start, GROUP).to_arrow().to_batches():
                writer.write_batch(batch)


KINDS = {
    "parquet": (write_parquet, ".parquet"),
    "rich parquet": (write_rich_parquet, ".parquet"),
    "csv": (write_csv, ".csv"),
    "ipc": (write_ipc, ".arrow"),
}


def in_place(path, table, write):
    write(path, table)


def by_rename(path, table, write):
    write(path.with_name("_new"), table)
    os.replace(path.with_name("_new"), path)


def time_put_back(path, table, write):
    before = path.stat()
    write(path, table)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def byte_by_byte(path, table, write):
    """The same inode, overwritten without being cut short in between."""
    write(path.with_name("_new"), table)
    data = path.with_name("_new").read_bytes()
    path.with_name("_new").unlink()
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate()


HOW = (in_place, by_rename, time_put_back, byte_by_byte)
SIZES = {"more rows": ROWS + 700, "fewer rows": ROWS - 700, "as many rows": ROWS}
MOMENTS = ("before", "middle", "between", "resume", "storing", "take")


def table_of(folder, kind):
    write, ending = KINDS[kind]
    folder.mkdir()
    paths = [folder / f"{i}{ending}" for i in range(FILES)]
    for number, path in enumerate(paths):
        write(path, frame(number, 0))
    return paths


def versions(batches, into):
    """Append the versions that batches hold, until they end or fail."""
    for batch in batches:
        into.extend(batch[0]["version"].unique().tolist())


def attempts(seed=7):
    cases = list(itertools.product(KINDS, HOW, SIZES, MOMENTS))
    random.Random(seed).shuffle(cases)
    # Every kind, every way and every moment at least once, then as many more as wanted.
    first, seen = [], set()
    for case in cases:
        if not {case[0], case[1].__name__, case[3]} <= seen:
            first.append(case)
            seen |= {case[0], case[1].__name__, case[3]}
    rest = [case for case in cases if case not in first]
    return (first + rest)[: max(len(first), hostile(16, len(cases)))]


@pytest.mark.parametrize(
    ("kind", "how", "rows", "moment"), attempts(), ids=lambda v: v.__name__ if callable(v) else str(v)
)
def test_a_source_that_changes(tmp_path, tried, kind, how, rows, moment):
    paths = table_of(tmp_path / "table", kind)
    victim = paths[-1]
    seen: list[int] = []

    def change():
        how(victim, frame(FILES - 1, 1, SIZES[rows]), KINDS[kind][0])

    def loader(data, **options):
        return Loader(data, batch_size=500, memory="4MB", **options)

    data = Dataset(tmp_path / "table")
    if moment == "before":
        made = loader(data, shuffle=True)
        change()
        with pytest.raises(DataFileError, match=f"{victim.name} has changed"):
            versions(made, seen)
    elif moment == "middle":
        batches = iter(loader(data))  # in table order, so that the last file has not been read
        versions(itertools.islice(batches, 3), seen)
        change()
        with pytest.raises(DataFileError, match=f"{victim.name} has changed"):
            versions(batches, seen)
    elif moment == "between":
        made = loader(data, shuffle=True)
        versions(made, seen)
        change()
        with pytest.raises(DataFileError, match=f"{victim.name} has changed"):
            versions(made, seen)
    elif moment == "resume":
        made = loader(data, shuffle=True)
        batches = iter(made)
        versions(itertools.islice(batches, 3), seen)
        state = made.state_dict()
        batches.close()
        change()
        again = loader(Dataset(tmp_path / "table"), shuffle=True)
        if kind == "parquet" and rows == "as many rows":
            return  # cannot be told without reading all values: docs/reliability.md says so
        with pytest.raises(StateError, match="another run"):
            again.load_state_dict(state)
    elif moment == "storing":
        made = loader(data, cache=str(tmp_path / "cache"))
        batches = iter(made)
        versions(itertools.islice(batches, 3), seen)
        change()
        with pytest.raises(DataFileError, match=f"{victim.name} has changed"):
            versions(batches, seen)
        stored = next((tmp_path / "cache").glob("*.building"))
        mapped = b"".join(path.read_bytes() for path in stored.glob("*.memmap"))
        matrix = np.frombuffer(mapped, np.uint8)
        assert matrix.size, "no matrix was stored"
        again = loader(Dataset(tmp_path / "table"), cache=str(tmp_path / "cache"))
        after: list[int] = []
        with pytest.warns(CacheWarning, match="have changed"):
            versions(again, after)
        assert set(after) == {0, 1}
        assert len(after) >= len(paths)
    else:
        rows_by_number = data.as_map_style(memory="4MB")
        seen.append(int(rows_by_number[0]["version"]))
        change()
        with pytest.raises(DataFileError, match=f"{victim.name} has changed"):
            _ = rows_by_number[FILES * ROWS - 1]
    assert set(seen) <= {0}
    tried("changes of source files")


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    """Between the two checks of one read: rows of such a read are not delivered either."""
    paths = table_of(tmp_path / "table", "rich parquet")
    source = Dataset(tmp_path / "table").source
    real = pl.LazyFrame.collect

    def collect(self, *arguments, **options):
        found = real(self, *arguments, **options)
        by_rename(paths[0], frame(0, 1), write_rich_parquet)
        return found

    monkeypatch.setattr(pl.LazyFrame, "collect", collect)
    with pytest.raises(DataFileError, match="replaced by another file"):
        source.read(source.fragments[0], ["version"])


def test_what_changed_is_said(tmp_path):
    paths = table_of(tmp_path / "table", "rich parquet")
    for how, said in [
        (lambda: paths[0].unlink(), "no longer there"),
        (lambda: os.utime(paths[0], ns=(1, 1)), "modification time"),
        (lambda: byte_by_byte(paths[0], frame(0, 1, 10), write_rich_parquet), "bytes, and had"),
        (lambda: by_rename(paths[0], frame(0, 0), write_rich_parquet), "replaced by another file"),
        (lambda: os.chmod(paths[0], 0o600), "change time"),
    ]:
        write_rich_parquet(paths[0], frame(0, 0))
        data = Dataset(tmp_path / "table")
        how()
        with pytest.raises(DataFileError, match=said) as caught:
            data.head()
        assert "open the Dataset again" in str(caught.value)


def test_a_copy_of_the_files_goes_on(tmp_path):
    """A saved position belongs to the data, wherever they are."""
    import shutil

    table_of(tmp_path / "table", "rich parquet")
    made = Loader(Dataset(tmp_path / "table"), batch_size=500, shuffle=True)
    batches = iter(made)
    next(batches)
    state = made.state_dict()
    rest = [batch[0]["id"].tolist() for batch in batches]
    shutil.copytree(tmp_path / "table", tmp_path / "copy", copy_function=shutil.copyfile)
    again = Loader(Dataset(tmp_path / "copy"), batch_size=500, shuffle=True)
    again.load_state_dict(state)
    assert [batch[0]["id"].tolist() for batch in again] == rest
