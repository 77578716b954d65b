"""Click logs to a table that a model takes: raw days in; Parquet for training and validation and a saved workflow out.

    python examples/criteo/etl.py                                   # synthetic days, made in BASE_DIR/raw
    python examples/criteo/etl.py --days /data/criteo/day_*         # the real ones
    python examples/criteo/etl.py --base-dir /raid/data/criteo ...  # where everything goes (default: $BASE_DIR)

The real days are the Criteo 1TB Click Logs: 24 files `day_0.gz` to `day_23.gz` of tab-separated text, 1.3 TB unpacked,
free for research and under Criteo's terms, from https://ailab.criteo.com/download-criteo-1tb-click-logs-dataset/.
Fetch one or more, unpack them with `gunzip day_0.gz`, and name them with `--days`. The last one is for validation.
Each line holds the label, 13 counts and 26 ids of eight hexadecimal digits; a missing value is an empty field.

Then train: `train.ipynb` in this folder.
"""

import argparse
import os
from pathlib import Path

import rowmill as nvt
from rowmill import ops
from rowmill.io import Shuffle
from rowmill.tools import synthetic

CONTINUOUS_COLUMNS = ["I" + str(x) for x in range(1, 14)]
CATEGORICAL_COLUMNS = ["C" + str(x) for x in range(1, 27)]
LABEL_COLUMNS = ["label"]
COLUMNS = LABEL_COLUMNS + CONTINUOUS_COLUMNS + CATEGORICAL_COLUMNS


def make_days(folder: Path, rows: int) -> list[Path]:
    """Synthetic days as Parquet: raw counts and hashed ids with nulls. A perfect model reaches an AUC of about 0.79."""
    return [
        synthetic.criteo(folder / f"day_{day}.parquet", share, form="raw", seed=day, row_group_rows=50_000)[0]
        for day, share in enumerate((rows - rows // 5, rows // 5))
    ]


def open_days(paths: list[Path]) -> nvt.Dataset:
    """Days as one dataset: Parquet as it is, text with its names and types."""
    if all(path.suffix == ".parquet" for path in paths):
        return nvt.Dataset(paths, engine="parquet")
    counts = dict.fromkeys(LABEL_COLUMNS + CONTINUOUS_COLUMNS, "int32")
    ids = dict.fromkeys(CATEGORICAL_COLUMNS, "hex")
    return nvt.Dataset(paths, engine="csv", sep="\t", names=COLUMNS, dtypes={**counts, **ids})


def make_workflow(freq_threshold: int) -> nvt.Workflow:
    """Counts filled, cut off at zero, on a log scale and standardised; ids numbered, the rare ones together."""
    ids = CATEGORICAL_COLUMNS >> ops.Categorify(freq_threshold=freq_threshold)
    counts = CONTINUOUS_COLUMNS >> ops.FillMissing() >> ops.Clip(min_value=0) >> ops.LogOp() >> ops.Normalize()
    return nvt.Workflow(ids + counts + LABEL_COLUMNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=Path, nargs="+", help="raw days, text or Parquet; the last is for validation")
    parser.add_argument("--base-dir", type=Path, default=Path(os.environ.get("BASE_DIR", "criteo")))
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the synthetic days, if there are no others")
    parser.add_argument("--freq-threshold", type=int, default=5, help="ids seen less often share one number")
    given = parser.parse_args()

    days = given.days or make_days(given.base_dir / "raw", given.rows)
    if len(days) < 2:
        parser.error(f"found {len(days)} day; wanted at least two, one to train on and one to validate on")
    train, valid = open_days(days[:-1]), open_days(days[-1:])
    workflow = make_workflow(given.freq_threshold).fit(train)
    output = given.base_dir / "output"
    columns = {"cats": CATEGORICAL_COLUMNS, "conts": CONTINUOUS_COLUMNS, "labels": LABEL_COLUMNS}
    for name, dataset, shuffle in (("train", train, Shuffle.PER_PARTITION), ("valid", valid, None)):
        workflow.transform(dataset).to_parquet(output / name, shuffle, seed=0, **columns)
    workflow.save(output / "workflow")
    print(f"{train.num_rows} rows to train on, {valid.num_rows} to validate on: {output}")


if __name__ == "__main__":
    main()
