"""Where results are written: URLs are refused before a folder of that name is made, and nothing planted is followed."""

import os

import numpy as np
import polars as pl
import pytest

import rowmill
from rowmill import Dataset
from rowmill.cli import main
from rowmill.errors import ArgumentError
from rowmill.loader.tensordict import dataset_to_tensordict
from rowmill.loader.torch import Loader
from rowmill.report import of_dataset
from rowmill.tools.synthetic import criteo

pytestmark = pytest.mark.timeout(120)
FRAME = pl.DataFrame({"a": range(20), "b": range(20)})
WRITERS = {
    "to_parquet": lambda url: Dataset(FRAME).to_parquet(url),
    "to_parquet by key": lambda url: Dataset(FRAME).to_parquet(url, partition_on="a"),
    "cache": lambda url: list(Loader(Dataset(FRAME), 5, cache=url)),
    "wrapped": lambda url: dataset_to_tensordict(np.arange(9), folder=url),
    "report": lambda url: of_dataset(Dataset(FRAME), "frame").write(url),
    "pictures": lambda url: of_dataset(Dataset(FRAME), "frame").write_png(url),
    "synthetic": lambda url: criteo(url, 100),
    "list": rowmill.cache.list,
    "clear": rowmill.cache.clear,
}
COMMANDS = {
    "convert": ["convert", "table.parquet", "URL"],
    "report": ["report", "table.parquet", "--seconds", "0", "-o", "URL"],
    "fit": ["fit", "table.parquet", "--conts", "a", "-o", "URL"],
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("url", ["s3://bucket/out", "gs://b/out", "hdfs:///out", "https://h/out", "file://host/out"])
@pytest.mark.parametrize("writer", WRITERS)
def test_urls_are_refused(here, writer, url):
    with pytest.raises(ArgumentError, match=r"local path|three slashes"):
        WRITERS[writer](url)
    assert os.listdir(here) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_refuse_urls_and_take_file_urls(here, capsys, command):
    FRAME.write_parquet("table.parquet")
    assert main([part.replace("URL", "s3://bucket/out") for part in COMMANDS[command]]) != 0
    assert "s3://bucket/out" in capsys.readouterr().err and os.listdir(here) == ["table.parquet"]
    assert main([part.replace("URL", f"file://{here}/out") for part in COMMANDS[command]]) == 0
    assert sorted(os.listdir(here)) == ["out", "table.parquet"]


def test_file_urls(here):
    Dataset(FRAME).to_parquet(f"file://{here}/out")
    assert Dataset(here / "out").to_polars().equals(FRAME)
    list(Loader(Dataset(FRAME), 5, cache=f"file://{here}/cache"))
    assert (here / "cache").is_dir() and sorted(os.listdir(here)) == ["cache", "out"]


def test_what_is_planted_beside_an_output(here, tmp_path):
    """Names that an unfinished write would have: a link to a folder elsewhere, and a pipe that nobody writes to."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "kept").write_text("kept")
    (here / ".out.1.rowmill-part").symlink_to(tmp_path / "precious")
    os.mkfifo(here / ".out.2.rowmill-part")
    Dataset(FRAME).to_parquet(here / "out")
    assert (tmp_path / "precious" / "kept").read_text() == "kept"
    assert Dataset(here / "out").to_polars().equals(FRAME)


@pytest.mark.parametrize("planted", ["pipe", "zeros", "deep"])
def test_what_is_planted_in_an_output(here, planted):
    Dataset(FRAME).to_parquet(here / "out")
    manifest = here / "out" / "_metadata.json"
    manifest.unlink()
    if planted == "pipe":
        os.mkfifo(manifest)
    elif planted == "zeros":
        manifest.symlink_to("/dev/zero")
    else:
        manifest.write_text("[" * 200_000)
    with pytest.raises(ArgumentError, match="which no earlier to_parquet wrote"):
        Dataset(FRAME).to_parquet(here / "out")
