"""`Workflow.update`: bit-equal to a fit on all rows but for the order of codes, saved in between, or refused."""

import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ArgumentError, ColumnError, NotFittedError
from rowmill.graph.node import Apply, walk
from rowmill.graph.operator import ROWS, StatOperator
from rowmill.ops import Categorify
from rowmill.statistics.counts import COUNT
from tests.ops.samples import FUNCTIONS, SAMPLES, table

FRAME = table()
CUTS = (0, 1, FRAME.height // 3, FRAME.height - 1, FRAME.height)
LEARNING = [
    name
    for name, node in SAMPLES.items()
    if any(isinstance(n, Apply) and isinstance(n.operator, StatOperator) for n in walk(node))
    and name not in ("learn twice", "Categorify combo")  # see below
]
ONE_TABLE = "Categorify one table"


def operators(workflow):
    return {number: node.operator for number, node in enumerate(walk(workflow.output_node)) if isinstance(node, Apply)}


def assert_as_fitted_at_once(found, wanted, first):
    """The states of two workflows are equal; codes may come in another order, in which those of `first` stay."""
    for number, operator in operators(found).items():
        if number not in wanted._fitted:
            continue
        left, right = found._fitted[number], wanted._fitted[number]
        ours, theirs = ({n: v for n, v in state.values.items() if n != ROWS} for state in (left, right))
        assert ours == theirs
        if ROWS in right.values:
            assert {**left.values[ROWS], "parts": 0} == {**right.values[ROWS], "parts": 0}
        for name, there in right.tables.items():
            if not isinstance(operator, Categorify):
                assert left.tables[name].frame.equals(there.frame), name
                continue
            old, new = first._fitted[number].tables[name].frame.drop(COUNT), left.tables[name].frame
            assert new.head(old.height).drop(COUNT).equals(old)
            assert new.sort(new.columns).equals(there.frame.sort(new.columns))
            added = new[old.height :]
            ranked = there.frame.join(old, on=old.columns, how="anti", nulls_equal=True, maintain_order="left")
            assert added.equals(ranked)


@pytest.mark.parametrize("name", LEARNING)
def test_every_operator(name, tmp_path):
    wanted = Workflow(SAMPLES[name]).fit(FRAME)
    for cut in CUTS:
        first = Workflow(SAMPLES[name]).fit(FRAME[:cut])
        found = Workflow(SAMPLES[name]).fit(FRAME[:cut])
        if name == ONE_TABLE:
            with pytest.raises(ArgumentError, match="single_table"):
                found.update(FRAME[cut:])
            continue
        found.save(tmp_path / str(cut))
        loaded = Workflow.load(tmp_path / str(cut), functions=FUNCTIONS)
        for each in (found, loaded):
            each.update(FRAME[cut:])
            assert_as_fitted_at_once(each, wanted, first)
            each.update(FRAME[:0])
            assert_as_fitted_at_once(each, wanted, first)


def test_codes_stay_and_cardinalities_are_told(tmp_path):
    first = pl.DataFrame({"u": ["b", "b", "a", None], "v": [5, 5, 5, 7], "x": [1.0, 2.0, 3.0, 4.0]})
    more = pl.DataFrame({"u": ["z", "c", "z", "a"], "v": [7, 7, 7, 7], "x": [5.0, None, 7.0, 8.0]})
    workflow = Workflow((["u", "v"] >> ops.Categorify()) + (["x"] >> ops.Normalize())).fit(first)
    before = workflow.transform(first)
    lazy = workflow.transform(Dataset(first))
    assert workflow.update(more) == {"u": (5, 7), "v": (5, 5)}
    assert workflow.transform(first).select("u", "v").equals(before.select("u", "v"))
    assert workflow.transform(more)["u"].to_list() == [5, 6, 5, 4]
    assert workflow.output_schema["u"].properties["embedding_sizes"]["cardinality"] == 7
    assert lazy.to_polars().equals(before)  # what was made before stays as it was
    assert workflow.update(more) == {"u": (7, 7), "v": (5, 5)}


@pytest.mark.parametrize("settings", [{"freq_threshold": 3}, {"freq_threshold": {"c": 2}, "num_buckets": 2}])
def test_rare_values_get_a_code_once_they_are_frequent(settings, tmp_path):
    workflow = Workflow(["c", "s"] >> Categorify(**settings))
    wanted = Workflow(["c", "s"] >> Categorify(**settings)).fit(FRAME)
    first = Workflow(["c", "s"] >> Categorify(**settings)).fit(FRAME[:50])
    workflow.fit(FRAME[:50])
    for start in range(50, FRAME.height, 30):
        workflow.update(FRAME[start : start + 30])
        workflow.save(tmp_path / "w")
        workflow = Workflow.load(tmp_path / "w")
    found = Workflow(["c", "s"] >> Categorify(**settings)).fit(FRAME[:50])
    found.update(FRAME[50:])
    assert_as_fitted_at_once(found, wanted, first)
    for name, there in wanted._fitted[1].tables.items():
        assert workflow._fitted[1].tables[name].frame.sort(name, COUNT).equals(there.frame.sort(name, COUNT))


def test_where_the_number_of_codes_is_limited():
    first, more = (pl.DataFrame({"u": list(letters)}) for letters in ("aaabbc", "cccccdddee"))
    workflow = Workflow(["u"] >> Categorify(max_size=6)).fit(first)  # three codes besides those reserved
    assert workflow.update(more) == {"u": (6, 6)}
    assert workflow.transform(pl.DataFrame({"u": list("abcde")}))["u"].to_list() == [3, 4, 5, 2, 2]
    workflow = Workflow(["u"] >> Categorify(max_size=7)).fit(first)
    assert workflow.update(more) == {"u": (6, 7)}
    assert workflow.transform(pl.DataFrame({"u": list("abcde")}))["u"].to_list() == [3, 4, 5, 6, 2]
    assert workflow._fitted[1].tables["u"].frame[COUNT].to_list() == [3, 2, 6, 3]
    assert workflow._fitted[1].values["observed"] == {"u": {"nulls": 0, "unseen": 2}}


def test_given_vocabularies_stay():
    workflow = Workflow(["u"] >> Categorify(vocabs={"u": ["q", "r"]})).fit(pl.DataFrame({"u": ["q"]}))
    assert workflow.update(pl.DataFrame({"u": ["z"]})) == {"u": (5, 5)}


def test_types_are_those_of_the_first_rows():
    workflow = Workflow((["u"] >> Categorify()) + (["x"] >> ops.Normalize())).fit(
        {"u": [1, 2, 2], "x": [1.0, 2.0, 3.0]}
    )
    more = pl.DataFrame({"x": [1, 2], "u": pl.Series([2, 9], dtype=pl.Int8), "other": ["a", "b"]})
    assert workflow.update(more) == {"u": (5, 6)}
    assert workflow._fitted[1].tables["u"].frame.schema["u"] == pl.Int64


class TestOperatorsThatLearnFromOthers:
    GRAPH = "learn twice"

    def test_they_are_refused_where_old_rows_would_change(self):
        workflow = Workflow(SAMPLES[self.GRAPH]).fit(FRAME[:100])
        before = {number: state.values for number, state in workflow._fitted.items()}
        with pytest.raises(ArgumentError, match=r"Normalize has learnt from what FillMedian made.*strict=False"):
            workflow.update(FRAME[100:])
        assert {number: state.values for number, state in workflow._fitted.items()} == before

    def test_they_go_on_if_told_to(self):
        workflow = Workflow(SAMPLES[self.GRAPH]).fit(FRAME[:100])
        workflow.update(FRAME[100:], strict=False)
        medians = Workflow(["a", "b"] >> ops.FillMedian()).fit(FRAME)
        assert workflow._fitted[1].values == medians._fitted[1].values

    def test_they_go_on_where_old_rows_stay(self):
        graph = (["c"] >> Categorify()) >> ops.JoinGroupby(cont_cols=["f"], stats=["count", "sum"])
        workflow = Workflow(graph).fit(FRAME[:100])
        workflow.update(FRAME[100:])
        wanted = Workflow(graph).fit(FRAME).transform(FRAME)
        assert workflow.transform(FRAME).equals(wanted)
        rare = Workflow((["c"] >> Categorify(freq_threshold=4)) >> ops.JoinGroupby(cont_cols=["f"])).fit(FRAME[:100])
        with pytest.raises(ArgumentError, match="JoinGroupby has learnt from what Categorify made"):
            rare.update(FRAME[100:])

    def test_groups_of_rows_are_refused(self):
        graph = ["i", "f"] >> ops.Groupby(groupby_cols=["i"], aggs="sum") >> ops.Normalize()
        workflow = Workflow(graph).fit(FRAME[:100])
        with pytest.raises(ArgumentError, match="Groupby makes of several rows"):
            workflow.update(FRAME[100:])


class TestTargetEncoding:
    GRAPH = ["c"] >> ops.TargetEncoding("t", kfold=4, p_smooth=5)

    def day(self, number):
        return FRAME[number * 80 : number * 80 + 80]

    def test_rows_stay_out_of_fold(self, tmp_path):
        wanted = Workflow(self.GRAPH).fit_transform(FRAME)
        workflow = Workflow(self.GRAPH).fit(self.day(0))
        for number in (1, 2):
            workflow.save(tmp_path / "w")
            workflow = Workflow.load(tmp_path / "w")
            workflow.update(self.day(number))
        for number in range(3):
            there = wanted[number * 80 : number * 80 + 80]
            assert workflow.transform(self.day(number)).equals(there)
            assert workflow.transform(Dataset(self.day(number))).to_polars().equals(there)
            assert not workflow.transform(self.day(number), fitted_rows=False).equals(there)
        assert workflow.transform(FRAME).equals(wanted)
        days = Dataset.concat([Dataset(self.day(number)) for number in range(3)])
        assert workflow.transform(days).to_polars().equals(wanted)
        assert workflow.transform(FRAME, fitted_rows=True).equals(wanted)

    def test_in_files_that_are_added(self, tmp_path):
        wanted, folder = Workflow(self.GRAPH).fit_transform(FRAME), tmp_path / "t"
        folder.mkdir()
        self.day(0).write_parquet(folder / "0.parquet")
        data = Dataset(folder)
        workflow = Workflow(self.GRAPH).fit(data)
        for number in (1, 2):
            self.day(number).write_parquet(folder / f"{number}.parquet", row_group_size=7)
            data = data.refresh()
            workflow.update(data)
            assert workflow.transform(data).num_rows == 80
        assert workflow.transform(data).to_polars().equals(wanted[160:])
        assert workflow.transform(Dataset(folder)).to_polars().equals(wanted)
        assert workflow.transform(Dataset(folder / "1.parquet")).to_polars().equals(wanted[80:160])

    def test_rows_that_are_not_recognised(self):
        workflow = Workflow(self.GRAPH).fit(self.day(0))
        workflow.update(self.day(1)[:50])
        with pytest.raises(ArgumentError, match="fitted on 80 or 50 or 130"):
            workflow.transform(FRAME[:10], fitted_rows=True)
        with pytest.warns(UserWarning, match="not recognised"):
            workflow.transform(FRAME[:50].sample(50, shuffle=True, seed=1))


def test_a_loader_with_a_workflow_goes_on(tmp_path):
    from rowmill.loader.numpy import Loader

    graph = (["c", "s"] >> Categorify()) + (["d"] >> ops.TargetEncoding("t"))
    FRAME[:100].write_parquet(tmp_path / "0.parquet")
    workflow = Workflow(graph).fit(Dataset(tmp_path))
    loader = Loader(Dataset(tmp_path), 32, workflow=workflow, shuffle=True)
    assert sum(len(batch["c"]) for batch, _ in loader) == 100
    FRAME[100:].write_parquet(tmp_path / "1.parquet")
    more = Dataset(tmp_path, since=loader.state_dict())
    workflow.update(more)
    loader.extend(more)
    found = pl.concat([pl.DataFrame(batch) for batch, _ in loader])
    wanted = workflow.transform(FRAME)
    assert found.sort(found.columns).equals(wanted.select(found.columns).sort(found.columns))


def test_on_a_cluster(tmp_path):
    from dask.distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    with cluster, Client(cluster) as client:
        for name in ("chain", "TargetEncoding", "FillMedian", "DataStats", "JoinGroupby"):
            wanted = Workflow(SAMPLES[name]).fit(FRAME)
            first = Workflow(SAMPLES[name], client=client).fit(FRAME[:90])
            found = Workflow(SAMPLES[name], client=client).fit(FRAME[:90])
            found.update(FRAME[90:])
            assert_as_fitted_at_once(found, wanted, first)


def test_what_was_too_large_to_be_kept():
    frame = pl.DataFrame({"u": range(300_000), "x": [i / 7 for i in range(300_000)]})
    for graph in (
        ["u"] >> Categorify(freq_threshold=2),
        ["x"] >> ops.FillMedian(),
        ["u"] >> ops.JoinGroupby(cont_cols=["x"]),
    ):
        small = Workflow(graph).fit(frame)
        with pytest.raises(ArgumentError, match=r"too large to be kept.*updatable=True"):
            small.update(frame)
        whole = Workflow(graph).fit(frame, updatable=True)
        whole.update(frame, updatable=True)
    plain = Workflow(["u"] >> Categorify()).fit(frame)
    assert plain.update(frame) == {"u": (300_003, 300_003)}


def test_bad_input():
    workflow = Workflow(["c"] >> Categorify())
    with pytest.raises(NotFittedError):
        workflow.update(FRAME)
    workflow.fit(FRAME)
    with pytest.raises(ColumnError, match=r"no column 'c'"):
        workflow.update(FRAME.drop("c"))
    with pytest.raises(ColumnError, match="'c' is string in the new rows, and was int64 when the workflow was fitted"):
        workflow.update(FRAME.with_columns(pl.lit("a").alias("c")))
    assert workflow.update(FRAME) == {
        "c": (workflow.output_schema["c"].properties["embedding_sizes"]["cardinality"],) * 2
    }
