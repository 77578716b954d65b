"""Embeddings with rows for new categories: `grow_embedding` and `grow_embeddings` of `rowmill.loader.keras`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from rowmill.errors import ArgumentError
from rowmill.loader._base.new_rows import with_rows


def grow_embedding(layer: Any, rows: int, *, seed: int = 0) -> Any:
    """A new `keras.layers.Embedding` with the trained rows of `layer` and rows for new categories.

    `rows`: how many it has, as `workflow.update()` tells. New rows are drawn with the mean and standard deviation of
    the others, by `seed`.
    """
    if not isinstance(layer, keras.layers.Embedding) or not layer.built:
        raise ArgumentError(f"found {type(layer).__name__}; wanted a keras.layers.Embedding that has been built")
    trained = with_rows(keras.ops.convert_to_numpy(layer.embeddings), rows, seed)
    grown = type(layer).from_config({**layer.get_config(), "input_dim": len(trained)})
    grown.build()
    grown.embeddings.assign(trained)
    return grown


def grow_embeddings(model: Any, rows: Mapping[str, int], *, seed: int = 0) -> Any:
    """A new functional or sequential model with all weights of `model`, some of whose embeddings have more rows.

    `rows`: for the name of each such layer, how many rows it has. Compile the new model; its optimizer begins anew.
    """
    known = {layer.name: layer for layer in model.layers}
    for name in rows:
        if name not in known:
            raise ArgumentError(f"the model has no layer {name!r}; it has {', '.join(known)}")
    grown = {name: grow_embedding(known[name], count, seed=seed) for name, count in rows.items()}

    def copied(layer: Any) -> Any:
        return grown[layer.name] if layer.name in grown else type(layer).from_config(layer.get_config())

    made = keras.models.clone_model(model, clone_function=copied)
    for layer in made.layers:
        if layer.name not in grown:
            layer.set_weights(known[layer.name].get_weights())
    return made
