"""Target encoding, against figures worked out by hand."""

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Workflow, ops


def test_target_encoding_by_hand():
    data = pl.DataFrame({"c": ["a", "a", "a", "b", "b", "b"], "t": [1, 0, 1, 0, 0, 1]})
    node = ["c"] >> ops.TargetEncoding("t", kfold=3, fold_seed=None, p_smooth=2)
    workflow = Workflow(node).fit(data)
    made = workflow.transform(Dataset(data)).to_polars()["TE_c_t"].to_list()
    mean = 0.5  # fold of row i is i % 3, so each row of a value is in a fold of its own
    wanted = [(2 - t + 2 * mean) / (2 + 2) for t in (1, 0, 1)] + [(1 - t + 2 * mean) / (2 + 2) for t in (0, 0, 1)]
    assert made == pytest.approx(wanted)
    served = workflow.transform(pl.DataFrame({"c": ["a", "b", "z", None]}))["TE_c_t"].to_list()
    assert served == pytest.approx([(2 + 1) / 5, (1 + 1) / 5, mean, mean])


def test_folds_do_not_depend_on_how_the_table_is_cut(tmp_path):
    draw = np.random.default_rng(1)
    data = pl.DataFrame({"c": draw.integers(0, 9, 1000), "t": draw.random(1000)})
    node = ["c"] >> ops.TargetEncoding("t", kfold=5)
    whole = Workflow(node).fit(data).transform(Dataset(data)).to_polars()
    for pieces in (2, 17):
        cut = Dataset(data, npartitions=pieces)
        assert Workflow(node).fit(cut).transform(cut).to_polars().equals(whole)
    for number in range(10):
        data[number * 100 : number * 100 + 100].write_parquet(tmp_path / f"{number}.parquet", row_group_size=7)
    files = Dataset(tmp_path)
    assert Workflow(node).fit_transform(files).to_polars().equals(whole)
    assert Workflow(node).fit(files, memory="10KB").transform(files).to_polars().equals(whole)


def test_other_data_are_encoded_from_all_rows():
    data = pl.DataFrame({"c": [1, 1, 2, 2] * 50, "t": [0.0, 1.0, 1.0, 1.0] * 50})
    workflow = Workflow(["c"] >> ops.TargetEncoding("t")).fit(Dataset(data))
    assert workflow.transform(Dataset(data)).to_polars()["TE_c_t"].n_unique() > 2
    other = workflow.transform(Dataset(data.head(100))).to_polars()["TE_c_t"]
    assert other.n_unique() == 2
