"""What the store's tests share: tables with lists, streams over them without a framework, what an epoch delivers."""

import hashlib

import numpy as np
import polars as pl

from rowmill import Dataset
from rowmill.feed.pack.selection import Selector
from rowmill.feed.run.stream import Stream
from rowmill.store.cache.table_cache import open_cache
from tests.conftest import make_table, write_files


def table_with_lists(rows):
    """A table of scalars, a list column (some empty) and a column of three floats a row."""
    ids = np.arange(rows)
    lists = [list(range(i, i + i % 4)) for i in range(rows)]
    return make_table(rows).with_columns(
        pl.Series("tags", lists, dtype=pl.List(pl.Int32)),
        pl.Series("vec", np.stack([ids, ids * 2, ids * 3], 1).astype(np.float32), dtype=pl.Array(pl.Float32, 3)),
        pl.Series("seen", ids % 3 == 0),
    )


def lists_folder(tmp_path, rows=1003):
    write_files(tmp_path / "table", table_with_lists(rows))
    return tmp_path / "table"


def large_folder(tmp_path, at=-1, value=2**31, rows=700):
    """The same with one id that 4 bytes do not hold."""
    frame = table_with_lists(rows)
    ids = frame["id"].to_numpy().copy()
    ids[at] = value
    write_files(tmp_path / "table", frame.with_columns(pl.Series("id", ids)))
    return tmp_path / "table"


def stream(folder, cache=None, *, columns=None, nulls="error", cache_size=None, **options):
    dataset = folder if isinstance(folder, Dataset) else Dataset(folder)
    selector = Selector(dataset.schema, nulls)
    selector.native(columns or dataset.columns)
    settings = {"batch_size": 64, "shuffle": True, "seed": 3, "memory": "4MB", "threads": 2, **options}
    return Stream(dataset, selector.selection(), cache=open_cache(cache, cache_size), **settings)


def digest(batches):
    """Every byte of some batches, in their order."""
    found = hashlib.sha256()
    for batch in batches:
        found.update(b"%d %d " % (batch.rows, batch.padding))
        for matrix in batch.matrices:
            found.update(np.ascontiguousarray(matrix).tobytes())
        for name in sorted(batch.ragged):
            for array in batch.ragged[name]:
                found.update(f"{name} {array.dtype}".encode() + array.tobytes())
    return found.hexdigest()


def epochs(a_stream, count=2):
    return [digest(a_stream.batches()) for _ in range(count)]


def settle(a_stream):
    """Wait for the thread that completes the store."""
    a_stream.cached.wait_until_finished()
