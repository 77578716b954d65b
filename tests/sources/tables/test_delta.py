"""Delta tables that deltalake wrote: every version against what deltalake itself reads, and what is refused."""

import datetime as dt
import json
from pathlib import Path

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import rowmill
from rowmill.cli import main
from rowmill.errors import ArgumentError, DataFileError, NoFilesError, StateError
from rowmill.loader.numpy import Loader

DAY = dt.date(2024, 1, 1)


def rows(first, count, **more):
    ids = list(range(first, first + count))
    day = [DAY + dt.timedelta(days=i % 3) for i in ids]
    text = [["a b", "c%d", None, "é/=x"][i % 4] for i in ids]
    return pa.table({"id": ids, "day": day, "text": text, "x": [i / 7 for i in ids], **more})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Versions: 0 written, 1 appended, 2 with a new column, 3 with rows deleted, 4 updated, 5 compacted."""
    place = str(tmp_path_factory.mktemp("delta") / "table")
    write_deltalake(place, rows(0, 40), partition_by=["day", "text"])
    write_deltalake(place, rows(40, 20), mode="append")
    write_deltalake(place, rows(60, 10, new=list(range(10))), mode="append", schema_mode="merge")
    DeltaTable(place).delete("id % 5 = 0")
    DeltaTable(place).update({"x": "x + 1"}, predicate="id < 20")
    DeltaTable(place).optimize.compact()
    return place


def as_deltalake_reads(place, version):
    found = DeltaTable(place, version=version).to_pyarrow_table()
    return pl.DataFrame(found).sort("id")


@pytest.mark.parametrize("version", range(6))
def test_every_version(table, version):
    wanted = as_deltalake_reads(table, version)
    for data in (
        rowmill.Dataset(f"delta://{table}", version=version),
        rowmill.Dataset(DeltaTable(table, version=version)),
        rowmill.Dataset(DeltaTable(table), version=version),
    ):
        assert data.num_rows == wanted.height
        assert data.to_polars().sort("id").equals(wanted.select(data.columns))
        assert data.to_polars(["new", "day"] if version > 1 else ["day"]).height == wanted.height


def test_the_latest_version_and_one_of_a_moment(table):
    assert rowmill.Dataset(f"delta://{table}").num_rows == as_deltalake_reads(table, 5).height
    written = {entry["version"]: entry["timestamp"] for entry in DeltaTable(table).history()}
    moment = dt.datetime.fromtimestamp(written[1] / 1000, dt.UTC) + dt.timedelta(milliseconds=1)
    data = rowmill.Dataset(f"delta://{table}", timestamp=moment)
    assert data.source.version.number in {v for v, at in written.items() if at <= written[1] + 1}
    assert rowmill.Dataset(f"delta://{table}", timestamp=moment.isoformat()).num_rows == data.num_rows


def test_batches_stores_and_places(table, tmp_path):
    data = rowmill.Dataset(f"delta://{table}", version=2)
    wanted = as_deltalake_reads(table, 2)
    for options in ({}, {"cache": tmp_path / "store"}):
        loader = Loader(data, 16, columns=["id", "x"], shuffle=True, **options)
        for _ in range(2):
            found = pl.concat([pl.DataFrame(batch) for batch, _ in loader])
            assert found.sort("id").equals(wanted.select("id", "x"))
    places = loader.rows(0)
    assert set(places.get_column("file")) <= set(data.source.files.paths)


def test_the_version_is_pinned(table, tmp_path, capsys):
    old, new = (rowmill.Dataset(f"delta://{table}", version=version) for version in (1, 2))
    assert f"version 1 of the Delta table {table}" in repr(old)
    state = json.loads(json.dumps(Loader(old, 8, columns=["id"]).state_dict()))
    Loader(old, 8, columns=["id"]).load_state_dict(state)
    with pytest.raises(StateError, match=r"version 1 of the Delta table.* reads version 2"):
        Loader(new, 8, columns=["id"]).load_state_dict(state)
    assert old.source.fingerprint() != new.source.fingerprint() and old.source.stamp() != new.source.stamp()
    assert (
        f"version 1 of the Delta table {table}"
        in Path(Loader(old, 8, columns=["id"]).report(tmp_path / "page.html").write(tmp_path / "page.html")).read_text()
    )
    assert main(["inspect", f"delta://{table}"]) == 0
    assert "version 5 of" in capsys.readouterr().out


def test_what_is_not_there(table, tmp_path):
    with pytest.raises(ArgumentError, match=r"no version 99.*latest is version 5"):
        rowmill.Dataset(f"delta://{table}", version=99)
    with pytest.raises(ArgumentError, match="no version at 2001"):
        rowmill.Dataset(f"delta://{table}", timestamp="2001-01-01T00:00:00+00:00")
    with pytest.raises(NoFilesError, match="no Delta table"):
        rowmill.Dataset(f"delta://{tmp_path}/none")
    with pytest.raises(ArgumentError, match="pass one of them"):
        rowmill.Dataset(f"delta://{table}", version=1, timestamp="2024-01-01")
    with pytest.raises(ArgumentError, match="tables with versions"):
        rowmill.Dataset({"x": [1]}, version=1)
    with pytest.raises(ArgumentError, match="snapshot_id= is for Iceberg"):
        rowmill.Dataset(f"delta://{table}", snapshot_id=1)
    for version in (-1, True, "1"):
        with pytest.raises(ArgumentError, match="whole number"):
            rowmill.Dataset(f"delta://{table}", version=version)


def test_the_folder_of_a_table_is_not_read_as_files(table):
    """It also holds files of older versions."""
    with pytest.raises(ArgumentError, match="delta://"):
        rowmill.Dataset(table)


def test_vacuumed_files(tmp_path):
    place = str(tmp_path / "table")
    write_deltalake(place, rows(0, 10))
    DeltaTable(place).delete("id = 1")
    DeltaTable(place).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert rowmill.Dataset(f"delta://{place}").num_rows == 9
    with pytest.raises(DataFileError, match=r"version 0 of the Delta table .* are gone.*vacuum"):
        rowmill.Dataset(f"delta://{place}", version=0)


def test_an_empty_table(tmp_path):
    place = str(tmp_path / "table")
    DeltaTable.create(place, deltalake.Schema.from_arrow(pa.schema([("x", pa.int64())])))
    data = rowmill.Dataset(f"delta://{place}")
    assert (data.num_rows, data.columns, data.to_polars().height) == (0, ["x"], 0)


@pytest.mark.parametrize(
    ("feature", "settings", "said"),
    [
        ("columnMapping", {"delta.columnMapping.mode": "name"}, "column mapping"),
        ("variantType", {}, "variantType"),
    ],
)
def test_features_that_would_be_read_wrongly(tmp_path, feature, settings, said):
    """The log of a real table, changed to say that the feature is in use."""
    place = tmp_path / "table"
    write_deltalake(str(place), rows(0, 10))
    log = place / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature], "writerFeatures": [feature],
            }  # fmt: skip
        if "metaData" in line:
            line["metaData"]["configuration"] = settings
            schema = json.loads(line["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"]):
                mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
                field["metadata"] = mapped if settings else {}
            line["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises((ArgumentError, DataFileError), match=said):
        rowmill.Dataset(f"delta://{place}")
