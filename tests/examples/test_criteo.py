"""The Criteo example from raw days to a trained model, and the same days as text."""

import importlib.util
import subprocess
import sys

import polars as pl
import pytest

import rowmill
from rowmill.ops import get_embedding_sizes
from tests.examples.notebooks import EXAMPLES, run

ETL = EXAMPLES / "criteo" / "etl.py"

FOUND = """{
    "names": [train_data_itrs.cat_names, list(get_embedding_sizes(workflow))],
    "sizes": [size for size, _ in embeddings],
    "largest": torch.stack([x_cat.max(0).values for x_cat, _, _ in train_data_itrs]).max(0).values.tolist(),
    "losses_and_metrics": [list(map(float, values)) for values in learn.recorder.values],
    "rows": total_rows,
}"""


def test_the_model_learns_and_its_columns_match_its_embedding_tables(tmp_path):
    pytest.importorskip("fastai")
    etl = [sys.executable, str(ETL), "--base-dir", str(tmp_path), "--rows", "30000"]
    made = subprocess.run(etl, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    found = run("criteo/train.ipynb", tmp_path, FOUND, BASE_DIR=str(tmp_path), BATCH_SIZE="1024")
    assert found["names"][0] == found["names"][1] == sorted(f"C{i}" for i in range(1, 27))
    assert [largest + 1 for largest in found["largest"]] == found["sizes"], "each table has as many rows as ids"
    assert len(set(found["sizes"])) > 20, "so another order would be seen"
    (_, _, auc, precision), rows = found["losses_and_metrics"][-1], found["rows"]
    assert auc > 0.65 and precision > 0.3 and rows == 30_000


@pytest.fixture
def etl():
    spec = importlib.util.spec_from_file_location("criteo_etl", ETL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_text_with_hexadecimal_ids_gives_the_same_table(etl, tmp_path):
    """The days as Criteo has them: no names, tabs, ids of eight hexadecimal digits, empty fields for nulls."""
    days = etl.make_days(tmp_path, 3_000)
    text = []
    for day in days:
        frame = pl.read_parquet(day).with_columns(
            pl.col(name).map_elements(lambda x: f"{x % 2**32:08x}", return_dtype=pl.String)
            for name in etl.CATEGORICAL_COLUMNS
        )
        text.append(day.with_suffix(""))
        frame.write_csv(text[-1], separator="\t", include_header=False)
    assert len(text[0].read_text().splitlines()[0].split("\t")) == 40
    assert {etl.open_days(text).schema[name].dtype for name in etl.CATEGORICAL_COLUMNS} == {"int64"}
    tables, sizes = [], []
    for paths in (days, text):
        workflow = etl.make_workflow(2).fit(etl.open_days(paths[:1]))
        tables.append(workflow.transform(etl.open_days(paths[1:])).to_polars())
        sizes.append(get_embedding_sizes(workflow))
    assert sizes[0] == sizes[1]
    same = [*etl.CONTINUOUS_COLUMNS, *etl.LABEL_COLUMNS]
    assert tables[0].select(same).equals(tables[1].select(same))
    for name in etl.CATEGORICAL_COLUMNS:  # the same ids, numbered otherwise where two are as frequent
        pairs = pl.DataFrame({"a": tables[0][name], "b": tables[1][name]}).unique()
        assert pairs["a"].n_unique() == pairs["b"].n_unique() == pairs.height


def test_one_day_is_not_enough(tmp_path):
    one = subprocess.run([sys.executable, str(ETL), "--days", "day_0"], capture_output=True, text=True, timeout=60)
    assert one.returncode == 2 and "found 1 day; wanted at least two" in one.stderr


def test_what_the_etl_writes_is_described(etl, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["etl.py", "--base-dir", str(tmp_path), "--rows", "1000"])
    etl.main()
    train = rowmill.Dataset(tmp_path / "output" / "train")
    assert train.num_rows == 800 and train.schema.select_by_tag("target").column_names == ["label"]
    assert rowmill.Workflow.load(tmp_path / "output" / "workflow").output_schema.column_names == train.columns
