"""Iceberg tables that pyiceberg wrote: every snapshot against what pyiceberg itself reads, and what is refused."""

import datetime as dt
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType

import rowmill
from rowmill.errors import ArgumentError, DataFileError, StateError
from rowmill.loader.numpy import Loader

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def rows(first, count, name="x", kind=None, **more):
    ids = list(range(first, first + count))
    day = [dt.date(2024, 1, 1 + i % 3) for i in ids]
    return pa.table({"id": ids, name: pa.array(ids, kind or pa.int64()), "day": day, **more})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Snapshots: written, with a wider, a renamed and a new column, with rows deleted."""
    place = tmp_path_factory.mktemp("iceberg")
    catalog = SqlCatalog("test", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
    catalog.create_namespace("ns")
    first = rows(0, 30, kind=pa.int32())
    table = catalog.create_table("ns.t", schema=first.schema)
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
    parts = catalog.create_table("ns.parts", schema=table.schema(), partition_spec=spec)
    for one in (table, parts):
        one.append(first)
        with one.update_schema() as change:
            change.update_column("x", LongType())
        with one.update_schema() as change:
            change.rename_column("x", "y").add_column("z", DoubleType())
        one.append(rows(30, 12, "y", z=[i / 3 for i in range(12)]))
        one.delete("id == 7")
    return table, parts


def as_pyiceberg_reads(table, snapshot_id=None):
    return pl.DataFrame(table.scan(snapshot_id=snapshot_id).to_arrow()).sort("id")


@pytest.mark.parametrize("number", [0, 1])
def test_every_snapshot(table, number):
    table = table[number]
    snapshots = [None, *(one.snapshot_id for one in table.snapshots())]
    assert len(snapshots) >= 4
    for snapshot in snapshots:
        data, wanted = rowmill.Dataset(table, snapshot_id=snapshot), as_pyiceberg_reads(table, snapshot)
        assert data.columns == wanted.columns and data.num_rows == wanted.height
        assert data.to_polars().sort("id").equals(wanted)


def test_a_moment(table):
    table = table[0]
    second = table.snapshots()[1]
    moment = dt.datetime.fromtimestamp(second.timestamp_ms / 1000, dt.UTC)
    data = rowmill.Dataset(table, timestamp=moment)
    assert data.num_rows == as_pyiceberg_reads(table, data.source.version.number).height
    with pytest.raises(ArgumentError, match="no snapshot at 2001"):
        rowmill.Dataset(table, timestamp="2001-01-01")


def test_batches_and_states(table):
    table = table[0]
    first, *_, last = (rowmill.Dataset(table, snapshot_id=one.snapshot_id) for one in table.snapshots())
    loader = Loader(last, 8, columns=["id", "y"], shuffle=True)
    found = pl.concat([pl.DataFrame(batch) for batch, _ in loader])
    assert found.sort("id").equals(as_pyiceberg_reads(table).select("id", "y"))
    with pytest.raises(StateError, match=r"snapshot .* of the Iceberg table"):
        Loader(last, 8, columns=["id"]).load_state_dict(Loader(first, 8, columns=["id"]).state_dict())


def test_what_is_not_there(table):
    with pytest.raises(ArgumentError, match="no snapshot 17; it has"):
        rowmill.Dataset(table[0], snapshot_id=17)
    with pytest.raises(ArgumentError, match="version= is for Delta"):
        rowmill.Dataset(table[0], version=1)
    with pytest.raises(ArgumentError, match="pass one of them"):
        rowmill.Dataset(table[0], snapshot_id=17, timestamp="2024-01-01")


def test_the_folder_of_a_table_is_not_read_as_files(table):
    with pytest.raises(ArgumentError, match=r"Iceberg table.*load_table"):
        rowmill.Dataset(table[0].location().removeprefix("file://"))


def test_files_that_are_gone(table):
    data = rowmill.Dataset(table[1], snapshot_id=table[1].snapshots()[0].snapshot_id)
    gone = Path(data.source.files.paths[0])
    held = gone.read_bytes()
    gone.unlink()
    try:
        with pytest.raises(DataFileError, match=r"are gone.*expiring snapshots"):
            rowmill.Dataset(table[1], snapshot_id=table[1].snapshots()[0].snapshot_id)
    finally:
        gone.write_bytes(held)
