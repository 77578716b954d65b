"""The settings that loaders share, each with its type, its default and its documentation in one place.

A loader writes `**options: Unpack[DictOptions]` and decorates its `__init__` with `with_options`, which turns the
settings into parameters that `help()` shows. Called by all loaders.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict

from rowmill.feed.order.plan import Last
from rowmill.feed.order.weighted_sampling import Weights
from rowmill.feed.pack.selection import Nulls
from rowmill.feed.run.stream import Shuffle
from rowmill.loader._base.arguments import Prepares


class StreamOptions(TypedDict, total=False):
    """Settings of every loader: the order of rows, and how they are read."""

    seed: int
    """Decides the order of rows, together with the epoch. No global random generator is used or changed."""
    memory: int | float | str
    """Bounds everything between the files and the training loop: bytes, a size ("2GB"), a fraction of this machine's
    memory (0.25), or "auto": what all cores need, at most a quarter of the machine's memory."""
    threads: int | None
    """How many threads decode and pack rows. None: one per core."""
    nulls: Nulls
    """What becomes of nulls: "error", a fill value, or a dict of these by column. Loaders of dicts also take "mask": a
    bool feature `name__null` beside each feature. The mask of a target has to be asked for by the target's name; it
    makes the target a dict of the two."""
    weights: Weights | None
    """Rows are drawn as often as their weights say: a column of numbers, or a function `f(first_row, rows)` that gives
    the weights of a run of rows."""
    balance: str | None
    """Rows are drawn so that all values of this column come equally often."""
    cache: str | PathLike[str] | None
    """A folder, or "auto", in which the first epoch stores packed rows for the later ones."""
    cache_size: int | float | str | None
    """The size up to which the cache folder may grow; what was not used for longest is removed first."""
    workflow: Prepares | None
    """A fitted workflow. The reading threads apply it to the raw table, so that no prepared copy is written."""


class EpochOptions(TypedDict, total=False):
    """Settings of an epoch: by position where NVTabular's users know them so, by keyword in fastai's loader."""

    shuffle: Shuffle
    """False: the order of the table. True: rows are shuffled within chunks as large as `memory` allows, and the chunks
    are made of randomly chosen parts of the table. "full": a uniform shuffle of all rows, which needs `cache`."""
    seed_fn: Callable[[], int] | None
    """Called once an epoch; what it returns takes the place of `seed`."""
    parts_per_chunk: int
    """How many partitions of the dataset's `part_size` are shuffled together, if the dataset has one."""
    global_size: int | None
    """The number of ranks that share an epoch. None: as the process group of PyTorch or JAX has it when an epoch
    begins, else 1."""
    global_rank: int | None
    """The number of this rank, from 0. Given together with `global_size`."""
    drop_last: bool
    """Leaves out an incomplete last batch."""
    device: Any
    """Where tensors are put. None: a GPU if the framework sees one, else the CPU."""


class BatchOptions(StreamOptions, total=False):
    """Settings of all loaders but fastai's: lists, weights of rows, and the end of an epoch."""

    pad: Mapping[str, int] | None
    """The length by list column, such as `{"genres": 20}`: these come as dense tensors `[N, 20]`, padded with zeros."""
    sample_weight: str | None
    """A column whose float32 values are one more part of each batch, `[N]`, to weigh rows in the loss. Padding rows
    weigh 0."""
    last: Last
    """What becomes of an incomplete last batch: "short" delivers it, "drop" leaves it out, "pad" fills it up with
    padding rows and marks these."""
    elastic: int | None
    """A number of lanes, such as 24: global batches have the same rows for any number of ranks that divides it, so that
    a saved position can be resumed with another number of ranks."""


class MatrixOptions(BatchOptions, total=False):
    """Settings of loaders that deliver ids, numbers and labels as groups of columns."""

    index_dtype: Any
    """The dtype of ids. "int32" halves their bytes; ids that do not fit are an error."""


class DictOptions(BatchOptions, total=False):
    """Settings of loaders whose batch is a dict of features and a target."""

    columns: Sequence[str] | None
    """The features, in this order. None: all columns of the schema but the targets."""
    targets: str | Sequence[str] | None
    """The columns of the target: None, a tensor, or a dict if there are several. By default those that the schema tags
    TARGET. Booleans become float32, which losses take."""


class SparseOptions(TypedDict, total=False):
    """NVTabular's settings of list columns; `pad` says the same in one."""

    sparse_names: Sequence[str] | None
    """List columns that come as sparse tensors `[N, sparse_max[name]]`."""
    sparse_max: Mapping[str, int] | None
    """The most values a row may have, for each column of `sparse_names`."""
    sparse_as_dense: bool
    """Delivers the columns of `sparse_names` as dense tensors, padded with zeros."""


class SparseDictOptions(DictOptions, SparseOptions, total=False):
    """Settings of loaders of dicts whose list columns can be sparse tensors."""


class KerasOptions(TypedDict, total=False):
    """Settings of loaders that are datasets of Keras."""

    lists: str | None
    """How list columns come that are not padded: "offsets" (`name__values` and `name__offsets`), or "ragged" (a
    `RaggedTensor` of TensorFlow). None: what the loader's documentation says."""
    workers: int
    """Accepted for Keras, without effect: rows are read by threads of the loader."""
    use_multiprocessing: bool
    """Accepted for Keras, without effect: rows are read by threads of the loader."""
    max_queue_size: int
    """Accepted for Keras, without effect: `memory` bounds what is read in advance."""


class KerasSequenceOptions(MatrixOptions, KerasOptions, total=False):
    """Settings of `KerasSequenceLoader`."""


class KerasDictOptions(SparseDictOptions, KerasOptions, total=False):
    """Settings of the Keras `Loader`."""


class FastaiOptions(StreamOptions, EpochOptions, total=False):
    """Settings of the fastai `Loader`."""


class _AllOptions(KerasSequenceOptions, KerasDictOptions, EpochOptions, total=False):
    """Every setting, so that the defaults are checked against the types."""


DEFAULTS: _AllOptions = {
    "seed": 0,
    "memory": "auto",
    "threads": None,
    "nulls": "error",
    "weights": None,
    "balance": None,
    "cache": None,
    "cache_size": None,
    "workflow": None,
    "shuffle": False,
    "seed_fn": None,
    "parts_per_chunk": 1,
    "global_size": None,
    "global_rank": None,
    "drop_last": False,
    "device": None,
    "pad": None,
    "sample_weight": None,
    "last": "short",
    "elastic": None,
    "index_dtype": "int64",
    "columns": None,
    "targets": None,
    "sparse_names": None,
    "sparse_max": None,
    "sparse_as_dense": False,
    "lists": None,
    "workers": 1,
    "use_multiprocessing": False,
    "max_queue_size": 10,
}


def _docs() -> dict[str, str]:
    """The documentation of each setting: the string after it in this file. Empty where no source is installed."""
    try:
        module = ast.parse(Path(__file__).read_text("utf-8"))
    except OSError:
        return {}
    found = {}
    for body in (node.body for node in module.body if isinstance(node, ast.ClassDef)):
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found


DOCS = _docs()
