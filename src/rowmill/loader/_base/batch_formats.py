"""Batch formats, whatever the framework: which columns a batch has, in which shapes and dtypes.

`SequenceBatches` is the format of `KerasSequenceLoader`, `DictBatches` that of every `Loader`. Comes in: a schema,
names and settings. Goes out: a `Selection` for the stream, and a function from `Batch` to tensors. Called by the
loaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rowmill.errors import ColumnError
from rowmill.feed.memory.block import Batch
from rowmill.feed.pack.selection import Nulls, Selector
from rowmill.loader import feature_columns as fc
from rowmill.loader._base.arguments import MASK, named_or_tagged
from rowmill.loader._base.declared_shapes import DeclaredShapes
from rowmill.loader._base.dict_columns import DictColumns, weight_column
from rowmill.loader._base.lists import Lists, check_made_names
from rowmill.loader._base.options import DictOptions
from rowmill.loader._base.tensors import Tensors
from rowmill.schema import Schema, Tags

_STRINGS = ("string", "binary", "categorical", "enum")


class SequenceBatches:
    """`(features, labels)`: a dict of tensors `[N, 1]`, ids as integers, numbers and labels as float32.

    Lists of fixed length are `[N, width]`, other lists and strings as the framework has them. One label is `[N, 1]`,
    several are a tuple of these, none is None. A third part `[N]` weighs rows: by the column `weight`, and with 0 where
    batches are padded.
    """

    def __init__(
        self,
        shapes: DeclaredShapes,
        columns: fc.Inputs,
        labels: Sequence[str],
        *,
        nulls: Nulls,
        index_dtype: Any,
        narrow: bool,
        padded: bool,
        weight: str | None = None,
    ) -> None:
        schema, names = shapes.schema, (*columns.cats, *columns.conts)
        self.weight = weight_column(schema, weight, names, labels)
        self.cat_names, self.cont_names, self.label_names = list(columns.cats), list(columns.conts), list(labels)
        self._padded = padded
        selector = Selector(schema, nulls, masks=False, nested=shapes.nested)
        selector.check([*self.cat_names, *self.cont_names, *self.label_names])
        shapes.check([*self.cat_names, *self.cont_names, *self.label_names])
        strings = [name for name in self.cat_names if schema[name].dtype in _STRINGS and not schema[name].is_list]
        numbers = [name for name in self.cat_names if name not in strings]
        for name in self.label_names:
            if schema[name].is_list:
                raise ColumnError(f"label {name!r} is a list column; wanted one number a row")
        selector.matrix("cats", numbers, index_dtype, integers=True, wide=True, narrow=narrow)
        selector.matrix("conts", self.cont_names, "float32", wide=True)
        selector.native(strings)
        selector.matrix("labels", self.label_names, "float32")
        selector.native([] if weight is None else [weight], floats=[] if weight is None else [weight])
        self.selection = selector.selection()
        self._label_columns = next((m.columns for m in self.selection.layout.matrices if m.name == "labels"), ())
        self._sizes = {name: size for name, size in shapes.sizes.items() if name in names}
        self._shapes = _checked_shapes(schema, columns.shapes)
        self._names = (*self.cat_names, *self.cont_names)

    def attach(self, make: Tensors, lists: Lists) -> None:
        """Say how tensors are made. Called once, when the layout of the stream is known."""
        self._make, self._lists = make, lists
        check_made_names(self._names, lists.as_offsets(self.selection.layout.ragged))

    def tensors(self, batch: Batch, make: Tensors | None = None) -> tuple[Any, ...]:
        """The batch in this format, as tensors of the framework, or as `make` makes them."""
        make = make or self._make
        found = make.columns(batch)
        labels = tuple(found[name] for name in self._label_columns)
        features: dict[str, Any] = {}
        for name in self._names:
            if name in found:
                features[name] = found[name]
            elif name in batch.ragged:
                features.update(self._lists.tensors(name, batch.ragged[name], make, batch.padding))
            else:
                features[name] = make.strings(name, batch.objects[name])
        for name, size in self._sizes.items():
            features[name] = make.shaped(features[name], (-1, *size))
        for name, shape in self._shapes.items():
            if name in found:  # lists of any length have no shape to be brought to
                features[name] = make.shaped(found[name], (-1, *shape))
        targets = labels if len(labels) > 1 else next(iter(labels), None)
        if self.weight is not None:
            return features, targets, make.shaped(found[self.weight], (-1,))  # the feed pads with zeros
        if self._padded:
            return features, targets, make.rows(_mask(batch).astype(np.float32))
        return features, targets


class DictBatches:
    """`(features, target)`: a dict of tensors `[N]`, each column in its own dtype and in the order given.

    List columns come as `name__values` and `name__offsets` (`N + 1` of them), lists of fixed length as `[N, length]`.
    The target is None, a tensor, or a dict if there are several. Padded batches have a bool feature `__mask`. With
    `weight` there is a third part: a float32 tensor `[N]`, in which padding weighs 0.
    """

    def __init__(
        self,
        shapes: DeclaredShapes,
        options: DictOptions,
        *,
        narrow: bool = False,
        padded: bool = False,
    ) -> None:
        self._chosen = DictColumns(shapes, options, narrow=narrow)
        self.feature_names, self.target_names = self._chosen.features, self._chosen.targets
        self._padded = padded
        self.weight = self._chosen.weight
        self.selection = self._chosen.selection
        self.columns = self._chosen.columns

    def attach(self, make: Tensors, lists: Lists) -> None:
        """Say how tensors are made. Called once, when the layout of the stream is known."""
        self._make, self._lists = make, lists
        self.offset_columns = ragged = lists.as_offsets(self.selection.layout.ragged)
        check_made_names(self._chosen.order, ragged, MASK if self._padded else None, self.target_names)

    def tensors(self, batch: Batch, make: Tensors | None = None) -> tuple[Any, ...]:
        """The batch in this format, as tensors of the framework, or as `make` makes them."""
        make = make or self._make
        found = make.columns(batch)
        features: dict[str, Any] = {}
        for name in self._chosen.order:
            if name in found:
                features[name] = found[name]
            elif name in batch.ragged:
                features.update(self._lists.tensors(name, batch.ragged[name], make, batch.padding))
            else:
                features[name] = make.strings(name, batch.objects[name])
        for name, size in self._chosen.sizes.items():
            features[name] = make.shaped(features[name], (-1, *size))
        features, target = self._chosen.split(features)
        if self._padded:
            features[MASK] = found[MASK] if MASK in found else make.rows(_mask(batch))
        if self.weight is not None:
            return features, target, found[self.weight]
        return features, target


def chosen_inputs(schema: Schema, columns: Any, cats: Sequence[str] | None, conts: Sequence[str] | None) -> fc.Inputs:
    """What a `KerasSequenceLoader` reads: feature columns, or names, or what the schema's tags say."""
    if columns is not None:
        if cats is not None or conts is not None:
            raise ColumnError("feature_columns and cat_names or cont_names are given; wanted one of the two")
        return fc.inputs(fc.parse(columns))
    found = named_or_tagged(cats, schema, Tags.CATEGORICAL), named_or_tagged(conts, schema, Tags.CONTINUOUS)
    if not any(found):
        raise ColumnError(
            "Neither Categorical or Continuous columns were found by the dataloader. "
            "Pass feature_columns=, or cat_names= and cont_names=, or tag them in the dataset's schema"
        )
    if both := set(found[0]) & set(found[1]):
        raise ColumnError(f"{min(both)!r} is in cat_names and in cont_names; wanted one of the two")
    return fc.Inputs(tuple(found[0]), tuple(found[1]), {})


def _checked_shapes(schema: Schema, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Shapes of more than one dimension, to which columns have to be brought; all are compared with the table."""
    for name, shape in shapes.items():
        spec, size = schema[name], int(np.prod(shape))
        width = spec.width if spec.is_list else 1
        if width is not None and width != size:
            raise ColumnError(
                f"numeric_column {name!r} has shape {shape}, and the table has {width} values a row; wanted "
                f"numeric_column({name!r}, ({width},))"
            )
    return {name: shape for name, shape in shapes.items() if len(shape) > 1}


def _mask(batch: Batch) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """True for real rows, False for padding rows."""
    return np.arange(batch.rows) < batch.rows - batch.padding
