"""A real fastai `Learner` on our loaders: everything it calls, on real files."""

import pickle
import warnings

import numpy as np
import polars as pl
import pytest
import torch

pytest.importorskip("fastai")

from fastai.basics import Learner
from fastai.callback.core import Callback
from fastai.callback.hook import summary  # noqa: F401  (gives every Learner its summary)
from fastai.callback.progress import ProgressCallback
from fastai.callback.schedule import SuggestionMethod
from fastai.losses import CrossEntropyLossFlat
from fastai.metrics import RocAucBinary
from fastai.tabular.model import TabularModel

import rowmill
from rowmill.errors import ArgumentError, ColumnError
from rowmill.loader.fastai import Loader, dataloaders
from tests.conftest import write_files


def table(rows, seed):
    """Whether a row is positive is in two ids and a number; the row's own number is in x2."""
    rng = np.random.Generator(np.random.Philox(seed))
    shop, day = rng.integers(0, 40, rows), rng.integers(0, 7, rows)
    x1 = rng.standard_normal(rows)
    odds = np.where(shop % 2, 1.5, -1.5) + x1 + (day == 3)
    label = (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(np.int8)
    number = np.arange(rows, dtype=np.float32)
    return pl.DataFrame({"shop": shop, "day": day.astype(np.int32), "x2": number, "x1": x1, "label": label})


def labels(rows, seed):
    return torch.tensor(table(rows, seed)["label"].to_list())


@pytest.fixture
def paths(tmp_path):
    write_files(tmp_path / "train", table(2000, 1), files=2, row_group=300)
    write_files(tmp_path / "valid", table(501, 2), files=1, row_group=200)
    return tmp_path


def loaders(paths, **settings):
    return dataloaders(
        rowmill.Dataset(paths / "train"),
        rowmill.Dataset(paths / "valid"),
        cats=["shop", "day"],
        conts=["x1"] if "conts" not in settings else settings.pop("conts"),
        labels="label",
        path=paths,
        **{"bs": 128, **settings},
    )


def learner(dls, **settings):
    torch.manual_seed(0)
    conts = len(dls.cont_names)
    model = TabularModel(emb_szs=[[7, 4], [40, 8]], n_cont=conts, out_sz=2, layers=[32])
    return Learner(dls, model, loss_func=CrossEntropyLossFlat(), **settings)


def test_a_learner_trains_and_predicts(paths):
    dls = loaders(paths)
    learn = learner(dls, metrics=[RocAucBinary()])
    with learn.no_bar(), learn.no_logging():
        before = learn.validate()
        learn.fit(4, 1e-2)
        loss, auc = learn.validate()
        assert loss < before[0] and auc > 0.75
        probabilities, targets = learn.get_preds()
        assert torch.equal(targets, labels(501, 2))
        assert probabilities.shape == (501, 2)
        of_train, targets = learn.get_preds(ds_idx=0)  # in the order of the table, whatever the training order
        assert torch.equal(targets, labels(2000, 1))
        assert of_train.shape == (2000, 2)
    assert dls.train.epoch == 4, "looking and predicting count no epoch"


def test_progress_bars_and_rows_are_exact(paths):
    class Watch(Callback):
        def __init__(self):
            self.rows, self.told = [], []

        def before_batch(self):
            if self.iter == 0:
                self.rows.append([])
                self.told.append(len(self.dl))
            self.rows[-1].append(self.xb[1][:, -1].int().tolist())

    watch = Watch()
    dls = loaders(paths, conts=["x1", "x2"])
    with (learn := learner(dls, cbs=[watch])).no_bar(), learn.no_logging():
        learn.fit(2, 1e-3)
    assert watch.told == [16, 4, 16, 4] == [len(epoch) for epoch in watch.rows]
    epochs = [[row for batch in epoch for row in batch] for epoch in watch.rows]
    assert sorted(epochs[0]) == sorted(epochs[2]) == list(range(2000))
    assert epochs[0] != epochs[2] and epochs[0] != sorted(epochs[0])
    assert epochs[1] == epochs[3] == list(range(501))


def test_the_bar_counts_to_its_end(paths, capsys):
    learner(loaders(paths), cbs=[ProgressCallback()]).fit(1, 1e-3)
    shown = capsys.readouterr().out
    assert "100.00% [16/16 " in shown and "100.00% [4/4 " in shown


def test_the_learning_rate_finder(paths):
    learn = learner(loaders(paths))
    with learn.no_bar(), learn.no_logging():
        found = learn.lr_find(num_it=40, show_plot=False, suggest_funcs=(SuggestionMethod.Valley,))
    assert 1e-7 < found.valley < 10 and len(learn.recorder.losses) > 5


def test_what_fastai_asks_of_a_loader(paths):
    dls = loaders(paths, val_bs=200)
    train, valid = dls.train, dls.valid
    assert (train.bs, train.n, len(train), train.drop_last, train.shuffle) == (128, 2000, 16, False, True)
    assert (valid.bs, valid.n, len(valid), valid.drop_last, valid.shuffle) == (200, 501, 3, False, False)
    assert dls.n_inp == 2 and dls.device == torch.device("cpu")
    assert dls.cpu().to("cpu") is dls
    x_cat, x_cont, y = dls.one_batch()
    assert (x_cat.dtype, x_cont.dtype, y.dtype) == (torch.int64, torch.float32, torch.int64)
    assert (x_cat.shape, x_cont.shape, y.shape) == ((128, 2), (128, 1), (128,))
    assert train.cat_names == ["day", "shop"]
    for first, again in zip(next(iter(train)), (x_cat, x_cont, y), strict=True):
        assert torch.equal(first, again), "one_batch() is the batch that the epoch begins with"
    other = train.new(shuffle=False, drop_last=True, bs=300, num_workers=0)
    assert (other.bs, len(other), other.drop_last, other.shuffle) == (300, 6, True, False)
    assert (train.new().shuffle, valid.new().shuffle, other.new().drop_last) == (True, False, True)
    assert pickle.loads(pickle.dumps(train)).n == 2000
    learn = learner(dls)
    assert "128 x 2" in str(learn.summary())


def test_rows_are_shown(paths, capsys):
    learn = learner(loaders(paths))
    learn.dls.show_batch(max_n=3)
    learn.show_results(max_n=2)
    frame = learn.dls.valid._frame(learn.dls.valid.one_batch(), 3)
    expected = table(501, 2).head(3).select("day", "shop", "x1", "label")
    assert frame.equals(expected.cast({"day": pl.Int64, "x1": pl.Float32, "label": pl.Int64}))


def test_a_learner_is_exported_without_its_rows_and_predicts_elsewhere(paths):
    from fastai.learner import load_learner

    learn = learner(loaders(paths))
    unlabelled = table(300, 3).drop("label")
    with learn.no_bar(), learn.no_logging():
        learn.fit(1, 1e-2)
        expected, _ = learn.get_preds(dl=learn.dls.test_dl(unlabelled))
        learn.export("model.pkl")
    size = (paths / "model.pkl").stat().st_size
    for path in paths.rglob("*.parquet"):
        path.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = load_learner(paths / "model.pkl")
    assert loaded.dls.train.n == 0 and size < 200_000
    with loaded.no_bar():
        found, targets = loaded.get_preds(dl=loaded.dls.test_dl(unlabelled))
        decoded, _, probabilities = loaded.predict(unlabelled.row(0, named=True))
    assert torch.equal(found, expected) and targets is None
    assert torch.allclose(probabilities, expected[0], atol=1e-6) and int(decoded) == int(expected[0].argmax())
    with pytest.raises(ArgumentError, match="without batches"):
        loaded.dls.one_batch()
    with loaded.no_bar(), pytest.raises(ArgumentError, match=r"no rows.*dl=learn.dls.test_dl"):
        loaded.get_preds()


def test_a_workflow_prepares_raw_tables_also_those_without_labels_and_after_export(paths):
    from fastai.learner import load_learner

    from rowmill import Workflow, ops

    train, valid = rowmill.Dataset(paths / "train"), rowmill.Dataset(paths / "valid")
    node = (["shop", "day"] >> ops.Categorify()) + (["x1"] >> ops.Normalize()) + ["label"]
    workflow = Workflow(node).fit(train)
    names = {"cats": ["shop", "day"], "conts": ["x1"], "labels": "label", "bs": 128, "path": paths}
    raw = dataloaders(train, valid, workflow=workflow, **names)
    made = dataloaders(workflow.transform(train), workflow.transform(valid), **names)
    for ours, theirs in zip(raw.train, made.train, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    learn = Learner(raw, TabularModel([(10, 4), (60, 4)], 1, 2, [16]), CrossEntropyLossFlat())
    unlabelled = table(300, 3).drop("label")
    with learn.no_bar(), learn.no_logging():
        learn.fit(1, 1e-2)
        expected, _ = learn.get_preds(dl=learn.dls.test_dl(unlabelled))
        wanted, _ = learn.get_preds(dl=learn.dls.test_dl(table(300, 3)))
        learn.export("raw.pkl")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = load_learner(paths / "raw.pkl")
        with loaded.no_bar():
            found, _ = loaded.get_preds(dl=loaded.dls.test_dl(unlabelled))
    assert torch.equal(expected, wanted) and torch.equal(found, wanted)
    assert "label" in workflow.output_schema  # the caller's workflow is as it was


def test_a_last_batch_of_one_row_is_dropped_for_batch_norm(tmp_path):
    frame = table(257, 1)
    dls = dataloaders(frame, frame, cats=["shop", "day"], conts=["x1"], labels="label", bs=128)
    assert (len(dls.train), len(dls.valid)) == (2, 3)
    with (learn := learner(dls)).no_bar(), learn.no_logging():
        learn.fit(1, 1e-3)
    kept = dataloaders(table(258, 1), frame, cats=["shop", "day"], conts=["x1"], labels="label", bs=128)
    assert len(kept.train) == 3


def test_labels_and_empty_groups(paths):
    data = rowmill.Dataset(paths / "train")
    x_cat, x_cont, y = Loader(data, 10, cats=[], conts=["x1", "x2"], labels=["x1"]).one_batch()
    assert (x_cat.shape, x_cont.shape, y.dtype) == ((10, 0), (10, 2), torch.float32)
    assert Loader(data, 10, cats=["shop"]).one_batch()[1].shape == (10, 0)
    assert Loader(data, 10, conts=["x1"], labels=["label", "x2"]).one_batch()[2].shape == (10, 2)
    assert Loader(data, 10, conts=["x1"], labels="x2", label_dtype="int64").one_batch()[2].dtype == torch.int64
    assert len(Loader(data, 10, conts=["x1"]).one_batch()) == 2


def test_what_cannot_be_meant_is_refused(paths):
    data = rowmill.Dataset(paths / "train")
    with pytest.raises(ColumnError, match="neither ids nor numbers"):
        Loader(data)
    with pytest.raises(ArgumentError, match="label_dtype"):
        Loader(data, conts=["x1"], label_dtype="int8")
    with pytest.raises(ArgumentError, match="did you mean 'shuffle'"):
        Loader(data, conts=["x1"]).new(shufle=True)
    lists = pl.DataFrame({"a": [[1], [2, 3]], "x": [1.0, 2.0]})
    with pytest.raises(ColumnError, match="list column"):
        Loader(lists, cats=["a"], conts=["x"])


def test_ranks_divide_the_rows(paths):
    parts = [loaders(paths, conts=["x2"], global_size=2, global_rank=rank) for rank in range(2)]
    assert len(parts[0].train) == len(parts[1].train) == 8
    assert sorted(int(x) for part in parts for _, x_cont, _ in part.train for x in x_cont[:, 0]) == list(range(2000))
