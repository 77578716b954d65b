"""Damaged copies of a data file, and a child process that reads many of them: what a fuzzer would write.

Run as a program: `python -m tests.hostile.mutate FOLDER KIND FIRST LAST` reads the copies of these numbers, prints a
line for each before it reads it, and one JSON line of what came of them.
"""

import json
import random
import resource
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, GROUP = 3_000, 500
MOST_BYTES = 300 << 20  # more than a damaged file of 100 KB may make a process grow by


def table() -> pl.DataFrame:
    rng = np.random.Generator(np.random.Philox(3))
    ids = np.arange(ROWS)
    return pl.DataFrame(
        {
            "id": ids,
            "x": rng.random(ROWS),
            "small": (ids % 7).astype(np.int8),
            "text": [f"text {i % 97}" for i in ids],
            "long": [f"{i:020}" * (i % 5) for i in ids],
            "list": [list(range(i % 6)) for i in ids],
            "flag": ids % 3 == 0,
            "day": pl.Series(ids % 1000).cast(pl.Date),
            "maybe": pl.Series(ids).set(pl.Series(ids % 5 == 0), None),
        }
    )


def write(path: Path, kind: str, variant: int) -> None:
    """One of several ways in which the table may have been written."""
    arrow = table().to_arrow()
    if kind == "parquet" and variant % 4 == 3:
        table().write_parquet(
            path, row_group_size=GROUP, compression=("zstd", "lz4", "gzip", "snappy")[variant // 4 % 4]
        )
    elif kind in ("parquet", "checked"):
        pq.write_table(
            arrow,
            path,
            row_group_size=GROUP,
            compression=("snappy", "zstd", "none", "gzip")[variant % 4],
            use_dictionary=variant % 3 != 0,
            data_page_version=("1.0", "2.0")[variant // 2 % 2],
            write_page_checksum=kind == "checked",
            data_page_size=2_000 if variant % 5 == 0 else None,
        )
    elif kind == "ipc":
        codec = (None, "lz4", "zstd")[variant % 3]
        with (
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_file(file, arrow.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer,
        ):
            for start in range(0, ROWS, GROUP):
                for batch in arrow.slice(start, GROUP).combine_chunks().to_batches():
                    writer.write_batch(batch)
    else:
        table().drop("list").write_csv(path)


def footer_start(data: bytes) -> int:
    if data[-4:] == b"PAR1":
        return max(4, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    if data[-6:] == b"ARROW1":
        return max(8, len(data) - 10 - int.from_bytes(data[-10:-6], "little"))
    return 0


def mutated(data: bytes, dice: random.Random) -> bytes:
    """A copy with some damage: bits, bytes, cuts, pieces moved, numbers in the footer and in headers made huge."""
    bad = bytearray(data)
    start = footer_start(data)
    way = dice.choice(
        ["bits", "bits", "footer bits", "footer bits", "cut", "splice", "zeros", "varint", "varint", "swap"]
    )
    if way == "bits":
        for _ in range(dice.choice([1, 1, 3, 30])):
            bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
    elif way == "footer bits":
        for _ in range(dice.choice([1, 1, 2, 8])):
            bad[dice.randrange(start, len(bad))] ^= 1 << dice.randrange(8)
    elif way == "cut":
        place = dice.randrange(len(bad))
        if dice.random() < 0.5:  # the end stays, so that the footer is found
            del bad[place : place + dice.randrange(1, 200)]
        else:
            del bad[place:]
    elif way == "splice":
        size = dice.randrange(1, 2_000)
        a, b = dice.randrange(len(bad)), dice.randrange(len(bad))
        bad[a : a + size] = bad[b : b + size]
    elif way == "zeros":
        a = dice.randrange(len(bad))
        size = min(dice.randrange(1, 500), len(bad) - a)
        bad[a : a + size] = bytes([dice.choice([0, 255, 127])]) * size
    elif way == "varint":  # a number of several bytes in the footer or in a page header becomes a huge one
        low, high = (start, len(bad)) if dice.random() < 0.6 else (0, max(1, start))
        at = dice.randrange(low, high)
        huge = [
            b"\xff\xff\xff\xff\x0f",
            b"\xfe\xff\xff\xff\x0f",
            b"\x80\x80\x80\x80\x40",
            b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        ]
        number = dice.choice(huge)
        bad[at : at + len(number)] = number
    else:
        a, b = sorted(dice.randrange(len(bad)) for _ in range(2))
        size = min(dice.randrange(1, 300), b - a)
        if size > 0:
            bad[a : a + size], bad[b : b + size] = bad[b : b + size], bad[a : a + size]
    return bytes(bad)


def flipped_page(data: bytes, dice: random.Random) -> bytes:
    """A copy with one bit of a page flipped: never one of the footer or of a page header."""
    from rowmill.sources.parquet.thrift import page_header, parse_footer

    start = footer_start(data)
    _, groups = parse_footer(data[start:-8])
    chunk = dice.choice(dice.choice(groups).columns)
    at, pages, values = chunk.start, [], 0
    while values < chunk.values:
        page = page_header(data[at : at + 4096])
        pages.append((at + page.header, page.compressed))
        at += page.header + page.compressed
        values += page.values if page.holds_data else 0
    first, size = dice.choice([page for page in pages if page[1]])
    bad = bytearray(data)
    bad[first + dice.randrange(size)] ^= 1 << dice.randrange(8)
    return bytes(bad)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(folder: Path, kind: str, first: int, last: int) -> None:
    from rowmill import Dataset
    from rowmill.errors import DataFileError, RowmillError
    from rowmill.loader.torch import Loader

    ending = {"ipc": ".arrow", "csv": ".csv"}.get(kind, ".parquet")
    wanted = table().drop("list") if kind == "csv" else table()
    good, bad = folder / f"good{ending}", folder / f"bad{ending}"
    count = dict.fromkeys(["same", "error", "other"], 0)
    violations = []
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, last):
        print(number, flush=True)
        write(good, kind, number)
        if number == first:
            Dataset(good).to_polars()
            list(Loader(Dataset(good), batch_size=100, nulls=0, memory="2MB"))
        dice = random.Random(number)
        data = good.read_bytes()
        bad.write_bytes(flipped_page(data, dice) if kind == "checked" else mutated(data, dice))
        before = peak()
        try:
            opened = Dataset(bad)
            if number % 2:
                got = opened.to_polars()
            else:
                rows = sum(len(batch[0]["id"]) for batch in Loader(opened, batch_size=100, nulls=0, memory="2MB"))
                got = None
                if rows != ROWS and kind != "csv":
                    violations.append(f"{number}: {rows} rows from a loader")
            same = got is not None and got.equals(wanted)
            count["same" if same else "other"] += 1
            if got is not None and got.height != ROWS and kind != "csv":
                violations.append(f"{number}: {got.height} rows")
            if kind == "checked":
                violations.append(f"{number}: a flipped bit was delivered")
        except RowmillError as error:
            count["error"] += 1
            if isinstance(error, DataFileError) and bad.name not in str(error):
                violations.append(f"{number}: an error that does not name the file: {error}")
        except BaseException as error:  # noqa: BLE001 - what it is is the point
            violations.append(f"{number}: {type(error).__name__}: {str(error)[:200]}")
        if peak() - before > MOST_BYTES:
            violations.append(f"{number}: took {(peak() - before) >> 20} MB")
    print(json.dumps({**count, "violations": violations}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
