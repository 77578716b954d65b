"""Avro files that Polars and fastavro's format describe: rows in blocks, codecs, and files that are none."""

import io
import json
import random
import zlib
from contextlib import suppress

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rowmill import Dataset
from rowmill.errors import ArgumentError, DataFileError
from rowmill.loader.numpy import Loader
from rowmill.sources.avro import avro_source
from rowmill.sources.avro.container import _long, _map

ROWS = 2_000
FRAME = pl.DataFrame(
    {
        "id": np.arange(ROWS) + 2**53,
        "x": [None if i % 5 == 0 else i / 7 for i in range(ROWS)],
        "s": [None if i % 7 == 0 else f"text {i}" for i in range(ROWS)],
        "l": [[1] * (i % 3) for i in range(ROWS)],
        "day": range(ROWS),
        "f": [True, False] * (ROWS // 2),
    }
).with_columns(pl.col("day").cast(pl.Int32).cast(pl.Date), at=pl.col("day").cast(pl.Datetime("us")))


def blocks_of(frame):
    """The header's schema and the bytes of the rows, as Polars writes them."""
    held = io.BytesIO()
    frame.write_avro(held, "uncompressed")
    return held.getvalue()


def write(path, frame, rows_of_block=150, codec="null"):
    """An Avro file of several blocks: Polars' own rows, put together as the format says."""
    from rowmill.sources.avro.container import read_container

    compress = {
        "null": lambda data: data,
        "deflate": lambda data: zlib.compressobj(6, zlib.DEFLATED, -15).compress(data) or b"",
        "snappy": lambda data: pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
        "zstandard": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    }

    def deflated(data):
        made = zlib.compressobj(6, zlib.DEFLATED, -15)
        return made.compress(data) + made.flush()

    compress["deflate"] = deflated
    parts, sync = [], bytes(range(16))
    for start in range(0, max(1, frame.height), rows_of_block):
        whole = blocks_of(frame[start : start + rows_of_block])
        container = read_container(io.BytesIO(whole), len(whole))
        for block in container.blocks:
            data = compress[codec](whole[block.begin : block.begin + block.size])
            parts.append(_long(block.rows) + _long(len(data)) + data + sync)
    header = b"Obj\x01" + _map({"avro.codec": codec.encode(), "avro.schema": container.schema}) + sync
    path.write_bytes(header + b"".join(parts))
    return path


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_the_rows_are_those_of_polars(tmp_path, monkeypatch, codec):
    monkeypatch.setattr(avro_source, "_ROWS", 400)
    write(tmp_path / "0.avro", FRAME[:900], codec=codec)
    write(tmp_path / "1.avro", FRAME[900:], rows_of_block=10_000, codec=codec)
    data = Dataset(tmp_path)
    assert data.num_rows == ROWS and [f.rows for f in data.fragments] == [300, 300, 300, 1_100]
    assert data.to_polars().equals(FRAME)
    assert data.slice(123, 456).to_polars(["s", "id"]).equals(FRAME[123:579].select("s", "id"))
    loader = Loader(data, 64, columns=["id"], shuffle=True)
    assert sorted(i for batch, _ in loader for i in batch["id"].tolist()) == FRAME["id"].to_list()
    assert data.filter(pl.col("f")).to_polars().equals(FRAME.filter(pl.col("f")))


@pytest.mark.parametrize("compression", ["uncompressed", "deflate", "snappy"])
def test_files_that_polars_writes(tmp_path, compression):
    FRAME.write_avro(tmp_path / "a.avro", compression)
    FRAME.head(0).write_avro(tmp_path / "b.avro", compression)
    assert Dataset(tmp_path).to_polars().equals(FRAME)
    assert Dataset(tmp_path, dtypes={"id": "string"}, columns=["id"]).to_polars().schema == {"id": pl.String}


def damaged(tmp_path, data):
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(DataFileError, match=r"a\.avro"):
        Dataset(tmp_path / "a.avro").to_polars()


def test_files_that_are_none(tmp_path):
    whole = write(tmp_path / "w.avro", FRAME[:300]).read_bytes()
    header = whole.index(bytes(range(16))) + 16
    for data in (b"", b"PAR1", whole[:3], whole[:50], whole[: header - 1], whole[:-1], whole[: len(whole) // 2]):
        damaged(tmp_path, data)
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}).encode()
    sync = b"\0" * 16
    for codec, said, rows, size, body in (
        (b"lzma", schema, 1, 1, b"\x02"),
        (b"null", b"{", 1, 1, b"\x02"),
        (b"null", b'"long"', 1, 1, b"\x02"),
        (b"null", schema, 2**40, 1, b"\x02"),
        (b"null", schema, -5, 1, b"\x02"),
        (b"null", schema, 1, 2**50, b"\x02"),
        (b"null", schema, 5, 5, b"\xff" * 5),
        (b"deflate", schema, 1, 3, b"abc"),
        (b"snappy", schema, 1, 9, b"\xff\xff\xff\xff\x7f" + b"abcd"),
        (b"zstandard", schema, 1, 3, b"abc"),
    ):
        made = b"Obj\x01" + _map({"avro.codec": codec, "avro.schema": said}) + sync
        damaged(tmp_path, made + _long(rows % 2**64 if rows < 0 else rows) + _long(size) + body + sync)
    damaged(tmp_path, b"Obj\x01" + _map({"avro.codec": b"null"}) + sync)


def test_a_block_that_is_small_and_becomes_very_large_is_refused(tmp_path, monkeypatch):
    from rowmill.sources.avro import container

    monkeypatch.setattr(container, "_MAX_BLOCK", 1 << 20)
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "boolean"}]}).encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    for codec, body in (
        (b"deflate", packer.compress(bytes(50 << 20)) + packer.flush()),
        (b"zstandard", pa.compress(bytes(50 << 20), codec="zstd", asbytes=True)),
        (b"snappy", pa.compress(bytes(50 << 20), codec="snappy", asbytes=True) + b"\0" * 4),
    ):
        made = b"Obj\x01" + _map({"avro.codec": codec, "avro.schema": schema}) + b"\0" * 16
        (tmp_path / "a.avro").write_bytes(made + _long(50 << 20) + _long(len(body)) + body + b"\0" * 16)
        with pytest.raises(DataFileError, match="once decompressed"):
            Dataset(tmp_path / "a.avro").head(1)


def test_damaged_bytes_are_errors_or_rows(tmp_path):
    draw = random.Random(4)
    for codec in ("null", "deflate", "snappy", "zstandard"):
        whole = write(tmp_path / "w.avro", FRAME[:40], 15, codec).read_bytes()
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(draw.randrange(1, 4)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            (tmp_path / "a.avro").write_bytes(data)
            with suppress(DataFileError, ArgumentError):
                assert Dataset(tmp_path / "a.avro").to_polars().height <= 80
