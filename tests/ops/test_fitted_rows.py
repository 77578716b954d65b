"""Target encodings of the rows that were fitted: out of fold in every form they come in, or a warning says so."""

import warnings

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import FittedRowsWarning

# Two folds by row number modulo 2, no smoothing: out of fold, a row gets the mean of the other fold's rows of its key.
ROWS = pl.DataFrame({"k": ["a", "a", "a", "a", "b", "b"], "n": [1, 2, 3, 4, 5, 6], "y": [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]})
OUT_OF_FOLD = [0.5, 1.0, 0.5, 1.0, 1.0, 0.0]
ALL_ROWS = [0.75, 0.75, 0.75, 0.75, 0.5, 0.5]


def encoding():
    return Workflow(["k"] >> ops.TargetEncoding("y", kfold=2, fold_seed=None, p_smooth=0))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train").mkdir()
    ROWS.write_parquet(tmp_path / "train" / "a.parquet", row_group_size=2)
    return tmp_path


def encoded(made) -> list[float]:
    frame = made.to_polars() if isinstance(made, Dataset) else pl.DataFrame(made) if hasattr(made, "iloc") else made
    frame = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    return frame["TE_k_y"].to_list()


FORMS = {
    "the dataset": lambda f: Dataset(f / "train"),
    "a path": lambda f: str(f / "train" / "a.parquet"),
    "other partitions": lambda f: Dataset(f / "train").repartition(2),
    "part_size": lambda f: Dataset(f / "train", part_size=64),
    "dtypes": lambda f: Dataset(f / "train", dtypes={"n": "int32"}),
    "dtypes of the target": lambda f: Dataset(f / "train", dtypes={"y": "float32"}),
    "a frame": lambda f: ROWS,
    "pandas": lambda f: ROWS.to_pandas(),
    "arrow": lambda f: ROWS.to_arrow(),
    "fewer columns": lambda f: ROWS.select("y", "k"),
    "a categorical key": lambda f: ROWS.with_columns(pl.col("k").cast(pl.Categorical)),
    "another float type": lambda f: ROWS.with_columns(pl.col("y").cast(pl.Float32)),
    "a lazy scan": lambda f: pl.scan_parquet(f / "train" / "a.parquet"),
    "a dataset of a frame": lambda f: Dataset(ROWS, npartitions=3),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_fitted_rows_are_recognised(folder, form):
    workflow = encoding().fit(Dataset(folder / "train"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = workflow.transform(FORMS[form](folder))
        workflow.save(folder / "w")
        again = Workflow.load(folder / "w").transform(FORMS[form](folder))
    if isinstance(made, Dataset) or hasattr(made, "iloc") or isinstance(made, pl.DataFrame | pl.LazyFrame):
        assert encoded(made) == encoded(again) == OUT_OF_FOLD
    else:
        assert made.column("TE_k_y").to_pylist() == OUT_OF_FOLD


@pytest.mark.parametrize("fitted_on", ["pandas", "a lazy scan", "a dataset of a frame"])
def test_fitted_on_rows_in_memory(folder, fitted_on):
    given = FORMS[fitted_on](folder)
    workflow = encoding().fit(given)
    assert encoded(workflow.transform(ROWS)) == OUT_OF_FOLD
    assert encoded(workflow.transform(given)) == OUT_OF_FOLD
    assert encoded(encoding().fit_transform(given)) == OUT_OF_FOLD


def test_a_copy_of_the_files_is_warned_of_and_can_be_said(folder):
    workflow = encoding().fit(Dataset(folder / "train"))
    pq.write_table(ROWS.to_arrow(), folder / "copy.parquet", row_group_size=5)
    copy = Dataset(folder / "copy.parquet")
    with pytest.warns(FittedRowsWarning, match=r"6 rows, as many .* fitted_rows=True\), or with fitted_rows=False"):
        assert encoded(workflow.transform(copy)) == ALL_ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoded(workflow.transform(copy, fitted_rows=True)) == OUT_OF_FOLD
        assert encoded(workflow.transform(copy, fitted_rows=False)) == ALL_ROWS
        assert encoded(workflow.transform(copy, folds=True)) == OUT_OF_FOLD  # the older name
        assert encoded(workflow.transform(Dataset(folder / "train"), fitted_rows=False)) == ALL_ROWS


@pytest.mark.parametrize(
    "other",
    [
        ROWS.reverse(),
        ROWS.with_columns(pl.col("y") * 2),
        ROWS.with_columns(pl.lit("a").alias("k")),
        ROWS.drop("y"),
    ],
    ids=["another order", "another target", "other keys", "no target"],
)
def test_other_rows_of_the_same_number_are_not_taken_for_the_fitted_ones(other):
    workflow = encoding().fit(ROWS)
    if "y" not in other.columns:
        workflow.remove_inputs(["y"])
    keys = {"a": 0.75, "b": 0.5}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert encoded(workflow.transform(other)) == [keys[k] for k in other["k"]]
    assert [w.category for w in caught] == [FittedRowsWarning]


def test_fewer_rows_and_single_rows_raise_no_warning():
    workflow = encoding().fit(ROWS.head(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert workflow.transform({"k": "a", "y": 0.0}) == {"TE_k_y": 1.0}
        assert encoded(encoding().fit(ROWS).transform(ROWS.head(3))) == ALL_ROWS[:3]


def test_the_digest_does_not_depend_on_how_the_table_is_cut(tmp_path):
    draw = np.random.default_rng(1)
    frame = pl.DataFrame({"k": draw.integers(0, 9, 1_000), "y": draw.random(1_000)})
    whole = Workflow(["k"] >> ops.TargetEncoding("y")).fit(frame)
    cut = Workflow(["k"] >> ops.TargetEncoding("y")).fit(Dataset(frame, npartitions=7), threads=3)
    assert whole.fingerprint() == cut.fingerprint()


def test_folds_can_be_kept():
    node = ["k"] >> ops.TargetEncoding("y", kfold=2, fold_seed=None, p_smooth=0, drop_folds=False)
    made = Workflow(node).fit_transform(ROWS)
    assert made["__fold__"].to_list() == [0, 1, 0, 1, 0, 1] and made["TE_k_y"].to_list() == OUT_OF_FOLD
    read = pl.read_parquet(node.op.stats["__fold___k"].__fspath__()).sort("k", "__fold__")
    assert read.select("k", "__fold__").rows() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_rows_that_a_filter_leaves_out_change_nothing(tmp_path):
    given = pl.concat([ROWS, pl.DataFrame({"k": ["a", None], "n": [7, 8], "y": [0.5, 1.0]})])
    workflow = Workflow(
        (["k", "y"] >> ops.Dropna())["k"] >> ops.TargetEncoding("y", kfold=2, fold_seed=None, p_smooth=0)
    ).fit(given)
    wanted = workflow.transform(given, fitted_rows=True)["TE_k_y"].to_list()
    assert wanted != workflow.transform(given, fitted_rows=False)["TE_k_y"].to_list()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert workflow.transform(given)["TE_k_y"].to_list() == wanted
        assert workflow.transform(given.select("y", "k"))["TE_k_y"].to_list() == wanted
        assert encoded(workflow.transform(Dataset(given, npartitions=2))) == wanted
