"""Files on an object store: a real S3-speaking server on loopback, both spellings of the options."""

import io

import boto3
import numpy as np
import polars as pl
import pytest
from moto.server import ThreadedMotoServer

from rowmill import Dataset
from rowmill.errors import ArgumentError, DataFileError, NoFilesError
from rowmill.sources.source import Fragment

FRAME = pl.DataFrame({"a": np.arange(1000), "s": [f"t{i}" for i in range(1000)], "l": [[i] for i in range(1000)]})


def parquet(frame, **options):
    buffer = io.BytesIO()
    frame.write_parquet(buffer, **options)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def server():
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
    )
    client.create_bucket(Bucket="bucket")

    def put(key, body):
        client.put_object(Bucket="bucket", Key=key, Body=body)

    put("train/part_10.parquet", parquet(FRAME[500:], row_group_size=200))
    put("train/part_2.parquet", parquet(FRAME[:500], row_group_size=200))
    put("train/_metadata", b"not a table")
    put("train/.hidden.parquet", b"not a table")
    put("hive/day=1/0.parquet", parquet(FRAME[:10]))
    put("hive/day=2/0.parquet", parquet(FRAME[10:30]))
    put("months/m=09/0.parquet", parquet(FRAME[:10]))
    put("months/m=10/0.parquet", parquet(FRAME[10:30]))
    put("text/a.csv", FRAME.select("a", "s").write_csv().encode())
    arrow = io.BytesIO()
    FRAME.write_ipc(arrow, record_batch_size=300)
    put("ipc/a.arrow", arrow.getvalue())
    put("bad/cut.parquet", parquet(FRAME)[:-20])
    put("odd/a.parquet", parquet(FRAME[:5]))
    put("odd/b.parquet", parquet(FRAME[:5].with_columns(pl.col("a").cast(pl.Int16))))
    yield url
    running.stop()


@pytest.fixture
def options(server):
    return {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": server}}


@pytest.mark.parametrize("spelling", ["fsspec", "fsspec flat", "object store", "bare host"])
def test_both_spellings_of_the_options(server, spelling):
    options = {
        "fsspec": {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": server, "region_name": "us-east-1"}},
        "fsspec flat": {"key": "k", "secret": "s", "token": None, "anon": False, "endpoint_url": server},
        "object store": {
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "aws_endpoint_url": server,
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        },
        "bare host": {"key": "k", "secret": "s", "endpoint_url": server.removeprefix("http://"), "allow_http": True},
    }[spelling]
    assert Dataset("s3://bucket/train", storage_options=options).to_polars().equals(FRAME)


@pytest.mark.parametrize(
    "given",
    [
        "s3://bucket/train/",
        "s3://bucket/train/*.parquet",
        "s3://bucket/t*/part_[0-9]*.parquet",
        "s3://bucket/**/part_*.parquet",
        ["s3://bucket/train/part_10.parquet", "s3://bucket/train/part_2.parquet"],
    ],
)
def test_folders_patterns_and_lists(options, given):
    dataset = Dataset(given, storage_options=options)
    assert dataset.to_polars().equals(FRAME)
    assert [f.rows for f in dataset.source.fragments] == [200, 200, 100] * 2
    assert dataset.to_polars(["s"]).columns == ["s"]


def test_slices(options):
    source = Dataset("s3://bucket/train", storage_options=options).source
    assert source.read(Fragment(1, 150, 120), ["l", "a"]).equals(FRAME.slice(650, 120).select("l", "a"))
    assert source.describe(Fragment(1, 250, 5)) == "bucket/train/part_10.parquet, row group 1 (rows 250 to 255)"


def test_hive_csv_and_ipc(options):
    hive = Dataset("s3://bucket/hive", storage_options=options)
    assert hive.to_polars().group_by("day").len().sort("day").rows() == [(1, 10), (2, 20)]
    assert Dataset("s3://bucket/text/a.csv", storage_options=options).to_polars().equals(FRAME.select("a", "s"))
    assert Dataset("s3://bucket/ipc/", storage_options=options).to_polars().equals(FRAME)


@pytest.mark.parametrize(
    "given",
    [
        "s3://bucket/hive/*/*.parquet",
        ["s3://bucket/hive/day=1", "s3://bucket/hive/day=2/"],
        ["s3://bucket/hive/day=2/0.parquet", "s3://bucket/hive/day=1/0.parquet"],
    ],
)
def test_lists_keep_the_partition_column(options, given):
    hive = Dataset(given, storage_options=options)
    assert hive.schema["day"].dtype == "int64"
    assert hive.to_polars().group_by("day").len().sort("day").rows() == [(1, 10), (2, 20)]


def test_zeros_in_front_are_kept_by_a_part_of_the_table(options):
    assert Dataset(["s3://bucket/months/m=10"], storage_options=options).to_polars("m")["m"].unique().to_list() == [
        "10"
    ]


def test_widening(options):
    frame = Dataset("s3://bucket/odd", storage_options=options).to_polars()
    assert frame["a"].dtype == pl.Int64
    assert frame["a"].to_list() == [*range(5), *range(5)]


def test_nothing_there(options):
    for url in ("s3://bucket/none", "s3://bucket/train/*.csv", "s3://nobucket/x.parquet"):
        with pytest.raises((NoFilesError, DataFileError), match="wanted"):
            Dataset(url, storage_options=options)


def test_damaged(options):
    with pytest.raises(DataFileError, match=r"bad/cut\.parquet"):
        Dataset("s3://bucket/bad", storage_options=options)


def test_bad_options(server):
    with pytest.raises(ArgumentError, match="unknown storage option 'kye'"):
        Dataset("s3://bucket/train", storage_options={"kye": "k", "endpoint_url": server})


def test_a_server_that_is_gone():
    options = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9"}
    with pytest.raises((DataFileError, NoFilesError), match="s3://bucket/train"):
        Dataset("s3://bucket/train", storage_options=options)


def test_other_schemes_go_through_fsspec():
    import fsspec

    store = fsspec.filesystem("memory")
    with store.open("/box/a.parquet", "wb") as file:
        file.write(parquet(FRAME))
    assert Dataset("memory://box/a.parquet").to_polars().equals(FRAME)


def test_reading_from_several_threads(options):
    """Reading from several threads at once gives the same rows."""
    from concurrent.futures import ThreadPoolExecutor

    source = Dataset("s3://bucket/train", storage_options=options).source
    with ThreadPoolExecutor(8) as pool:
        frames = list(pool.map(lambda f: source.read(f, ["a"]), list(source.fragments) * 4))
    assert pl.concat(frames[:6])["a"].to_list() == list(range(1000))
