"""A table of rows that are told apart by `id`, in every form that a dataset can be opened from."""

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl

import rowmill

ROWS = 3_000
DAY = dt.date(2024, 1, 1)


def table(rows: int = ROWS) -> pl.DataFrame:
    """`id` is the number of the row; `day` goes up with it, and the other columns are in no order."""
    ids, rng = np.arange(rows), np.random.default_rng(7)
    floats = np.where(ids % 11 == 0, np.nan, rng.normal(size=rows))
    return pl.DataFrame(
        {
            "id": ids,
            "day": [DAY + dt.timedelta(days=int(i) // 100) for i in ids],
            "ts": [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=int(i)) for i in ids],
            "x": pl.Series(floats, nan_to_null=False).set(pl.Series(ids % 13 == 0), None),
            "k": rng.integers(0, 40, rows),
            "s": [None if i % 17 == 0 else f"k{i % 23}" for i in ids.tolist()],
        }
    )


def forms(frame: pl.DataFrame, folder: Path) -> dict[str, rowmill.Dataset]:
    """The table in each form, with rows grouped differently in each. The folder is new."""
    for name, files, group in (("one", 1, 130), ("many", 7, 61), ("large", 2, 5_000)):
        (folder / name).mkdir()
        edges = [frame.height * n // files for n in range(files + 1)]
        for n in range(files):
            part = frame[edges[n] : edges[n + 1]]
            part.write_parquet(folder / name / f"{n}.parquet", row_group_size=group)
    frame.write_csv(folder / "table.csv")
    frame.write_ipc(folder / "table.arrow", record_batch_size=97)
    datasets = {name: rowmill.Dataset(folder / name) for name in ("one", "many", "large")}
    datasets |= {
        "ipc": rowmill.Dataset(folder / "table.arrow"),
        "csv": rowmill.Dataset(folder / "table.csv", dtypes={"day": pl.Date, "ts": pl.Datetime("us")}),
        "frame": rowmill.Dataset(frame),
        "recut": rowmill.Dataset(folder / "many").repartition(5),
        "cast": rowmill.Dataset(folder / "one", dtypes={"k": "int32"}),
        "joined": rowmill.Dataset.concat(
            [rowmill.Dataset(frame[: frame.height // 3]), rowmill.Dataset(folder / "one").slice(frame.height // 3)]
        ),
    }
    return datasets
