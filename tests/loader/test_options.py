"""The settings of every loader: names and defaults written out, a wrong name refused, and their documentation."""

import inspect
import pydoc

import pytest

import rowmill
from rowmill.loader import numpy as numpy_loader
from rowmill.loader import torch as torch_loader
from rowmill.loader._base import options as shared
from rowmill.loader._keras import loaders as keras_loaders

NEEDED = inspect.Parameter.empty

STREAM = {"seed": 0, "memory": "auto", "threads": None, "nulls": "error", "weights": None, "balance": None,
          "cache": None, "cache_size": None, "workflow": None}  # fmt: skip
BATCH = {**STREAM, "pad": None, "sample_weight": None, "last": "short", "elastic": None}
DICT = {**BATCH, "columns": None, "targets": None}
SPARSE = {"sparse_names": None, "sparse_max": None, "sparse_as_dense": False}
KERAS = {"lists": None, "workers": 1, "use_multiprocessing": False, "max_queue_size": 10}
MERLIN = {"dataset": NEEDED, "batch_size": 65_536, "shuffle": False, "seed_fn": None, "parts_per_chunk": 1,
          "global_size": None, "global_rank": None, "drop_last": False, "transforms": None}  # fmt: skip

POSITIONAL = {
    "TorchAsyncItr": {
        "dataset": NEEDED, "cats": None, "conts": None, "labels": None, "batch_size": 1, "shuffle": False,
        "seed_fn": None, "parts_per_chunk": 1, "device": None, "global_size": None, "global_rank": None,
        "drop_last": False, **SPARSE,
    },
    "torch": {**MERLIN, "device": None},
    "numpy": {**MERLIN, "device": None},
    "jax": MERLIN,
    "fastai": {"dataset": NEEDED, "batch_size": 1024},
    "sequence": {
        "paths_or_dataset": NEEDED, "batch_size": NEEDED, "label_names": None, "feature_columns": None,
        "cat_names": None, "cont_names": None, "engine": None, "shuffle": True, "seed_fn": None, "buffer_size": None,
        "device": None, "parts_per_chunk": 1, "reader_kwargs": None, "global_size": None, "global_rank": None,
        "drop_last": False, **SPARSE, "schema": None,
    },
    "dict": {**MERLIN, "device": None},
}  # fmt: skip
KEYWORDS = {
    "TorchAsyncItr": {**BATCH, "index_dtype": "int64"},
    "torch": {**DICT, **SPARSE, "batch_format": "tuple"},
    "numpy": {**DICT, "batch_format": "dict"},
    "jax": {**DICT, **SPARSE, "sparse_as_dense": True, "last": None, "sharding": None},
    "fastai": {**STREAM, "cats": None, "conts": None, "labels": None, "label_dtype": None, "shuffle": False,
               "drop_last": False, "seed_fn": None, "parts_per_chunk": 1, "device": None, "global_size": None,
               "global_rank": None},
    "sequence": {**BATCH, **KERAS, "memory": None, "index_dtype": "int64"},
    "dict": {**DICT, **SPARSE, **KERAS},
}  # fmt: skip


def loader_class(name):
    if name == "jax":
        return pytest.importorskip("rowmill.loader.jax").Loader
    if name == "fastai":
        return pytest.importorskip("rowmill.loader.fastai").Loader
    return {
        "TorchAsyncItr": torch_loader.TorchAsyncItr,
        "torch": torch_loader.Loader,
        "numpy": numpy_loader.Loader,
        "sequence": keras_loaders.SequenceLoader,
        "dict": keras_loaders.DictLoader,
    }[name]


def defaults(parameters, kind):
    return {p.name: p.default for p in parameters if p.kind is kind}


@pytest.mark.parametrize("name", POSITIONAL)
def test_names_and_defaults(name):
    parameters = list(inspect.signature(loader_class(name)).parameters.values())
    positional = defaults(parameters, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    assert list(positional.items()) == list(POSITIONAL[name].items())
    assert defaults(parameters, inspect.Parameter.KEYWORD_ONLY) == KEYWORDS[name]
    assert len(parameters) == len(positional) + len(KEYWORDS[name]), "no *args and no **options"


@pytest.mark.parametrize("name", POSITIONAL)
def test_every_parameter_has_a_type(name):
    for parameter in inspect.signature(loader_class(name)).parameters.values():
        assert parameter.annotation is not NEEDED and not isinstance(parameter.annotation, str), parameter.name


@pytest.mark.parametrize("name", POSITIONAL)
def test_help_shows_and_explains_every_setting(name):
    text = pydoc.plain(pydoc.render_doc(loader_class(name)))
    for parameter, default in KEYWORDS[name].items():
        assert f"{parameter}:" in text and f"= {default!r}" in text
    for parameter in set(KEYWORDS[name]) & set(shared.DEFAULTS):
        assert f"`{parameter}`: {shared.DOCS[parameter][:40]}" in text


def test_every_option_has_a_default_and_a_sentence():
    assert set(shared.DOCS) == set(shared.DEFAULTS)
    for name, text in shared.DOCS.items():
        assert len(text) > 20 and text.endswith(".") and text[0].isupper(), f"{name}: {text!r}"


@pytest.mark.parametrize("name", POSITIONAL)
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("thread", r"'thread'; did you mean 'threads'\?"),
        ("batchsize", r"'batchsize'; did you mean 'batch_size'\?"),
        ("zzz", "'zzz'$"),
    ],
)
def test_an_unknown_setting_is_named(name, wrong, says):
    loader = loader_class(name)
    with pytest.raises(TypeError, match=rf"{loader.__name__}\(\) got an unexpected keyword argument {says}"):
        loader({"a": [1]}, batch_size=1, **{wrong: 1})


def test_too_many_and_repeated_arguments_are_refused():
    with pytest.raises(TypeError, match="positional argument"):
        numpy_loader.Loader({"a": [1]}, *range(10))
    with pytest.raises(TypeError, match="batch_size"):
        numpy_loader.Loader({"a": [1]}, 1, batch_size=1)
    with pytest.raises(TypeError, match="dataset"):
        numpy_loader.Loader(batch_size=1)


def test_a_subclass_passes_settings_on_and_its_name_is_in_the_error():
    class Mine(torch_loader.Loader):
        def __init__(self, *args, **settings):
            super().__init__(*args, **settings)

    assert len(Mine(rowmill.Dataset({"a": [1, 2, 3]}), 2, seed=3)) == 2
    with pytest.raises(TypeError, match=r"Mine\(\) got an unexpected keyword argument 'sede'; did you mean 'seed'"):
        Mine({"a": [1]}, sede=3)
