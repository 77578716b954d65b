"""What datasets, loaders and workflows show of themselves in a terminal and in a notebook."""

import polars as pl

import rowmill
from rowmill import Workflow, ops
from rowmill.loader import torch as torch_loader
from rowmill.loader.numpy import Loader
from rowmill.schema import Tags
from tests.conftest import make_table, write_files


def test_a_dataset_shows_rows_files_and_columns_with_types(tmp_path):
    paths = write_files(tmp_path / "t", make_table(1003).with_columns(l=pl.concat_list("id", "cat_b")), files=3)
    data = rowmill.Dataset(tmp_path / "t").with_tags({"label": Tags.TARGET})
    assert repr(data) == (
        f"Dataset: 1,003 rows, 7 columns, 3 files ({paths[0]}, ...)\n"
        "  id     int64\n"
        "  cat_b  int64\n"
        "  cat_a  int32\n"
        "  x2     float32\n"
        "  x1     float64\n"
        "  label  float32        target\n"
        "  l      list of int64"
    )
    shown = data._repr_html_()
    assert "<td>label</td><td>float32</td><td>target</td>" in shown and "1,003 rows, 7 columns, 3 files" in shown


def test_long_tables_are_cut_and_names_are_escaped():
    data = rowmill.Dataset({f"<c{i}>": [1] for i in range(100)})
    assert repr(data).startswith("Dataset: 1 row, 100 columns, in memory or computed\n  <c0>   int64\n")
    assert repr(data).endswith("  <c19>  int64\n  ... 80 more") and repr(data).count("\n") == 21
    assert "<td>&lt;c0&gt;</td>" in data._repr_html_() and "<td>... 80 more</td>" in data._repr_html_()


def test_showing_a_table_counts_no_rows_that_would_have_to_be_read(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    data = rowmill.Dataset(tmp_path / "a.csv")
    assert repr(data).startswith(f"Dataset: rows not counted yet, 2 columns, 1 file ({tmp_path / 'a.csv'})")
    assert data.num_rows == 2 and repr(data).startswith("Dataset: 2 rows, 2 columns")
    lazy = rowmill.Dataset(pl.LazyFrame({"a": [1]}))
    assert repr(lazy) == "Dataset: rows not counted yet, 1 column, in memory or computed\n  a  int64"


def test_a_loader_shows_its_batches_and_columns():
    loader = Loader({"a": [1, 2, 3], "y": [True, False, True]}, 2, True, targets="y", global_size=2, global_rank=1)
    wanted = "Loader: 3 rows in batches of 2, shuffled, rank 1 of 2\n  a  int64\n  y  bool"
    assert repr(loader) == wanted
    assert "<td>a</td><td>int64</td>" in loader._repr_html_()
    assert repr(Loader({"a": [1]}, 1)).startswith("Loader: 1 row in batches of 1, in order\n")


def test_a_workflow_shows_its_steps():
    ids = ["u", "i"] >> ops.Categorify()
    numbers = ["x"] >> ops.FillMissing() >> ops.Clip(min_value=0) >> ops.Normalize()
    workflow = Workflow(ids + numbers + ["y"])
    steps = "  [u, i] >> Categorify\n  [x] >> FillMissing >> Clip >> Normalize\n  [y]"
    assert repr(workflow) == f"Workflow: not fitted\n{steps}"
    workflow.fit(rowmill.Dataset({"u": [1, 2], "i": [3, 4], "x": [0.5, 1.5], "y": [0, 1]}))
    assert repr(workflow) == f"Workflow: fitted, 4 columns in, 4 out\n{steps}"
    assert "<td>[u, i] &gt;&gt; Categorify</td>" in workflow._repr_html_()
    node = ["x"] >> ops.LogOp()
    for _ in range(60):  # doubles at every step if it were written out
        node = (node + node) >> ops.LogOp()
    assert len(repr(Workflow(node))) < 250


def test_a_node_shows_its_steps():
    ids = ["u", "i"] >> ops.Categorify()
    assert repr(ids) == "[u, i] >> Categorify"
    assert repr(ids + (["x"] >> ops.LogOp())) == "[u, i] >> Categorify + [x] >> LogOp"


def test_a_dl_data_loader_shows_its_loader():
    loader = torch_loader.Loader({"a": [1]}, 1)
    assert repr(torch_loader.DLDataLoader(loader)).startswith("DLDataLoader over Loader: 1 row in batches of 1")
