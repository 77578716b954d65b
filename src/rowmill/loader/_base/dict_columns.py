"""What a loader of dicts delivers: features, targets, and a weight for each row.

Comes in: a schema and names. Goes out: a `Selection` for the stream, and which column belongs to which part of a batch.
Called by the loaders of all frameworks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowmill.errors import ArgumentError, ColumnError, DtypeError, closest
from rowmill.feed.pack.selection import NULL_SUFFIX, Nulls, Selector
from rowmill.loader._base.arguments import named_or_tagged, names_of
from rowmill.loader._base.declared_shapes import DeclaredShapes
from rowmill.loader._base.options import DictOptions
from rowmill.schema import ColumnSchema, Schema, Tags


class DictColumns:
    """The columns of a batch `(features, target)` or `(features, target, weight)`, each in its own dtype.

    Targets of booleans, and weights, are float32. A mask of a target's nulls belongs to the targets.
    """

    def __init__(self, shapes: DeclaredShapes, options: DictOptions, *, narrow: bool = False) -> None:
        schema, columns, weight = shapes.schema, options["columns"], options["sample_weight"]
        self.targets = named_or_tagged(options["targets"], schema, Tags.TARGET)
        self.weight = weight_column(schema, weight, columns, self.targets)
        wanted = names_of(schema.column_names if columns is None else columns)
        self.features = [name for name in wanted if name not in self.targets and name != weight]
        if not self.features and not self.targets:
            raise ColumnError(
                "Neither Categorical or Continuous columns were found by the dataloader. "
                "Name some with columns=, or leave it out for all of them"
            )
        policy = feature_masks(options["nulls"], self.features, weight)
        names = [*self.features, *self.targets, *([] if weight is None else [weight])]
        selector = Selector(schema, policy, nested=shapes.nested)
        selector.check(names)
        shapes.check(names)
        floats = [name for name in self.targets if schema[name].dtype == "bool"]
        selector.native(names, narrow=narrow, floats=floats if weight is None else [*floats, weight])
        self.selection = selector.selection()
        self.columns = names
        masked = [name for name in names if isinstance(policy, Mapping) and policy.get(name) == "mask"]
        self.feature_masks = sorted(name + NULL_SUFFIX for name in masked if name in self.features)
        self.target_masks = [name + NULL_SUFFIX for name in masked if name in self.targets]
        self.sizes = {name: size for name, size in shapes.sizes.items() if name in names}
        self.order = [*self.features, *self.feature_masks, *self.targets, *self.target_masks]

    def split(self, found: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Features and target of a batch: None, one tensor, or a dict if there are several."""
        targets = {name: found.pop(name) for name in (*self.targets, *self.target_masks)}
        return found, targets if len(targets) > 1 else next(iter(targets.values()), None)


def weight_column(
    schema: Schema, name: str | None, columns: Sequence[str] | None, targets: Sequence[str]
) -> str | None:
    """The column of `sample_weight`, if it can weigh rows in a loss."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise ArgumentError(f"sample_weight={name!r}; wanted the name of one column")
    if name not in schema:
        raise ColumnError(f"sample_weight={name!r} is no column{closest(name, schema.column_names)}")
    if name in targets or (columns is not None and name in columns):
        raise ColumnError(f"column {name!r} is sample_weight, and a feature or target too; wanted one of the two")
    _check_number(schema[name])
    return name


def _check_number(spec: ColumnSchema) -> None:
    if spec.is_list or not spec.dtype.startswith(("int", "uint", "float", "bool")):
        kind = f"list of {spec.dtype}" if spec.is_list else spec.dtype
        raise DtypeError(f"sample_weight column {spec.name!r} is {kind}; wanted one number a row")


def feature_masks(nulls: Nulls, features: Sequence[str], weight: str | None = None) -> Nulls:
    """`nulls="mask"` for all is for all features: what is missing of a target is nothing to learn from."""
    if isinstance(nulls, Mapping) and weight is not None and nulls.get(weight) == "mask":
        raise ArgumentError(f"nulls='mask' for sample_weight column {weight!r}; wanted a number, such as 0")
    return dict.fromkeys(features, "mask") if isinstance(nulls, str) and nulls == "mask" else nulls
