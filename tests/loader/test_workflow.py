"""A workflow inside a loader: the same rows as those transformed beforehand, cached or not."""

import numpy as np
import polars as pl
import pytest

from rowmill import Dataset, Tags, Workflow, ops
from rowmill.loader.torch import Loader, TorchAsyncItr
from rowmill.ops import get_embedding_sizes
from rowmill.tools.synthetic import criteo


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    criteo(folder, 20_000, files=3, row_group_rows=3_000, form="raw")
    return Dataset(folder)


@pytest.fixture(scope="module")
def workflow(raw):
    ids, counts = ["C1", "C2", "C10"], ["I1", "I2"]
    scaled = counts >> ops.FillMissing() >> ops.Clip(min_value=0) >> ops.LogOp() >> ops.Normalize()
    target = ["label"] >> ops.AddMetadata(tags=[Tags.TARGET])
    encoded = ["C6"] >> ops.TargetEncoding("label")
    return Workflow((ids >> ops.Categorify()) + scaled + encoded + target).fit(raw)


def rows_of(loader):
    parts = [(cats.numpy(), conts.numpy(), labels.numpy()) for cats, conts, labels in loader]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def test_columns_come_from_the_workflow_and_match_the_embeddings(raw, workflow):
    loader = TorchAsyncItr(raw, batch_size=1000, shuffle=True, workflow=workflow)
    assert loader.cat_names == list(get_embedding_sizes(workflow)) == ["C1", "C10", "C2"]
    assert loader.cont_names == ["I1", "I2", "TE_C6_label"]
    assert loader.label_names == ["label"]
    cats, conts, labels = rows_of(loader)
    made = workflow.transform(raw).to_polars()
    assert len(labels) == raw.num_rows
    for place, name in enumerate(loader.cat_names):
        assert cats[:, place].max() < get_embedding_sizes(workflow)[name][0]
    found = pl.DataFrame([*cats.T, *conts.T, labels], schema=[*loader.cat_names, *loader.cont_names, "label"])
    wanted = made.select(found.columns).cast(dict(found.schema))
    assert found.sort(found.columns).equals(wanted.sort(wanted.columns))


def test_in_order_it_is_the_transformed_table(raw, workflow):
    made = workflow.transform(raw).to_polars()
    seen = [features["C1"].numpy() for features, _ in Loader(raw, 777, workflow=workflow)]
    assert np.concatenate(seen).tolist() == made["C1"].to_list()


def test_the_memory_setting_does_not_show(raw, workflow):
    one = rows_of(TorchAsyncItr(raw, batch_size=500, workflow=workflow))
    two = rows_of(TorchAsyncItr(raw, batch_size=500, workflow=workflow, memory="1MB"))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_a_cache_holds_what_the_workflow_made(raw, workflow, tmp_path):
    def loader(used):
        return TorchAsyncItr(raw, batch_size=500, shuffle=True, workflow=used, cache=tmp_path, labels=["label"])

    plain = TorchAsyncItr(raw, batch_size=500, shuffle=True, workflow=workflow, labels=["label"])
    first, second = rows_of(plain), rows_of(plain)
    cached = loader(workflow)
    for wanted, found in ((first, rows_of(cached)), (second, rows_of(cached)), (first, rows_of(loader(workflow)))):
        assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True))
    stores = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    scaled = ["I1"] >> ops.FillMissing() >> ops.Normalize()
    other = Workflow((["C1"] >> ops.Categorify(max_size=50)) + scaled + ["label"]).fit(raw)
    assert rows_of(loader(other))[0].max() < 50
    assert len({path.name for path in tmp_path.iterdir() if path.is_dir()}) > len(stores)


def test_resume_in_the_middle_and_refusal_of_another_workflow(raw, workflow):
    def loader(used):
        return TorchAsyncItr(raw, batch_size=500, shuffle=True, workflow=used, labels=["label"])

    whole = [cats.numpy() for cats, _, _ in loader(workflow)]
    part = loader(workflow)
    batches = iter(part)
    for _ in range(13):
        next(batches)
    state = part.state_dict()
    batches.close()
    again = loader(workflow)
    again.load_state_dict(state)
    rest = [cats.numpy() for cats, _, _ in again]
    assert len(rest) == len(whole) - 13
    assert all(np.array_equal(a, b) for a, b in zip(rest, whole[13:], strict=True))
    other = Workflow(workflow.output_node).fit(Dataset(raw.to_polars().head(15_000)))  # has learnt something else
    with pytest.raises(ValueError, match="data"):
        loader(other).load_state_dict(state)
