"""Tables that grow from day to day: what was added, loaders that go on, and what cannot be told from added rows."""

import json

import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

import rowmill
from rowmill.errors import ArgumentError, DataFileError, StartedError, StateError
from rowmill.loader.numpy import Loader

EACH = 400


def day(number, rows=EACH):
    ids = np.arange(number * EACH, number * EACH + rows)
    return pl.DataFrame({"id": ids, "k": ids % 7, "day": np.full(rows, number)})


def write(folder, *days):
    folder.mkdir(exist_ok=True)
    for number in days:
        day(number).write_parquet(folder / f"day_{number}.parquet", row_group_size=90)


def ids(data):
    return data.to_polars(["id"])["id"].to_list()


def rows_of(*days):
    return [i for number in days for i in day(number)["id"].to_list()]


def batches(loader):
    return [batch["id"].tolist() for batch, _ in loader]


def delivered(loader):
    return sorted(i for batch in batches(loader) for i in batch)


class Files:
    """A folder of Parquet files, of which one is added each day."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, number):
        write(self.folder, number)

    def open(self, **options):
        return rowmill.Dataset(self.folder, **options)


class Delta:
    """A Delta table, to which each day is appended."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, number):
        write_deltalake(str(self.folder), day(number).to_arrow(), mode="append")

    def open(self, **options):
        return rowmill.Dataset(f"delta://{self.folder}", **options)


class Csv(Files):
    def add(self, number):
        self.folder.mkdir(exist_ok=True)
        day(number).write_csv(self.folder / f"day_{number}.csv")


@pytest.fixture(params=[Files, Delta, Csv])
def growing(request, tmp_path):
    made = request.param(tmp_path / "table")
    made.add(0)
    return made


def test_what_was_added(growing):
    first = growing.open()
    assert first.refresh().num_rows == 0 and first.refresh().columns == first.columns
    growing.add(1)
    state = json.loads(json.dumps(first.state_dict()))
    assert ids(first) == rows_of(0)  # what was opened stays as it was
    second = first.refresh()
    assert ids(second) == rows_of(1) == ids(growing.open(since=state))
    growing.add(2)
    growing.add(3)
    assert ids(second.refresh()) == rows_of(2, 3) == ids(growing.open(since=second.state_dict()))
    assert ids(first.refresh()) == rows_of(1, 2, 3)
    assert second.refresh().refresh().num_rows == 0
    assert delivered(Loader(second.refresh(), 64, columns=["id"], shuffle=True)) == rows_of(2, 3)


def test_chosen_rows_of_what_was_added(growing):
    first = growing.open().filter(pl.col("k") == 3)
    held = growing.open().split(0.5, by="k")[0]
    growing.add(1)
    assert ids(first.refresh()) == [i for i in rows_of(1) if i % 7 == 3]
    assert ids(held.refresh()) == [i for i in ids(growing.open().split(0.5, by="k")[0]) if i in rows_of(1)]
    assert ids(growing.open(since=first.state_dict())) == rows_of(1)
    for chosen in (growing.open().split(0.5)[0], growing.open().sample(n=5), growing.open().repartition(2)):
        with pytest.raises(ArgumentError, match="refresh"):
            chosen.refresh()


def test_a_loader_goes_on(growing):
    loader = Loader(growing.open(), 64, columns=["id"], shuffle=True)
    assert delivered(loader) == rows_of(0)
    growing.add(1)
    loader.extend(growing.open(since=loader.state_dict()))
    assert loader.epoch == 1
    assert delivered(loader) == rows_of(0, 1)
    growing.add(2)
    table = growing.open()
    loader.extend(table.slice(0))
    assert len(batches(loader)) == -(-5 * EACH // 64)  # other data: they come after the others


def test_extending_is_the_same_as_opening_all(growing):
    """The epochs after `extend` are those of a loader that was opened with all rows."""
    loader = Loader(growing.open(), 64, columns=["id"], shuffle=True, seed=5)
    batches(loader)
    growing.add(1)
    loader.extend(growing.open(since=loader.state_dict()))
    other = Loader(growing.open(), 64, columns=["id"], shuffle=True, seed=5)
    other.set_epoch(1)
    assert [batches(loader), batches(loader)] == [batches(other), batches(other)]


def test_three_days_with_exact_resume(growing, tmp_path):
    """A process each day, which knows only the state that the day before has saved."""
    loader, known = Loader(growing.open(), 64, columns=["id"], shuffle=True), []
    known += batches(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    for number in (1, 2):
        growing.add(number)
        today = Loader(growing.open(since=state), 64, columns=["id"], shuffle=True)
        today.load_state_dict(state, extend=True)
        assert today.epoch == number
        whole = []
        for step, (batch, _) in enumerate(today):  # interrupted after the third step
            whole.append(batch["id"].tolist())
            if step == 2:
                middle = json.loads(json.dumps(today.state_dict()))
                break
        again = Loader(growing.open(since=state), 64, columns=["id"], shuffle=True)
        again.load_state_dict(middle)
        whole += batches(again)
        assert sorted(i for batch in whole for i in batch) == rows_of(number)
        state = json.loads(json.dumps(again.state_dict()))
    fresh = Loader(growing.open(), 64, columns=["id"], shuffle=True)
    fresh.load_state_dict(state, extend=True)
    assert fresh.epoch == 3 and delivered(fresh) == rows_of(0, 1, 2)


def test_a_state_in_mid_epoch_is_not_extended(growing):
    loader = Loader(growing.open(), 64, columns=["id"], shuffle=True)
    iterator = iter(loader)
    next(iterator), next(iterator)
    state = loader.state_dict()
    growing.add(1)
    with pytest.raises(StartedError, match="under way"):
        loader.extend(growing.open(since=state))
    with pytest.raises(StateError, match="other rows would be left out"):
        Loader(growing.open(), 64, columns=["id"]).load_state_dict(state, extend=True)
    with pytest.raises(StateError):
        Loader(growing.open(), 64, columns=["id"], shuffle=True).load_state_dict(state)
    for wrong in ({}, {"version": 3}, [], {**state, "epoch": "0"}):
        with pytest.raises(StateError):
            loader.load_state_dict(wrong, extend=True)


def test_rows_that_cannot_be_told_from_added_ones(tmp_path):
    write(tmp_path / "t", 0, 1)
    data = rowmill.Dataset(tmp_path / "t")
    state = data.state_dict()
    (tmp_path / "t" / "day_0.parquet").rename(tmp_path / "gone")
    with pytest.raises(StateError, match=r"day_0.parquet.*no longer there"):
        data.refresh()
    day(7).write_parquet(tmp_path / "t" / "day_0.parquet")
    with pytest.raises(StateError, match=r"day_0.parquet.*was changed"):
        rowmill.Dataset(tmp_path / "t", since=state)
    with pytest.raises(DataFileError, match="changed"):
        data.to_polars()


def test_a_compacted_delta_table(tmp_path):
    table = Delta(tmp_path / "t")
    table.add(0), table.add(1)
    first = table.open()
    DeltaTable(str(tmp_path / "t")).optimize.compact()
    with pytest.raises(StateError, match=r"no longer there.*compacted"):
        first.refresh()


def test_files_that_sort_before_the_old_ones(tmp_path):
    write(tmp_path / "t", 5)
    data = rowmill.Dataset(tmp_path / "t")
    loader = Loader(data, 64, columns=["id"])
    write(tmp_path / "t", 3)
    assert ids(data.refresh()) == rows_of(3) == ids(rowmill.Dataset(tmp_path / "t", since=data.state_dict()))
    with pytest.raises(StateError, match=r"state_dict\(\) beside the loader"):
        rowmill.Dataset(tmp_path / "t", since=loader.state_dict())


NO_STATES = [3, "x", {}, {"files": []}, {"table_state": 1, "files": [["a", "b", "c"]]}, {"reading": {}}]


@pytest.mark.parametrize("since", NO_STATES)
def test_states_that_are_none(tmp_path, since):
    write(tmp_path / "t", 0)
    with pytest.raises(StateError):
        rowmill.Dataset(tmp_path / "t", since=since)


def test_frames_do_not_grow():
    data = rowmill.Dataset(day(0))
    for call in (data.state_dict, data.refresh, lambda: rowmill.Dataset(day(0), since={"table_state": 1, "files": []})):
        with pytest.raises(ArgumentError, match="tables of files"):
            call()


def test_a_changed_schema(tmp_path):
    write(tmp_path / "t", 0)
    data = rowmill.Dataset(tmp_path / "t")
    day(1).drop("k").write_parquet(tmp_path / "t" / "day_1.parquet")
    with pytest.raises(rowmill.errors.SchemaDriftError):
        data.refresh()


def test_iceberg(tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", schema=day(0).to_arrow().schema)
    table.append(day(0).to_arrow())
    data = rowmill.Dataset(table)
    catalog.load_table("ns.t").append(day(1).to_arrow())
    assert ids(data) == rows_of(0) and ids(data.refresh()) == rows_of(1)
    assert ids(rowmill.Dataset(catalog.load_table("ns.t"), since=data.state_dict())) == rows_of(1)
