"""`Dataset.filter` against Polars' own filter of the same rows in memory."""

import datetime as dt
import pickle
from itertools import chain

import polars as pl
import pyarrow.parquet as pq
import pytest

import rowmill
from rowmill.errors import ArgumentError, ColumnError
from rowmill.loader.numpy import Loader
from rowmill.sources.wrap import filtered
from tests._dataset.tables import DAY, forms, table

FRAME = table()
CONDITIONS = {
    "last days": pl.col("day") >= DAY + dt.timedelta(days=25),
    "one day": pl.col("day") == DAY + dt.timedelta(days=7),
    "days": pl.col("day").is_between(DAY + dt.timedelta(days=3), DAY + dt.timedelta(days=4), closed="left"),
    "mirrored": DAY + dt.timedelta(days=28) < pl.col("day"),
    "some days": pl.col("day").is_in([DAY, DAY + dt.timedelta(days=12), dt.date(1999, 1, 1)]),
    "minutes": pl.col("ts") < dt.datetime(2024, 1, 1, 7, 30),
    "greater": pl.col("x") > 1.5,
    "less": pl.col("x") < -1.5,
    "not equal": pl.col("x") != 0.5,
    "not": ~(pl.col("x") < 0),
    "nan": pl.col("x").is_nan(),
    "null": pl.col("s").is_null(),
    "text": pl.col("s") > "k20",
    "both": (pl.col("day") > DAY + dt.timedelta(days=20)) & (pl.col("k") == 3),
    "either": (pl.col("id") < 10) | (pl.col("id") >= 2_990),
    "either unknown": (pl.col("id") < 10) | (pl.col("k") % 2 == 0),
    "whole and fraction": pl.col("id") > 2_899.5,
    "computed": (pl.col("id") * 7 + pl.col("k")) % 11 == 0,
    "none": pl.col("id") < 0,
    "all": pl.col("id") >= 0,
    "no column": pl.lit(value=True),
    "neither true nor false": pl.lit(None, pl.Boolean),
}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    return forms(FRAME, tmp_path_factory.mktemp("forms"))


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_rows_are_those_of_polars(datasets, name):
    condition = CONDITIONS[name]
    for form, data in datasets.items():
        wanted = FRAME.with_columns(pl.col("k").cast(data.to_polars("k").schema["k"])).filter(condition)
        found = data.filter(condition)
        assert found.num_rows == wanted.height, form
        assert found.to_polars().equals(wanted), form
        assert found.to_polars(["id"]).equals(wanted.select("id")), form
        assert sum(f.rows for f in found.fragments) == wanted.height
        if wanted.height:
            loader = Loader(found, 64, columns=["id"], shuffle=True)
            assert len(loader) == -(-wanted.height // 64)
            assert sorted(i for batch, _ in loader for i in batch["id"].tolist()) == wanted["id"].to_list()


def test_conditions_in_other_words(datasets):
    data, day, k = datasets["many"], DAY + dt.timedelta(days=12), pl.col("k")
    pairs = [
        ([("day", ">=", day)], pl.col("day") >= day),
        ([("day", ">=", day), ("k", "in", {1, 2})], (pl.col("day") >= day) & pl.col("k").is_in([1, 2])),
        ([[("k", "==", 1)], [("k", "=", 2), ("id", "<", 9)]], (k == 1) | (k == 2) & (pl.col("id") < 9)),
        (("k", "not in", [1]), ~pl.col("k").is_in([1])),
        (("k", "!=", 1), pl.col("k") != 1),
    ]  # fmt: skip
    for given, wanted in pairs:
        assert data.filter(given).to_polars().equals(FRAME.filter(wanted))
    several = data.filter(pl.col("k") > 3, pl.col("id") < 500)
    assert several.to_polars().equals(FRAME.filter(pl.col("k") > 3, pl.col("id") < 500))


def test_filters_of_filters_and_of_slices(datasets):
    for data in datasets.values():
        found = data.filter(pl.col("id") % 3 == 0).slice(100, 700).filter(pl.col("k") > 9)
        assert found.to_polars(["id"]).equals(
            FRAME.filter(pl.col("id") % 3 == 0).slice(100, 700).filter(pl.col("k") > 9).select("id")
        )


def damage(path, groups):
    """Overwrite the pages of some row groups, so that reading one of them fails."""
    footer, data = pq.read_metadata(path), bytearray(path.read_bytes())
    for group in groups:
        for place in range(footer.num_columns):
            column = footer.row_group(group).column(place)
            start, size = column.dictionary_page_offset or column.data_page_offset, column.total_compressed_size
            data[start : start + size] = b"\xff" * size
    path.write_bytes(data)


def test_row_groups_that_statistics_rule_out_are_not_read(tmp_path):
    FRAME.write_parquet(tmp_path / "t.parquet", row_group_size=100)
    damage(tmp_path / "t.parquet", range(25))
    recent = rowmill.Dataset(tmp_path / "t.parquet").filter(pl.col("day") >= DAY + dt.timedelta(days=25))
    assert recent.num_rows == 500
    assert recent.to_polars().equals(FRAME[2_500:])
    loader = Loader(recent, 64, columns=["id"], shuffle=True, memory="1MB")
    assert sorted(i for batch, _ in loader for i in batch["id"].tolist()) == list(range(2_500, 3_000))
    with pytest.raises(rowmill.errors.DataFileError):
        rowmill.Dataset(tmp_path / "t.parquet").filter(pl.col("k") > 0).num_rows  # noqa: B018


def test_folders_that_their_values_rule_out_are_not_read(tmp_path):
    for day in range(4):
        (tmp_path / f"day={day}").mkdir()
        FRAME[day * 100 : day * 100 + 100].drop("day").write_parquet(tmp_path / f"day={day}" / "0.parquet")
    damage(tmp_path / "day=0" / "0.parquet", [0])
    found = rowmill.Dataset(tmp_path).filter(pl.col("day") > 1, pl.col("id") > 0)
    assert found.num_rows == 200 and found.to_polars(["id"])["id"].to_list() == list(range(200, 400))


def test_rows_are_counted_once(tmp_path, monkeypatch):
    FRAME.write_parquet(tmp_path / "t.parquet", row_group_size=100)
    reads = []
    chosen = rowmill._dataset.row_choices.Condition.chosen
    monkeypatch.setattr(
        rowmill._dataset.row_choices.Condition,
        "chosen",
        lambda self, frame, first: reads.append(frame.columns) or chosen(self, frame, first),
    )
    filtered._remembered.clear()
    condition = pl.col("k") == 3
    assert rowmill.Dataset(tmp_path / "t.parquet").filter(condition).num_rows
    counted = len(reads)
    assert counted == 31 and all(columns == ["k"] for columns in reads)  # and once to see that it can be compared
    assert len(Loader(rowmill.Dataset(tmp_path / "t.parquet").filter(condition), 10, columns=["id"])) > 1
    assert len(reads) == counted + 1


def test_it_does_not_count_before_it_is_asked_to(datasets):
    filtered._remembered.clear()
    assert "not counted yet" in repr(datasets["many"].filter(pl.col("k") == 17))


def test_resume_ranks_stores_plans_and_workers(datasets, tmp_path):
    condition, wanted = pl.col("k") < 11, FRAME.filter(pl.col("k") < 11)["id"].to_list()
    for form in ("many", "ipc", "recut", "joined"):
        data = datasets[form].filter(condition)
        whole = [batch["id"].tolist() for batch, _ in Loader(data, 50, columns=["id"], shuffle=True, seed=3)]
        assert sorted(chain(*whole)) == wanted
        first = Loader(data, 50, columns=["id"], shuffle=True, seed=3)
        for number, _ in enumerate(first):
            if number == 4:
                state = first.state_dict()
                break
        again = Loader(datasets[form].filter(condition), 50, columns=["id"], shuffle=True, seed=3)
        again.load_state_dict(state)
        assert [batch["id"].tolist() for batch, _ in again] == whole[5:]
        with pytest.raises(rowmill.errors.StateError):
            Loader(datasets[form].filter(pl.col("k") < 12), 50, columns=["id"], shuffle=True, seed=3).load_state_dict(
                state
            )
        delivered = []
        for rank in range(3):
            loader = Loader(data, 50, columns=["id"], shuffle=True, global_size=3, global_rank=rank, last="pad")
            delivered += [i for batch, _ in loader for i in batch["id"][batch["__mask"]].tolist()]
        assert sorted(delivered) == wanted
        assert "rows" in str(first.plan())
        if form != "joined":
            stored = Loader(data, 50, columns=["id"], shuffle=True, cache=tmp_path / form)
            for _ in range(2):
                assert sorted(i for batch, _ in stored for i in batch["id"].tolist()) == wanted
        assert pickle.loads(pickle.dumps(data)).num_rows == len(wanted)


def test_rows_of_a_step(datasets):
    data = datasets["many"].filter(pl.col("k") < 11)
    loader = Loader(data, 50, columns=["id"], shuffle=True)
    for step, (batch, _) in enumerate(loader):
        if step % 5 == 0:
            found = loader.rows(step, epoch=0)
            starts = [3_000 * n // 7 for n in range(8)]
            ids = [starts[int(file.rpartition("/")[2][0])] + 61 * group + row for file, group, row in found.iter_rows()]
            assert ids == batch["id"].tolist()


def test_slices_of_large_row_groups_and_a_small_memory(tmp_path):
    rows = 120_000
    frame = pl.DataFrame({"id": range(rows), "k": [i * 7919 % 1_000 for i in range(rows)]})
    frame.write_parquet(tmp_path / "t.parquet")
    for limit in (3, 500, 999):
        data = rowmill.Dataset(tmp_path / "t.parquet").filter(pl.col("k") < limit)
        wanted = frame.filter(pl.col("k") < limit)["id"].to_list()
        loader = Loader(data, 1_000, columns=["id"], shuffle=True, memory="1MB")
        assert sorted(i for batch, _ in loader for i in batch["id"].tolist()) == wanted
        in_order = Loader(data.repartition(13), 1_000, columns=["id"], memory="1MB")
        assert [i for batch, _ in in_order for i in batch["id"].tolist()] == wanted


def test_a_workflow_before_and_after(datasets):
    from rowmill import ops

    for form in ("many", "frame"):
        data = datasets[form]
        workflow = rowmill.Workflow((["k"] >> ops.Categorify()) + ["id"]).fit(data)
        made = workflow.transform(data)
        wanted = made.to_polars().filter(pl.col("k") == 4)["id"].to_list()
        assert made.filter(pl.col("k") == 4).to_polars()["id"].to_list() == wanted
        some = workflow.transform(data.filter(pl.col("id") > 2_000)).to_polars()
        assert some.equals(made.to_polars().filter(pl.col("id") > 2_000))


@pytest.mark.parametrize(
    ("condition", "error", "said"),
    [
        (pl.col("missing") > 3, ColumnError, "missing"),
        (pl.col("dat") > 3, ColumnError, "did you mean 'day'"),
        (pl.col("x") + 1, ArgumentError, "true or false"),
        (pl.col("x") > pl.col("x").mean(), ArgumentError, "other rows"),
        (pl.col("x").shift(1) > 0, ArgumentError, "other rows"),
        (pl.col("x").rank() > 0, ArgumentError, "condition"),
        (pl.col("x").map_elements(lambda x: x > 0), ArgumentError, "without Python functions"),
        (pl.col("s") > 3, ArgumentError, "cannot filter"),
        (pl.col("day") > dt.time(3), ArgumentError, "cannot filter"),
        ("x > 3", ArgumentError, "pl.col"),
        (3, ArgumentError, "pl.col"),
        (None, ArgumentError, "pl.col"),
        ([], ArgumentError, "no condition"),
        (("x", "~", 3), ArgumentError, "unknown operator"),
    ],
)
def test_bad_conditions(datasets, condition, error, said):
    with pytest.raises(error, match=said):
        datasets["many"].filter(condition)
