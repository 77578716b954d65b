"""Batches for a fastai `Learner`: `dataloaders(train, valid)`, and the `Loader` that they are made of.

Comes in: tables with ids, numbers and labels. Goes out: `(x_cat, x_cont, y)` as `TabularModel` takes them, and all that
a `Learner` calls: `one_batch`, `new`, `to`, `show_batch`, `test_dl`, `export`. Called by users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack

import polars as pl

try:
    import torch
    from fastai.data.core import DataLoaders
    from fastai.torch_core import display_df
except ImportError as error:
    raise ImportError(
        "rowmill.loader.fastai needs fastai; pip install 'rowmill[fastai]', then pip install --no-deps fastai"
    ) from error

from rowmill.dataset import Dataset
from rowmill.errors import ArgumentError, ColumnError, closest
from rowmill.feed.memory.block import Batch
from rowmill.feed.order.weighted_sampling import Weights
from rowmill.feed.pack.selection import Selector
from rowmill.feed.run.stream import Shuffle
from rowmill.loader._base.arguments import given_ranks, last_batch, named_or_tagged, opened, torch_process_group
from rowmill.loader._base.init_arguments import with_options
from rowmill.loader._base.open_stream import open_stream
from rowmill.loader._base.options import FastaiOptions
from rowmill.loader._torch.cuda import as_tensor
from rowmill.loader._torch.torch_loader import TorchStream
from rowmill.schema import Tags

__all__ = ["Loader", "Loaders", "dataloaders"]

LabelDtype = Literal["int64", "float32"]

# What fastai passes to `new` and what means nothing here: rows are read by threads, and order is not made of indices.
_MEANINGLESS = frozenset({"num_workers", "pin_memory", "persistent_workers", "verbose", "do_setup", "rm_type_tfms",
                          "with_labels", "process", "inplace"})  # fmt: skip


class Loader(TorchStream):
    """Batches `(x_cat, x_cont, y)`: int64 `[N, C]`, float32 `[N, D]`, and labels `[N]` (`[N, K]` for K labels).

    Columns of each group stand in lexicographic order (`cat_names`, `cont_names`, `label_names` say it), as
    `get_embedding_sizes` lists them. A group without columns is `[N, 0]`, and without labels a batch is
    `(x_cat, x_cont)`. Groups not given are taken from the schema's tags. Labels are int64 where all of them are whole
    numbers in the table, as `CrossEntropyLoss` wants them, else float32; `label_dtype` decides otherwise. With a
    fitted `workflow` the table is a raw one; so are tables for `new` and `test_dl`, which may lack the labels.
    """

    n_inp = 2  # what fastai gives to the model; the rest of a batch goes to the loss

    @with_options()
    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1024,
        *,
        cats: Sequence[str] | None = None,
        conts: Sequence[str] | None = None,
        labels: str | Sequence[str] | None = None,
        label_dtype: LabelDtype | None = None,
        **options: Unpack[FastaiOptions],
    ) -> None:
        self._given = _table(dataset)
        table = opened(self._given, options["workflow"])
        schema = table.schema
        self.cat_names = sorted(named_or_tagged(cats, schema, Tags.CATEGORICAL))
        self.cont_names = sorted(named_or_tagged(conts, schema, Tags.CONTINUOUS))
        self.label_names = sorted(named_or_tagged(labels, schema, Tags.TARGET))
        if not self.cat_names and not self.cont_names:
            raise ColumnError(
                "found neither ids nor numbers; name them with cats= and conts=, or tag them in the schema"
            )
        if label_dtype not in (None, "int64", "float32"):
            raise ArgumentError(f"label_dtype={label_dtype!r}; wanted 'int64', 'float32' or None")
        whole = all(schema[name].dtype.startswith(("int", "uint", "bool")) for name in self.label_names)
        self.label_dtype: LabelDtype = label_dtype or ("int64" if whole else "float32")
        selector = Selector(schema, options["nulls"], masks=False)
        selector.matrix("cats", self.cat_names, "int64", integers=True)
        selector.matrix("conts", self.cont_names, "float32")
        selector.matrix("labels", self.label_names, "int64" if whole else "float32")
        selection = selector.selection()
        if selection.layout.ragged:
            raise ColumnError(
                f"column {selection.layout.ragged[0]!r} is a list column, and TabularModel takes one value a row; "
                f"leave it out, or use rowmill.loader.torch with a model of your own"
            )
        self._names = [matrix.name for matrix in selection.layout.matrices]
        stream = open_stream(
            table,
            selection,
            options,
            batch_size=batch_size,
            shuffle=options["shuffle"],
            seed_fn=options["seed_fn"],
            parts_per_chunk=options["parts_per_chunk"],
            ranks=given_ranks(options["global_size"], options["global_rank"], torch_process_group),
            last=last_batch(None, options["drop_last"]),
        )
        super().__init__(table, stream, options["device"])
        self.is_stripped = False  # of its rows, to be exported
        self._settings: dict[str, Any] = {
            **options,
            "batch_size": batch_size,
            "cats": self.cat_names,
            "conts": self.cont_names,
            "labels": self.label_names,
            "label_dtype": self.label_dtype,
        }
        del self._settings["device"]  # it can be changed by `to`

    def __iter__(self) -> Iterator[Any]:
        """A new epoch (or the rest of one, after `load_state_dict`), independent of any other iterator."""
        if self.is_stripped:
            raise ArgumentError(
                "an exported Learner keeps no rows; wanted a table; pass it as dl=learn.dls.test_dl(table)"
            )
        return super().__iter__()

    def _tensors(self, batch: Batch) -> tuple[torch.Tensor, ...]:
        found = dict(zip(self._names, map(as_tensor, batch.matrices), strict=True))
        x_cat, x_cont = found.get("cats"), found.get("conts")
        inputs = (
            torch.empty((batch.rows, 0), dtype=torch.int64) if x_cat is None else x_cat,
            torch.empty((batch.rows, 0)) if x_cont is None else x_cont,
        )
        if "labels" not in found:
            return inputs
        y = found["labels"].to(getattr(torch, self.label_dtype))
        return (*inputs, y.squeeze(1) if len(self.label_names) == 1 else y)

    @property
    def bs(self) -> int:
        return self.batch_size

    @property
    def n(self) -> int:
        """Rows of the table."""
        return sum(fragment.rows for fragment in self._stream.fragments)

    def to(self, device: Any) -> Loader:
        """Let batches come on this device."""
        self.device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        return self

    def one_batch(self) -> Any:
        """The first batch of the next epoch, which still begins with it."""
        if not len(self):
            raise ArgumentError(
                "one_batch() of a loader without batches; wanted rows; give it a table with new(dataset)"
            )
        return self.peek()

    def new(self, dataset: Any = None, **changes: Any) -> Loader:
        """A loader with the same settings but for these, over this table or another.

        Another table may lack the labels, and may be anything that `Dataset` takes, or a list of rows as dicts.
        """
        if "bs" in changes:
            changes["batch_size"] = changes.pop("bs")
        device = changes.pop("device", self.device)
        changes = {name: value for name, value in changes.items() if name not in _MEANINGLESS}
        for name in changes:
            if name not in self._settings:
                raise ArgumentError(
                    f"new() of a loader knows no {name!r}; wanted some of {sorted(self._settings)}"
                    f"{closest(name, self._settings)}"
                )
        table, settings = self._given, {**self._settings, **changes}
        if dataset is not None:
            table = _table(dataset)
            lacking = [name for name in settings["labels"] if name not in table.schema]
            settings["labels"] = [name for name in settings["labels"] if name not in lacking]
            if lacking and settings["workflow"] is not None:
                settings["workflow"] = copy(settings["workflow"]).remove_inputs(lacking)
            if "cache" not in changes:  # it would keep a table that is looked at once
                settings["cache"] = None
        made = Loader(table, device=device, **settings)
        made.is_stripped = self.is_stripped and dataset is None
        return made

    def decode_batch(self, batch: Sequence[Any], max_n: int = 9) -> list[tuple[Any, ...]]:
        """The first rows of a batch, each a tuple of tensors. Ids stay ids: the workflow knows what they stand for."""
        rows = min(max_n, len(batch[0]))
        return [tuple(part[row] for part in batch) for row in range(rows)]

    def show_batch(self, b: Sequence[Any] | None = None, max_n: int = 9) -> None:
        """Show the first rows of a batch as a table."""
        display_df(self._frame(self.one_batch() if b is None else b, max_n).to_pandas())

    def show_results(self, b: Sequence[Any], out: Any, max_n: int = 9) -> None:
        """Show the first rows of a batch beside what the model made of them."""
        frame = self._frame(b, max_n)
        predicted = out[0] if isinstance(out, tuple | list) else out
        columns = torch.as_tensor(predicted)[: frame.height].cpu().reshape(frame.height, -1)
        names = [f"{name}_pred" for name in self.label_names]
        if columns.shape[1] != len(names):
            names = [f"pred_{i}" for i in range(columns.shape[1])]
        display_df(frame.hstack(pl.DataFrame(columns.numpy(), schema=names)).to_pandas())

    def _frame(self, batch: Sequence[Any], rows: int) -> pl.DataFrame:
        groups = zip((self.cat_names, self.cont_names, self.label_names), batch, strict=False)
        frames = [
            pl.DataFrame(part[:rows].cpu().reshape(-1, len(names)).numpy(), schema=names)
            for names, part in groups
            if names
        ]
        return pl.concat(frames, how="horizontal")


class Loaders(DataLoaders):
    """fastai's `DataLoaders` of a training and a validation loader."""

    def new_empty(self) -> Loaders:
        """These loaders without their rows: what `Learner.export` keeps."""
        empty = [loader.new(Dataset(loader._given.empty(), schema=loader._given.schema)) for loader in self.loaders]
        for loader in empty:
            loader.is_stripped = True
        return type(self)(*empty, path=self.path, device=self.device)

    def test_dl(self, test_items: Any, **changes: Any) -> Loader:
        """A loader of another table, in its own order, with or without labels: for `Learner.get_preds(dl=...)`."""
        loader: Loader = self.valid.new(test_items, **changes)
        return loader


def dataloaders(
    train: Any,
    valid: Any,
    *,
    bs: int = 1024,
    val_bs: int | None = None,
    shuffle: Shuffle = True,
    drop_last: bool | None = None,
    weights: Weights | None = None,
    balance: str | None = None,
    path: str | PathLike[str] = ".",
    device: Any = None,
    **settings: Any,
) -> Loaders:
    """What a `Learner` takes: shuffled batches of `train`, and `valid` in its own order.

    `train` and `valid`: datasets, or anything that `Dataset` takes. `drop_last=None` drops the last training batch only
    if it is a single row, on which BatchNorm fails. `settings`: those of `Loader`, for both. `path`: fastai's.
    """
    given = _table(train)
    if "batch_size" in settings:
        raise ArgumentError("batch_size= was given; wanted bs= (and val_bs=), as fastai calls it")
    settings["device"] = device
    loader = Loader(given, bs, shuffle=shuffle, drop_last=bool(drop_last), weights=weights, balance=balance, **settings)
    if drop_last is None and 0 < loader.n % (bs * loader.global_size) <= loader.global_size:
        loader = loader.new(drop_last=True)
    names = {"cats": loader.cat_names, "conts": loader.cont_names, "labels": loader.label_names}
    held_out = Loader(valid, val_bs or bs, **{**settings, **names, "label_dtype": loader.label_dtype})
    return Loaders(loader, held_out, path=Path(path), device=loader.device)


def _table(given: Any) -> Dataset:
    if isinstance(given, Dataset):
        return given
    if isinstance(given, Sequence) and given and all(hasattr(row, "items") for row in given):  # dicts, pandas' Series
        return Dataset(pl.DataFrame([dict(row.items()) for row in given]))
    return Dataset(given)
