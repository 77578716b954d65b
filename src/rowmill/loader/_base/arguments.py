"""Arguments as users write them, checked and normalised: the table, names of columns, ranks, transforms. Called by all
loaders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

from rowmill.dataset import Dataset
from rowmill.errors import ArgumentError, ColumnError
from rowmill.feed.order.plan import Last
from rowmill.feed.order.ranks import Ranks, fixed_ranks
from rowmill.schema import Schema, Tags

MASK = "__mask"  # with last="pad": which rows of a batch are real
ONE_RANK = fixed_ranks(1, 0)


class Prepares(Protocol):
    """What a loader needs of a workflow."""

    def transform(self, data: Any) -> Any: ...


def opened(
    source: Any,
    workflow: Prepares | None,
    *,
    engine: str | None = None,
    reader_kwargs: Mapping[str, Any] | None = None,
    schema: Schema | None = None,
) -> Any:
    """The table to load: a dataset as it is, or one of whatever `Dataset` takes, as the workflow makes it.

    The workflow is applied in the reading threads, fragment by fragment.
    """
    if hasattr(source, "source") and hasattr(source, "part_bytes"):
        table = source  # `engine` and `reader_kwargs` are for files
    else:
        table = Dataset(source, engine, **dict(reader_kwargs or {}))
    if schema is not None:
        if not hasattr(table, "with_schema"):
            raise ColumnError(f"schema= given with a {type(table).__name__}; wanted a Dataset or paths")
        table = table.with_schema(schema)
    if workflow is None:
        return table
    if not hasattr(workflow, "transform"):
        raise ArgumentError(f"workflow={workflow!r}; wanted a Workflow; load a saved one with Workflow.load(path)")
    return workflow.transform(table)


def extended(table: Any, more: Any) -> Dataset:
    """A loader's table with the rows of another dataset: the whole table if those are the rows added to it, or else the
    one after the other."""
    old, new = (one if isinstance(one, Dataset) else Dataset(one) for one in (table, more))
    return new.with_older_rows() if new.continues(old) else Dataset.concat([old, new])


def given_ranks(size: int | None, rank: int | None, found: Ranks = ONE_RANK) -> Ranks:
    """The number of ranks and this one's: as given, else as `found` tells when an epoch begins."""
    if size is None and rank is None:
        return found
    if size is not None and size > 1 and rank is None:
        raise ArgumentError(f"global_size={size} without global_rank; wanted both, or every rank would be the first")
    return fixed_ranks(1 if size is None else size, 0 if rank is None else rank)


def torch_process_group() -> tuple[int, int]:
    """World size and rank of PyTorch's process group, where the program has one. PyTorch is not loaded for this."""
    group = sys.modules.get("torch.distributed")
    if group is not None and group.is_available() and group.is_initialized():
        return group.get_world_size(), group.get_rank()
    return 1, 0


def last_batch(last: Last | None, drop_last: bool, default: Last = "short") -> Last:
    """What becomes of an incomplete last batch. `drop_last` is the older spelling of `last="drop"`."""
    if drop_last and last == "pad":
        raise ArgumentError("last='pad' fills up the last batch, and drop_last=True drops it; give one of the two")
    return "drop" if drop_last else last or default


def names_of(names: str | Sequence[str]) -> list[str]:
    """Names of columns as a list, each once; those of a set in the order of the alphabet."""
    if isinstance(names, str):
        return [names]
    found: Any = names.tolist() if hasattr(names, "tolist") else names  # an array, or a pandas Index
    if isinstance(found, Set) and not isinstance(found, Mapping):
        found = sorted(found, key=str)
    if not isinstance(found, Sequence):
        raise ColumnError(f"found {names!r} where names of columns were wanted; give a list of names")
    return list(dict.fromkeys(found))


def named_or_tagged(names: str | Sequence[str] | None, schema: Schema, tag: Tags) -> list[str]:
    """The columns of a group: those named, or those tagged."""
    return names_of(schema.select_by_tag(tag).column_names if names is None else names)


def checked_transforms(transforms: Any) -> list[Callable[..., Any]]:
    """Functions of features, as a list."""
    if callable(transforms):
        raise ArgumentError("transforms is a function; wanted a list of them: transforms=[f]")
    for transform in transforms or ():
        if not callable(transform):
            raise ArgumentError(f"transforms holds {transform!r}; wanted functions of a dict of features")
    return list(transforms or ())


def transformed(transform: Callable[..., Any], features: Any) -> Any:
    """What a function makes of the features."""
    made = transform(features)
    if made is None:
        raise ArgumentError("a transform gave None; wanted the features; end it with `return features`")
    return made
