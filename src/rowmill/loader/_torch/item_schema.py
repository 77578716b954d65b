"""Items of a map-style dataset as rows of numbers: what an item is made of, and batches of items as arrays.

Comes in: items that are tensors, arrays, numbers, or dicts and tuples of them, to any depth. Goes out: a `Form`, and
one array a leaf. Called by `tensordict`; `Batches` also runs in the worker processes of a `DataLoader`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from rowmill.errors import ItemError
from rowmill.feed.memory.block import Array, Layout, Matrix

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class ItemLeaf:
    """A tensor in every item: where it stands in the item, its dtype and shape. bfloat16 is kept as its 16 bits."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bfloat16: bool = False

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path)) or "item"

    @property
    def kind(self) -> str:
        """The dtype by its name, that of NumPy or bfloat16."""
        return "bfloat16" if self.bfloat16 else self.dtype.name

    def restored(self, rows: Array) -> torch.Tensor:
        """Rows of this leaf as a tensor that looks into them."""
        tensor = torch.from_numpy(rows.reshape(len(rows), *self.shape))
        return tensor.view(torch.bfloat16) if self.bfloat16 else tensor


@dataclass(frozen=True)
class Form:
    """What all items look like: the structure (leaves are their numbers), and the leaves."""

    structure: Any
    leaves: tuple[ItemLeaf, ...]

    @property
    def layout(self) -> Layout:
        return Layout(
            tuple(
                Matrix(f"leaf_{number}", leaf.dtype, (leaf.name,), (math.prod(leaf.shape),))
                for number, leaf in enumerate(self.leaves)
            )
        )

    def filled(self, tensors: list[torch.Tensor]) -> Any:
        """The structure, with a tensor for each leaf."""
        return _filled(self.structure, tensors)


def form_of(item: Any) -> Form:
    """The form of an item, by which all others are measured."""
    leaves: list[ItemLeaf] = []
    structure = _walk(item, (), leaves)
    if not leaves:
        raise ItemError("item 0 holds no tensor, array or number; wanted at least one")
    return Form(structure, tuple(leaves))


def _walk(value: Any, path: Path, leaves: list[ItemLeaf]) -> Any:
    if isinstance(value, Mapping):
        return {key: _walk(inner, (*path, key), leaves) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return _like(value, [_walk(inner, (*path, place), leaves) for place, inner in enumerate(value)])
    array = _array(value)
    where = f" at {'.'.join(map(str, path))!r}" if path else ""
    if array is None and isinstance(value, torch.Tensor):
        raise ItemError(
            f"item 0 holds a tensor of {value.dtype}, {value.layout}{where}; wanted a dense one of a dtype that NumPy "
            f"has too; convert it in __getitem__"
        )
    if array is None:
        raise ItemError(
            f"item 0 holds {type(value).__name__}{where}; wanted a tensor, an array, a number, or dicts and tuples of "
            f"them; return numbers from __getitem__"
        )
    if not array.size:
        raise ItemError(f"item 0 holds no value{where}, shape {array.shape}; wanted some; leave it out in __getitem__")
    leaves.append(ItemLeaf(path, array.dtype, array.shape, getattr(value, "dtype", None) is torch.bfloat16))
    return len(leaves) - 1


def _filled(structure: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(structure, dict):
        return {key: _filled(inner, tensors) for key, inner in structure.items()}
    if isinstance(structure, tuple):
        return _like(structure, [_filled(inner, tensors) for inner in structure])
    return tensors[structure]


def _like(given: Any, values: list[Any]) -> tuple[Any, ...]:
    """The values as a tuple, with names if the given one has names."""
    made: tuple[Any, ...] = given._make(values) if hasattr(given, "_make") else tuple(values)
    return made


def _array(value: Any) -> Array | None:
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu()
        try:
            return np.asarray(tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor.numpy())
        except TypeError:  # a dtype that NumPy does not have, or a sparse tensor
            return None
    if isinstance(value, np.ndarray | np.generic | bool | int | float):
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" else None
    return None


class Batches(Dataset[Any]):
    """Runs of items, each fetched and stacked at once; a wrong item is an error that names its index."""

    def __init__(self, ds: Any, form: Form, runs: list[tuple[int, int]]) -> None:
        self.ds, self.form, self.runs = ds, form, runs

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, number: int) -> tuple[int, list[Array]]:
        start, count = self.runs[number]
        items = [fetched(self.ds, index) for index in range(start, start + count)]
        stacked: list[tuple[str, Array]] = []
        try:
            _stack(self.form.structure, items, stacked)
        except (LookupError, TypeError, ValueError, RuntimeError, AttributeError):
            stacked.clear()
        shapes = [(kind, array.shape[1:]) for kind, array in stacked]
        if shapes == [(leaf.kind, leaf.shape) for leaf in self.form.leaves]:
            return start, [array for _, array in stacked]
        return start, self._one_by_one(start, items)

    def _one_by_one(self, start: int, items: list[Any]) -> list[Array]:
        """Convert items one by one, to find the item that is not like the others."""
        count = len(items)
        arrays = [np.empty((count, *leaf.shape), leaf.dtype) for leaf in self.form.leaves]
        for place in range(count):
            found = _leaves(items[place])
            for leaf, array in zip(self.form.leaves, arrays, strict=True):
                path, value = next(found, ((), None))
                own = None if value is None else _array(value)
                if own is None or path != leaf.path:
                    raise self._odd(start + place, leaf, "nothing of the kind", "return the same of every item")
                if own.shape != leaf.shape:
                    seen = f"{_kind(value, own)} of shape {own.shape}"
                    raise self._odd(start + place, leaf, seen, "pad or cut items to one shape")
                if _kind(value, own) != leaf.kind:
                    raise self._odd(start + place, leaf, _kind(value, own), "convert items to one dtype")
                array[place] = own
            if (more := next(found, None)) is not None:
                raise ItemError(f"item {start + place} has {more[0]} beside what item 0 has; wanted items all alike")
        return arrays

    def _odd(self, index: int, leaf: ItemLeaf, seen: str, what_to_do: str) -> ItemError:
        return ItemError(
            f"item {index} has {seen} at {leaf.name!r}; wanted {leaf.kind} of shape {leaf.shape}, as in item 0; "
            f"{what_to_do} in __getitem__"
        )


def _stack(structure: Any, values: list[Any], stacked: list[tuple[str, Array]]) -> None:
    """All items at once, leaf by leaf, with the dtype of each: a call for each leaf, not for each item. Fails if they
    are not alike: several dtypes would silently become one."""
    if isinstance(structure, dict | tuple):
        if {len(value) for value in values} != {len(structure)}:
            raise ValueError
        pairs = structure.items() if isinstance(structure, dict) else enumerate(structure)
        for key, inner in pairs:
            _stack(inner, [value[key] for value in values], stacked)
        return
    if len({getattr(value, "dtype", type(value)) for value in values}) > 1:
        raise ValueError
    array = _array(torch.stack(values)) if isinstance(values[0], torch.Tensor) else np.array(values)
    assert array is not None
    stacked.append((_kind(values[0], array), array))


def _kind(value: Any, array: Array) -> str:
    """The dtype of a value, of which this is the array, as `ItemLeaf.kind`."""
    return "bfloat16" if getattr(value, "dtype", None) is torch.bfloat16 else array.dtype.name


def fetched(ds: Any, index: int) -> Any:
    """`ds[index]`; what it raises, with the index named."""
    try:
        return ds[index]
    except IndexError as error:
        raise ItemError(
            f"the dataset says that it has {len(ds)} items, and has no item {index} ({error}); mend its __len__"
        ) from error
    except Exception as error:
        error.add_note(f"while fetching item {index} of {type(ds).__name__}")
        raise


def _leaves(item: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(item, Mapping):
        for key, inner in item.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(item, tuple | list):
        for place, inner in enumerate(item):
            yield from _leaves(inner, (*path, place))
    else:
        yield path, item
