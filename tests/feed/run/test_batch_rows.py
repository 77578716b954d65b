"""`loader.rows(step)` against the batches that are delivered, and by a saved state alone."""

import json

import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill import ops
from rowmill.errors import ArgumentError, RowmillError, StateError
from rowmill.feed.run.batch_rows import locate_saved_step
from rowmill.loader.numpy import Loader

FILES = (1_000, 37, 613)
GROUP = 130


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three Parquet files; `id` is the number of the row in the table."""
    place, first = tmp_path_factory.mktemp("rows"), 0
    for number, rows in enumerate(FILES):
        ids = np.arange(first, first + rows)
        frame = pl.DataFrame({"id": ids, "w": (ids * 7919 % 101) / 10.0, "u": ids % 9})
        frame.write_parquet(place / f"{number}.parquet", row_group_size=GROUP)
        first += rows
    return place


def ids_of(found: pl.DataFrame) -> list[int]:
    """The `id` that stands at each of these places; that of a padding row is 0."""
    before = dict(zip(["0", "1", "2"], np.cumsum([0, *FILES]).tolist(), strict=False))
    return [
        0 if file is None else before[file.rpartition("/")[2][0]] + GROUP * (group or 0) + row
        for file, group, row in found.iter_rows()
    ]


def check(loader, *, epochs=2):
    for epoch in range(epochs):
        for step, (batch, _) in enumerate(loader):
            found = loader.rows(step, epoch=epoch)
            assert ids_of(found) == batch["id"].tolist(), (epoch, step)


SETTINGS = [
    {},
    {"shuffle": True},
    {"shuffle": True, "memory": "4MB"},
    {"shuffle": True, "last": "pad"},
    {"shuffle": True, "drop_last": True},
    {"shuffle": True, "weights": "w"},
    {"shuffle": True, "balance": "u"},
    *({"shuffle": True, "global_size": size, "global_rank": rank} for size in (2, 3, 4) for rank in (0, size - 1)),
    {"shuffle": True, "elastic": 4, "global_size": 2, "global_rank": 1},
    {"shuffle": False, "elastic": 4, "global_size": 4, "global_rank": 2},
    {"shuffle": True, "weights": "w", "global_size": 3, "global_rank": 1, "last": "pad"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_are_those_of_the_batch(folder, settings):
    loader = Loader(rowmill.Dataset(folder), 60, columns=["id"], **settings)
    check(loader)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_saved_state_tells_the_same(folder, settings):
    loader = Loader(rowmill.Dataset(folder), 60, columns=["id"], **settings)
    state = json.loads(json.dumps(loader.state_dict()))
    given = settings.get("global_rank", 0), settings.get("global_size")
    for epoch, step in ((0, 0), (0, len(loader) - 1), (3, len(loader) // 2)):
        found = locate_saved_step(rowmill.Dataset(folder).source, state, step, epoch, *given)
        assert found.equals(loader.rows(step, epoch=epoch))


def test_full_shuffle(folder, tmp_path):
    loader = Loader(rowmill.Dataset(folder), 60, columns=["id"], shuffle="full", cache=tmp_path).build_cache()
    check(loader)
    found = locate_saved_step(rowmill.Dataset(folder).source, loader.state_dict(), 5)
    assert found.equals(loader.rows(5, epoch=2))


def test_another_rank(folder):
    loaders = [
        Loader(rowmill.Dataset(folder), 60, columns=["id"], shuffle=True, global_size=3, global_rank=rank)
        for rank in range(3)
    ]
    assert loaders[0].rows(4, rank=2).equals(loaders[2].rows(4))


def test_wrapped_tables(folder):
    whole = rowmill.Dataset(folder)
    for table in (whole.repartition(7), rowmill.Dataset(folder, dtypes={"id": "int32"})):
        check(Loader(table, 60, columns=["id"], shuffle=True), epochs=1)
    workflow = rowmill.Workflow(["id"] + (["w"] >> ops.Normalize())).fit(whole)
    loader = Loader(whole, 60, columns=["id", "w"], workflow=workflow, shuffle=True)
    check(loader, epochs=1)
    assert locate_saved_step(whole.source, loader.state_dict(), 3, 0).equals(loader.rows(3, epoch=0))


def test_other_formats(folder, tmp_path):
    frame = rowmill.Dataset(folder).to_polars()
    frame.write_csv(tmp_path / "0.csv")
    frame.write_ipc(tmp_path / "0.arrow", record_batch_size=GROUP)
    for table, file in (("0.csv", True), ("0.arrow", True), (frame, False)):
        data = rowmill.Dataset(tmp_path / table if file else table)
        loader = Loader(data, 60, columns=["id"], shuffle=True)
        for step, (batch, _) in enumerate(loader):
            found = loader.rows(step, epoch=0)
            assert found.get_column("file").is_null().any() != file
            rows = found.get_column("row") + GROUP * found.get_column("row_group").fill_null(0)
            assert rows.to_list() == batch["id"].tolist()


def test_no_value_is_read(folder, tmp_path):
    """The pages are overwritten: only footers can be read."""
    loader = Loader(rowmill.Dataset(folder), 60, columns=["id"], shuffle=True)
    wanted = loader.rows(7, epoch=1)
    (tmp_path / "damaged").mkdir()
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        footer = int.from_bytes(data[-8:-4], "little") + 8
        (tmp_path / "damaged" / path.name).write_bytes(b"\0" * (len(data) - footer) + data[-footer:])
    damaged = Loader(rowmill.Dataset(tmp_path / "damaged", verify=False), 60, columns=["id"], shuffle=True)
    assert damaged.rows(7, epoch=1).select("row_group", "row").equals(wanted.select("row_group", "row"))


def test_bad_input(folder):
    loader = Loader(rowmill.Dataset(folder), 60, columns=["id"], shuffle=True)
    for step in (-1, len(loader)):
        with pytest.raises(ArgumentError, match="epoch of 28 steps"):
            loader.rows(step)
    with pytest.raises(ArgumentError, match="epoch is -1"):
        loader.rows(0, epoch=-1)
    with pytest.raises(ArgumentError, match="rank 4 of 1"):
        loader.rows(0, rank=4)
    grouped = rowmill.Workflow(["u", "w"] >> ops.Groupby(groupby_cols=["u"], aggs="sum"))
    made = grouped.fit_transform(rowmill.Dataset(folder).shuffle_by_keys("u"))
    with pytest.raises(ArgumentError, match="made of several rows"):
        Loader(made, 2).rows(0)


def test_states_that_fit_nothing(folder):
    loader = Loader(rowmill.Dataset(folder), 60, columns=["id"], shuffle=True)
    source, state = rowmill.Dataset(folder).source, loader.state_dict()
    assert locate_saved_step(source, state, 0, 0).height == 60
    wrong = [
        {},
        {**state, "reading": None},
        {**state, "reading": {**state["reading"], "table": "x"}},
        {**state, "reading": {**state["reading"], "drawn_by": "weights=function"}},
        {**state, "reading": {**state["reading"], "drawn_by": "weights=no"}},
        {**state, "reading": {**state["reading"], "fragment_rows": 0}},
        *({**state, field: value} for field in ("chunk_batches", "first_batches", "global_batch", "global_size")
          for value in (0, -1, "1", None, 1.5, True)),
        *({**state, field: "x"} for field in ("seed", "elastic", "last", "rows", "version", "fragments", "order")),
    ]  # fmt: skip
    for bad in wrong:
        with pytest.raises(RowmillError):
            locate_saved_step(source, bad, 0, 0)
    with pytest.raises(StateError, match="other data"):
        locate_saved_step(rowmill.Dataset(folder / "0.parquet").source, state, 0)
