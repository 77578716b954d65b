"""Any map-style dataset as memory-mapped tensors: `dataset_to_tensordict` wraps it, `Collate_Fn` makes batches of it.

    ds = dataset_to_tensordict(ds=ds, DEVICE=DEVICE)
    loader = DataLoader(ds, batch_size=64, shuffle=True, collate_fn=Collate_Fn(batch_size=64, DEVICE=DEVICE))

Wrapping fetches every item once and writes it to a store (see `rowmill.store`); an interrupted wrapping goes on where
it stood, and an unchanged dataset is not wrapped twice. A batch is then one gather a leaf, whatever an item cost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

try:
    import torch
    from tensordict import TensorDict
    from torch.utils.data import DataLoader, Dataset
except ImportError as error:
    needs = "PyTorch" if (error.name or "").startswith("torch") else "tensordict"
    raise ImportError(f"rowmill.loader.tensordict needs {needs}; pip install 'rowmill[tensordict]'") from error

from rowmill._system.interrupts import interruptible
from rowmill._system.progress import progress_bar
from rowmill._system.threads import Writer
from rowmill.errors import (
    ArgumentError,
    DamagedStoreError,
    DtypeError,
    ItemError,
    StoreError,
    describe_os_error,
    is_scarcity,
    system_error,
    writing,
)
from rowmill.feed.memory.block import Array, Block, Blocks
from rowmill.feed.run.cache_protocol import as_rows
from rowmill.loader._torch.cuda import each_tensor
from rowmill.loader._torch.item_schema import Batches, Form, fetched, form_of
from rowmill.sources.files.paths import local_path
from rowmill.store import files
from rowmill.store.cache.cache_directory import own_folder
from rowmill.store.format import BUILDING, FORMAT, StoreShape
from rowmill.store.store import Store
from rowmill.store.verify import verify

__all__ = ["Collate_Fn", "MappedItems", "dataset_to_tensordict", "put_batch_on_device"]

SAMPLED = 32  # items that are looked at to see whether a dataset has changed


@interruptible
def dataset_to_tensordict(
    ds: Any,
    DEVICE: Any = "cpu",  # noqa: N803 - the name that its users know
    *,
    folder: str | PathLike[str] | None = None,
    batch_size: int = 1024,
    num_workers: int = 0,
    fingerprint: str | None = None,
    progress: bool | None = None,
) -> MappedItems:
    """The items of a map-style dataset, mapped from a store in `folder` (by default that of `cache="auto"`).

    With `num_workers` items are fetched by as many processes. A store is used again if the dataset's class, length and
    32 items spread over it are the same; `fingerprint`, any text, says it instead (a version, a hash of the files).
    """
    if hasattr(ds, "iloc") or hasattr(ds, "collect_schema"):
        raise ArgumentError(
            f"ds is a {type(ds).__name__}; wanted a dataset of items by number; a table goes straight into "
            f"rowmill.loader.torch.Loader(..., cache=...)"
        )
    device = _device(DEVICE)  # before anything is stored
    files.check_system()
    rows = _length(ds)
    form = form_of(fetched(ds, 0))
    place = _letters(type(ds).__module__, type(ds).__qualname__, rows, repr(form))
    key = _letters(place, fingerprint if fingerprint is not None else _sampled(ds, form, rows))
    home = _home(folder)
    name = home / f"{place[:12]}-{key[:20]}-{FORMAT}"
    shape = StoreShape(form.layout, rows)
    store = _opened(shape, name)
    if not store.complete:
        _fill(store, ds, form, batch_size, num_workers, progress)
        with writing(name):
            store.finish({"key": key, "source": type(ds).__qualname__})
        store = _opened(shape, name)
    return MappedItems(store, form, device)


def _device(device: Any) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(
            f"DEVICE={device!r} is no device of PyTorch; wanted 'cpu', 'cuda' or the like; a folder goes to folder="
        ) from error


def _fill(store: Store, ds: Any, form: Form, batch_size: int, num_workers: int, progress: bool | None) -> None:
    """Fetch and write all items that the store lacks."""
    rows = store.shape.rows
    for first in range(0, rows, batch_size):
        store.verify(first, min(batch_size, rows - first))  # what a killed process wrote may be half on the disk
    with store.claim(0, rows) as gaps, progress_bar("wrapping", rows, progress) as done:
        if not gaps and store.missing(0, rows):
            raise StoreError(f"another process is wrapping this dataset into {store.folder}; wait for it to end")
        runs = [
            (first, min(batch_size, gap + count - first))
            for gap, count in gaps
            for first in range(gap, gap + count, batch_size)
        ]
        batches: Any = Batches(ds, form, runs)
        fetch = DataLoader(batches, batch_size=None, num_workers=num_workers, collate_fn=_itself)
        with Writer(partial(_write, store), "rowmill-store") as writer:  # one batch, while the next is fetched
            for start, arrays in fetch:
                writer.put((start, arrays))
                done(len(arrays[0]))


def _write(store: Store, batch: tuple[int, Sequence[Array]]) -> None:
    start, arrays = batch
    flat = [array.reshape(len(array), -1) for array in arrays]
    with writing(store.folder):
        store.record([store.piece(start, len(flat[0]), store.write(start, flat))])


class MappedItems(Dataset[Any]):
    """Items by number, as the wrapped dataset gives them, with tensors that are mapped; `tensordict` has all."""

    def __init__(self, store: Store, form: Form, device: torch.device) -> None:
        self._store: Store | None = store
        self._shape, self._folder = store.shape, cast("Path", store.folder)
        self.form, self.device = form, device

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None}

    @property
    def store(self) -> Store:
        if self._store is None:  # in a spawned process
            self._store = _opened(self._shape, self._folder)
        return self._store

    @property
    def folder(self) -> Path:
        """The folder of the store; its format is that of all stores."""
        return self._folder

    @property
    def tensordict(self) -> TensorDict:
        """All items as one TensorDict with the names and structure of an item; read, not copied."""
        tensors = [
            leaf.restored(private.view(leaf.dtype).reshape(len(self), matrix.width))
            for leaf, matrix, private in zip(
                self.form.leaves, self._shape.layout.matrices, self.store.private_maps(), strict=True
            )
        ]
        return TensorDict(_named(self.form.filled(tensors)), batch_size=[len(self)])

    def __len__(self) -> int:
        return self._shape.rows

    def __getitem__(self, index: Any) -> Any:
        """One item; or, for a slice, a list, an array or a mask, a batch of them."""
        if isinstance(index, int | np.integer):
            return each_tensor(self.batch([int(index)]), lambda tensor: tensor[0])
        return self.batch(index)

    def __getitems__(self, indices: Sequence[int]) -> Items:
        """What a stock `DataLoader` calls for a batch."""
        return Items(self.batch(indices), len(indices))

    def batch(self, rows: Any) -> Any:
        """These items as one batch: the structure of an item, every tensor with one more dimension in front."""
        numbers = as_rows(rows, len(self))
        layout, room = self._shape.layout, max(1, len(numbers))
        block = Block.new(layout, room)
        self.store.gathered(numbers).copy_rows(0, np.arange(len(numbers), dtype=np.uint32), Blocks([block]))
        leaves = zip(self.form.leaves, block.matrices, strict=True)
        return self.form.filled([leaf.restored(matrix[: len(numbers)]) for leaf, matrix in leaves])


class Items(Sequence[Any]):
    """Items fetched together: a batch, of which item after item can be taken."""

    def __init__(self, batch: Any, rows: int) -> None:
        self.batch, self.rows = batch, rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: Any) -> Any:
        if not -self.rows <= index < self.rows:
            raise IndexError(index)
        return each_tensor(self.batch, lambda tensor: tensor[index])


class Collate_Fn:  # noqa: N801 - the name that its users know
    """For `DataLoader(ds, collate_fn=...)`: the batch as it was gathered, transformed, and on the device.

    `transform` is called once a batch: with the first part of items that are tuples (`x` of `(x, y)`), with the whole
    of others. `batch_size` is what the `DataLoader` was given, and is checked.
    """

    def __init__(
        self,
        batch_size: int | None = None,
        DEVICE: Any = "cpu",  # noqa: N803
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.batch_size, self.device, self.transform = batch_size, torch.device(DEVICE), transform

    def __call__(self, items: Any) -> Any:
        batch = items.batch if isinstance(items, Items) else torch.utils.data.default_collate(list(items))
        if self.batch_size is not None and len(items) > self.batch_size:
            raise ItemError(
                f"a batch of {len(items)} items; wanted at most batch_size={self.batch_size}; give both alike"
            )
        if self.transform is not None:
            if isinstance(batch, tuple | list):
                changed = (self.transform(batch[0]), *batch[1:])
                batch = batch._make(changed) if hasattr(batch, "_make") else changed
            else:
                batch = self.transform(batch)
        return put_batch_on_device(batch, self.device)


def put_batch_on_device(batch: Any, DEVICE: Any = "cpu") -> Any:  # noqa: N803
    """A copy of the structure with every tensor on the device; pinned on the way to a GPU."""
    device = torch.device(DEVICE)
    if isinstance(batch, TensorDict):
        return batch.to(device)
    if device.type != "cuda":
        return each_tensor(batch, lambda tensor: tensor.to(device))
    return each_tensor(batch, lambda tensor: tensor.pin_memory().to(device, non_blocking=True))


def as_tensordict(
    features: Mapping[str, Any], targets: Mapping[str, torch.Tensor], rows: int, own: Container[str] = ()
) -> TensorDict:
    """Features and targets of a batch as one TensorDict; list columns become nested (jagged) tensors.

    `own` are the table's columns: one that is named like the values of a list column is not taken for them.
    """
    found: dict[str, Any] = {}
    for name, value in {**features, **targets}.items():
        if (
            name.endswith("__values")
            and name not in own
            and (offsets := features.get(f"{name[:-8]}__offsets")) is not None
        ):
            found[name[:-8]] = torch.nested.nested_tensor_from_jagged(value, offsets)
        elif name.endswith("__offsets") and name not in own and f"{name[:-9]}__values" in features:
            continue
        elif isinstance(value, torch.Tensor):
            found[name] = value
        else:
            raise DtypeError(
                f"column {name!r} holds strings, and a TensorDict holds tensors; leave it out with columns="
            )
    return TensorDict(found, batch_size=[rows])


def _opened(shape: StoreShape, name: Path) -> Store:
    """The store of this name: complete and whole, or one to be filled."""
    for _ in range(3):
        try:
            found = _looked_up(shape, name)
        except OSError as error:
            reason = describe_os_error(error)[0]
            if is_scarcity(error):
                raise system_error(error, f"writing {name}") from error
            raise StoreError(f"the store {name} cannot be used: {reason}; give another folder=") from error
        if found is not None:
            return found
    raise StoreError(f"{name} changes while it is opened; wait for the other process to end")


def _looked_up(shape: StoreShape, name: Path) -> Store | None:
    """The store of this name; None if a damaged one was removed, or another process has just completed it."""
    building = name.with_name(name.name + BUILDING)
    try:
        found = Store.completed(shape, name)
        if found is not None and verify(found):
            return found
    except DamagedStoreError as error:
        files.remove_damaged(name, error)
        return None
    try:
        begun = Store.building(shape, name)
    except DamagedStoreError as error:
        files.remove_damaged(building, error)
        return None
    return None if files.is_folder(name) else begun


def _home(folder: str | PathLike[str] | None) -> Path:
    """The folder of the stores: the one that was given, or that of `cache="auto"`."""
    try:
        return own_folder() if folder is None else local_path(folder, "folder").expanduser().absolute()
    except OSError as error:
        raise StoreError(
            f"the default cache folder cannot be used: {describe_os_error(error)[0]}; give folder="
        ) from error


def _length(ds: Any) -> int:
    try:
        rows = len(ds)
    except TypeError as error:
        raise ItemError(f"{type(ds).__name__} has no length; wanted a map-style dataset with __len__") from error
    if rows < 1:
        raise ItemError(f"{type(ds).__name__} has no items; wanted at least one")
    return rows


def _sampled(ds: Any, form: Form, rows: int) -> str:
    found = hashlib.sha256()
    for index in sorted({rows * k // SAMPLED for k in range(SAMPLED)} | {rows - 1}):
        for array in Batches(ds, form, [(index, 1)])[0][1]:
            found.update(array.tobytes())
    return found.hexdigest()


def _letters(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _named(structure: Any) -> dict[str, Any]:
    """Tuples as dicts of their names, or of "0", "1", ...; a lone tensor as "item"."""
    if isinstance(structure, torch.Tensor):
        return {"item": structure}
    if hasattr(structure, "_asdict"):
        structure = structure._asdict()
    pairs = structure.items() if isinstance(structure, dict) else enumerate(structure)
    return {str(name): value if isinstance(value, torch.Tensor) else _named(value) for name, value in pairs}


def _itself(batch: Any) -> Any:
    return batch
