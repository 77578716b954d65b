"""Tables that are larger in memory than they look, and a child process that reads one and measures its peak.

Run as a program: `python -m tests.hostile.memory FOLDER TABLE CONSUMER MEMORY` writes the table if it is not there and
prints a JSON line: rows seen, and bytes of resident memory above what the process took before.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

BATCH = {"short lists": 1024, "wide": 256, "tiny groups": 512, "giant group": 8192, "run-length numbers": 8192}
LARGE_VOCABULARIES = {"large texts", "lists and texts"}  # a fitted vocabulary comes on top of the memory setting
SIZES = {"long": 12_500, "text": 100_000}  # values of a long list, characters of a long text


def _writer(path: Path, schema: pa.Schema, **options) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, **{"compression": "zstd", **options})


def _lists(lengths, values=7) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.full(offsets[-1], values, np.int64)))


def skewed_lists(path: Path, scale: float, groups: int = 10) -> int:
    """Lists of one value in the first rows and of 12,500 in the others, all the same: a file of some kilobytes."""
    rows = int(20_000 * scale) // groups
    with _writer(path, pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))])) as writer:
        for group in range(groups):
            lengths = np.full(rows, SIZES["long"])
            lengths[: (rows if group == 0 and groups > 1 else max(1, min(2_000, rows // 4)))] = 1
            writer.write_table(pa.table({"id": np.arange(rows), "l": _lists(lengths)}), row_group_size=rows)
    return rows * groups


def skewed_lists_in_one_group(path: Path, scale: float) -> int:
    return skewed_lists(path, scale, groups=1)


def long_lists_last(path: Path, scale: float) -> int:
    """Of 50,000 rows in one row group only the last two in a hundred have long lists."""
    rows = int(50_000 * scale)
    lengths = np.ones(rows, np.int64)
    lengths[-max(1, rows // 50) :] = 100_000
    pq.write_table(
        pa.table({"id": np.arange(rows), "l": _lists(lengths)}), path, row_group_size=rows, compression="zstd"
    )
    return rows


def skewed_texts(path: Path, scale: float) -> int:
    """The same for texts: a dictionary of a few of 100,000 characters."""
    rows = int(20_000 * scale)
    texts = np.array([f"{i:02}" * (SIZES["text"] // 2) for i in range(8)], object)
    short, half = np.array(["a", "b"], object), rows // 4
    table = pa.table(
        {"id": np.arange(rows), "s": np.concatenate([short[np.arange(half) % 2], texts[np.arange(rows - half) % 8]])}
    )
    pq.write_table(table, path, row_group_size=max(1, rows // 5), compression="zstd")
    return rows


def skewed_texts_of_polars(path: Path, scale: float) -> int:
    """As another writer stores them: without the sizes of texts in the footer."""
    rows = int(20_000 * scale)
    index = pl.int_range(rows, eager=True)
    texts = pl.Series([f"{i:02}" * (SIZES["text"] // 2) for i in range(8)])
    column = pl.concat([pl.Series(["a"]).gather([0] * (rows // 4)), texts.gather(index[rows // 4 :] % 8)])
    pl.DataFrame({"id": index, "s": column}).write_parquet(path, row_group_size=max(1, rows // 5))
    return rows


def large_texts(path: Path, scale: float) -> int:
    """Texts of a million characters, all different."""
    rows, rng = int(1_000 * scale), np.random.Generator(np.random.Philox(1))
    with _writer(path, pa.schema([("id", pa.int64()), ("s", pa.string())]), use_dictionary=False) as writer:
        for start in range(0, rows, 100):
            texts = [
                rng.integers(97, 123, 500_000, np.uint8).tobytes().decode() * 2 for _ in range(min(100, rows - start))
            ]
            writer.write_table(pa.table({"id": np.arange(len(texts)), "s": texts}), row_group_size=100)
    return rows


def wide(path: Path, scale: float) -> int:
    """2,000 columns of float32."""
    rows, rng = int(100_000 * scale), np.random.Generator(np.random.Philox(2))
    values = rng.random(rows, dtype=np.float32)
    table = pa.table({f"x{i}": np.roll(values, i) for i in range(2_000)})
    pq.write_table(table, path, row_group_size=max(1, rows // 4), use_dictionary=False, compression="snappy")
    return rows


def lists_of_100_000(path: Path, scale: float) -> int:
    rows = int(2_000 * scale)
    with _writer(path, pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))]), use_dictionary=False) as writer:
        for start in range(0, rows, 200):
            count = min(200, rows - start)
            writer.write_table(pa.table({"id": np.arange(count), "l": _lists(np.full(count, 100_000), start)}))
    return rows


def short_lists(path: Path, scale: float) -> int:
    """One row group of 1.4 GB of short lists."""
    rows = int(5_000_000 * scale)
    lengths = np.arange(rows) % 70
    pq.write_table(pa.table({"id": np.arange(rows), "l": _lists(lengths)}), path, row_group_size=rows)
    return rows


def giant_group(path: Path, scale: float) -> int:
    """20 columns of int64 in one row group."""
    rows = int(8_000_000 * scale)
    table = pa.table({f"c{i}": np.arange(rows) * (i + 1) for i in range(20)})
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False)
    return rows


def tiny_groups(path: Path, scale: float) -> int:
    rows = int(100_000 * scale)
    table = pa.table({f"c{i}": np.arange(rows) * (i + 1) for i in range(20)})
    pq.write_table(table, path, row_group_size=20)
    return rows


def run_length_numbers(path: Path, scale: float) -> int:
    """200 million times the same number in one row group of some kilobytes."""
    rows = int(100_000_000 * scale)
    column = pa.array(np.full(rows, 5))
    pq.write_table(pa.table({"c": column, "d": column}), path, row_group_size=rows)
    return rows


def run_length_lists(path: Path, scale: float) -> int:
    """Lists of 12,500 times the same number in all rows."""
    rows = int(20_000 * scale)
    pq.write_table(
        pa.table({"id": np.arange(rows), "l": _lists(np.full(rows, SIZES["long"]))}),
        path,
        row_group_size=rows,
        compression="zstd",
    )
    return rows


def lists_of_texts(path: Path, scale: float) -> int:
    """A text column beside lists, both growing along the table."""
    rows = int(40_000 * scale)
    lengths = np.arange(rows) // max(1, rows // 2_000)
    texts = pa.array([f"{i}" * int(n) for i, n in zip(range(rows), lengths.tolist(), strict=True)])
    pq.write_table(
        pa.table({"id": np.arange(rows), "l": _lists(lengths), "s": texts}), path, row_group_size=max(1, rows // 4)
    )
    return rows


def blobs(path: Path, scale: float) -> int:
    rows, rng = int(20_000 * scale), np.random.Generator(np.random.Philox(3))
    data = [rng.bytes(int(n)) for n in rng.integers(0, 80_000, rows)]
    pq.write_table(
        pa.table({"id": np.arange(rows), "b": pa.array(data, pa.binary())}), path, row_group_size=max(1, rows // 3)
    )
    return rows


TABLES = {
    "skewed lists": skewed_lists,
    "skewed lists in one group": skewed_lists_in_one_group,
    "long lists last": long_lists_last,
    "skewed texts": skewed_texts,
    "skewed texts of Polars": skewed_texts_of_polars,
    "large texts": large_texts,
    "wide": wide,
    "lists of 100,000": lists_of_100_000,
    "short lists": short_lists,
    "giant group": giant_group,
    "tiny groups": tiny_groups,
    "run-length numbers": run_length_numbers,
    "run-length lists": run_length_lists,
    "lists and texts": lists_of_texts,
    "blobs": blobs,
}


def status(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


def consume(path: Path, table: str, consumer: str, memory: int, store: Path) -> int:
    from rowmill import Dataset, Workflow, ops
    from rowmill.loader.torch import Loader

    data = Dataset(path)
    if consumer == "fit":
        kinds = {c.name: c for c in data.schema}
        graph = ["id"] >> ops.Normalize() if "id" in kinds else list(kinds)[:50] >> ops.Normalize()
        for name in {"s", "l"} & set(kinds):
            if name == "l" or table not in LARGE_VOCABULARIES:
                graph += [name] >> ops.Categorify()
        Workflow(graph).fit(data, memory=memory)
        return data.num_rows
    if consumer == "map":
        rows = data.as_map_style(memory=memory)
        return sum(1 for number in range(0, len(rows), max(1, len(rows) // 200)) if rows[number] is not None)
    batch = BATCH.get(table, 32 if memory > 150e6 else 16)
    if table == "large texts":
        batch = 8
    options = {"shuffle": consumer == "shuffled", "memory": memory, "batch_size": batch}
    if consumer == "store":
        options["cache"] = str(store)
    return sum(len(next(iter(batch[0].values()))) for batch in Loader(data, **options))


def write(folder: Path, table: str, scale: float) -> tuple[Path, Path]:
    """The table and a small one of its kind. In a process of their own: what writing them took must not be counted."""
    small, path = folder / f"{table} small.parquet", folder / f"{table} {scale}.parquet"
    if not path.exists():
        child = "from tests.hostile.memory import *; TABLES[sys.argv[1]](Path(sys.argv[2]), float(sys.argv[3]))"
        few = "0.001" if table not in ("large texts", "lists of 100,000") else "0.01"
        for target, size in ((small, few), (path, str(scale))):
            subprocess.run([sys.executable, "-c", child, table, str(target), size], check=True)
    return small, path


def main(folder: Path, table: str, consumer: str, memory: int, scale: float) -> None:
    small, path = write(folder, table, scale)
    import tempfile

    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as store:
        consume(small, table, consumer, memory, Path(store) / "small")
        import gc

        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is taken now
        before = status("VmHWM")
        rows = consume(path, table, consumer, memory, Path(store) / "large")
        over = status("VmHWM") - before
    print(json.dumps({"rows": rows, "over": over, "wanted": pq.read_metadata(path).num_rows}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
