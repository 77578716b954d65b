"""The same bits on a real cluster: two worker processes on loopback, killed now and then."""

import os
import signal
import threading
import time

import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.engines.dask import DaskEngine
from rowmill.errors import ArgumentError
from rowmill.statistics.table import StatisticTable
from rowmill.tools.synthetic import criteo
from rowmill.utils import global_dask_client, set_dask_client
from tests.counts import THOROUGH
from tests.ops.samples import SAMPLES, table

FRAME = table()
run = DaskEngine.run


@pytest.fixture(scope="module")
def client():
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=True
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    criteo(folder, 60_000, files=6, row_group_rows=5_000, form="raw")
    return folder


def prepared() -> Workflow:
    counts, ids = [f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)]
    scaled = counts >> ops.FillMissing() >> ops.Clip(min_value=0) >> ops.LogOp() >> ops.Normalize()
    return Workflow(scaled + (ids >> ops.Categorify()) + (["C1", "C6"] >> ops.TargetEncoding("label")) + ["label"])


def test_the_same_bits_for_every_operator(client, tmp_path):
    for number in range(12):  # files are never joined to one fragment
        FRAME[number * 20 : number * 20 + 20].write_parquet(tmp_path / f"{number}.parquet")
    for name, node in SAMPLES.items():
        here = Workflow(node).fit(Dataset(tmp_path))
        there = Workflow(node).fit(Dataset(tmp_path), client=client)
        assert there._fitted == here._fitted, name
        assert there.transform(FRAME).equals(here.transform(FRAME)), name


def test_fit_and_write_on_the_cluster(client, raw, tmp_path):
    here = prepared().fit(Dataset(raw))
    there = prepared()
    there.client = client
    there.fit(Dataset(raw))
    assert there._fitted == here._fitted
    here.transform(Dataset(raw)).to_parquet(tmp_path / "here", output_files=3)
    there.transform(Dataset(raw)).to_parquet(tmp_path / "there", output_files=3)
    one, two = Dataset(tmp_path / "here"), Dataset(tmp_path / "there")
    assert two.schema == one.schema
    assert two.to_polars().equals(one.to_polars())
    names = [sorted(p.name for p in folder.iterdir()) for folder in (tmp_path / "here", tmp_path / "there")]
    assert names[0] == names[1]


def test_a_client_for_everything_that_has_none(client, raw, tmp_path, monkeypatch):
    used = []
    monkeypatch.setattr(DaskEngine, "run", lambda self, *given: used.append(self.client) or run(self, *given))
    assert set_dask_client(client) is client
    try:
        prepared().fit(Dataset(raw))
        Dataset(raw).to_parquet(tmp_path / "out", out_files_per_proc=2)
    finally:
        set_dask_client(None)
    assert used == [client]
    assert sorted(p.name for p in (tmp_path / "out").glob("*.parquet")) == [f"part_{i}.parquet" for i in range(4)]
    assert Dataset(tmp_path / "out").to_polars().equals(Dataset(raw).to_polars())
    prepared().fit(Dataset(raw))
    Dataset(raw).to_parquet(tmp_path / "here", out_files_per_proc=2)
    assert used == [client] and len(list((tmp_path / "here").glob("*.parquet"))) == 2


def test_the_client_that_dask_has_and_one_that_is_closed():
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=1, dashboard_address=None, processes=False) as cluster, Client(cluster) as made:
        assert set_dask_client() is made is global_dask_client()
    assert global_dask_client() is None  # closed: everything runs here again
    with pytest.raises(ArgumentError, match="wanted a running"):
        set_dask_client(made)
    set_dask_client(None)


def test_large_vocabularies_stay_on_the_workers(client, raw):
    from rowmill.graph.execution.fit_job import FitJob

    workflow = Workflow(["C1", "C6"] >> ops.Categorify())
    here = Workflow(["C1", "C6"] >> ops.Categorify()).fit(Dataset(raw))
    data = Dataset(raw)
    resolved = workflow._resolve(data.schema).resolved
    job = FitJob(data.source, workflow.output_node, data.schema, {}, [resolved.number[id(resolved.output)]])
    large, small = DaskEngine(client, large=10_000).run(job, data.source.fragments, False)
    assert isinstance(large.frame, StatisticTable)
    assert not isinstance(large.frame.source, pl.DataFrame)  # a path, not the rows
    assert isinstance(small.frame, pl.DataFrame)
    assert large.frame.frame.equals(here._fitted[resolved.number[id(resolved.output)]].tables["C1"].frame)


@pytest.mark.parametrize("moment", [0.05, 0.2, 0.4, 0.8] if THOROUGH else [0.05, 0.4])
def test_a_killed_worker_changes_nothing(client, raw, moment):
    here = prepared().fit(Dataset(raw))
    pids = client.run(os.getpid)
    killed = threading.Timer(moment, lambda: os.kill(next(iter(pids.values())), signal.SIGKILL))
    killed.start()
    there = prepared().fit(Dataset(raw), client=client)
    killed.join()
    assert there._fitted == here._fitted
    assert set(client.run(os.getpid).values()) != set(pids.values())  # the nanny has started another
    for _ in range(100):
        if len(client.nthreads()) == 2:
            break
        time.sleep(0.1)


def test_an_error_on_a_worker_is_raised_here(client, raw):
    workflow = Workflow(["I1"] >> ops.LambdaOp(fails, dtype="float64") >> ops.Normalize())
    with pytest.raises(Exception, match="no such luck"):
        workflow.fit(Dataset(raw), client=client)


def fails(column):
    raise ValueError("no such luck")


def test_dask_dataframes_in_and_out(raw):
    data = Dataset(raw)
    collection = data.to_ddf(["label", "I1", "C1"])
    assert collection.npartitions == data.npartitions
    again = Dataset(collection)
    assert again.num_rows == data.num_rows
    assert again.to_polars().equals(data.to_polars(["label", "I1", "C1"]))
    assert (
        Workflow(["I1"] >> ops.Normalize()).fit(again)._fitted == Workflow(["I1"] >> ops.Normalize()).fit(data)._fitted
    )
    shuffled = data.to_ddf("I1", shuffle=True, seed=3).compute()
    assert len(shuffled) == data.num_rows
